"""SARIF: what each finding becomes, and what Microsoft's validator says about it with GitHub's rules."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from t4lint import engine
from t4lint.findings import Finding, Fix, Problem, Related, Report, Suppressed, TextEdit, Verdict
from t4lint.report.sarif import RESULTS, render
from t4lint.trace import Location, Origin

Validated = Callable[[Path], list[str]]  # the errors and warnings that Microsoft's validator has
WHERE = Location("train.py", 2, 5, 2, 14)
SOURCE = "a\nb = c(bf16=True)\nd\ne\nf\n"
EVIL = "\x1b[31m\x9b\u202e \udc80 [x](javascript:alert) {0} {{"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_WORKSPACE", "GITHUB_SHA", "GITHUB_REPOSITORY", "GITHUB_SERVER_URL", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)


def finding(message: str = "bf16 is emulated", **more: Any) -> Finding:
    given: dict[str, Any] = {"severity": "warning", "confidence": "likely", "location": WHERE, "help": "use fp16"}
    return Finding(more.pop("rule", "bf16-mixed-precision"), message=message, **{**given, **more})


def run(*findings: Finding, **more: Any) -> Any:
    given: dict[str, Any] = {"problems": (), "runs": (), "files": 1, "sources": {"train.py": SOURCE}}
    return json.loads(render(Report("t4", findings, **{**given, **more}), version="1.2.3"))["runs"][0]


def full() -> Finding:
    """A finding with everything that one can have."""
    flag = Origin("flag", "--bf16 True", Location("run.sh", 7, 3, 7, 14))
    return finding(
        fingerprint="abc",
        provenance=(flag, Origin("version", "torch 2.4")),
        related=(Related(Location("train.py", 4, 1, 5, 2), "takes effect here"),),
        runs=(0,),
        verdict=Verdict("confirmed", "phantom", "certain", "12 of 12 matmuls", "why"),
        fix=Fix("safe", "use fp16", (TextEdit("train.py", (2, 7), (2, 11), "fp16"), TextEdit("run.sh", (1, 1), (1, 2), ""))),
        suppressed=Suppressed("comment", "known", Location("train.py", 1, 1, 1, 2)),
    )  # fmt: skip


def test_a_full_result() -> None:
    made = run(full())
    (result,) = made["results"]
    index = result.pop("ruleIndex")
    assert made["tool"]["driver"]["rules"][index]["id"] == "bf16-mixed-precision"
    script = {"uri": "train.py", "uriBaseId": "%SRCROOT%"}
    shell = {"uri": "run.sh", "uriBaseId": "%SRCROOT%"}
    first = {
        "physicalLocation": {
            "artifactLocation": shell,
            "region": {"startLine": 7, "startColumn": 3, "endLine": 7, "endColumn": 14},
        },
        "message": {"text": "--bf16 True."},
    }
    last = {
        "physicalLocation": {
            "artifactLocation": script,
            "region": {"startLine": 4, "startColumn": 1, "endLine": 5, "endColumn": 2, "snippet": {"text": "e\nf"}},
        },
        "message": {"text": "takes effect here."},
    }
    assert result == {
        "ruleId": "bf16-mixed-precision",
        "level": "warning",
        "message": {"text": "bf16 is emulated. use fp16."},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": script,
                    "region": {
                        "startLine": 2, "startColumn": 5, "endLine": 2, "endColumn": 14,
                        "snippet": {"text": "b = c(bf16=True)"},
                    },
                    "contextRegion": {
                        "startLine": 1, "endLine": 4, "snippet": {"text": "a\nb = c(bf16=True)\nd\ne"},
                    },
                }
            }
        ],
        "partialFingerprints": {"t4lint/v1": "abc"},
        "relatedLocations": [{"id": 1, **last}, {"id": 2, **first}],
        "codeFlows": [{"threadFlows": [{"locations": [{"location": first}, {"location": last}]}]}],
        "suppressions": [
            {
                "kind": "inSource",
                "justification": "known",
                "location": {
                    "physicalLocation": {
                        "artifactLocation": script,
                        "region": {
                            "startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 2, "snippet": {"text": "a"},
                        },
                    }
                },
            }
        ],
        "fixes": [
            {
                "description": {"text": "use fp16."},
                "artifactChanges": [
                    {
                        "artifactLocation": script,
                        "replacements": [
                            {
                                "deletedRegion": {"startLine": 2, "startColumn": 7, "endLine": 2, "endColumn": 11},
                                "insertedContent": {"text": "fp16"},
                            }
                        ],
                    },
                    {
                        "artifactLocation": shell,
                        "replacements": [
                            {"deletedRegion": {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 2}}
                        ],
                    },
                ],
            }
        ],
        "properties": {
            "confidence": "likely",
            "provenance": ["--bf16 True", "torch 2.4"],
            "runs": [0],
            "verdict": {
                "verdict": "confirmed", "basis": "phantom", "confidence": "certain", "evidence": "12 of 12 matmuls",
                "reason": "why",
            },
        },
    }  # fmt: skip


def test_every_rule_has_its_page() -> None:
    rules = run()["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.name for rule in engine.rules()]
    for made, rule in zip(rules, engine.rules(), strict=True):
        assert made["help"]["markdown"].startswith(rule.page.splitlines()[0])
        assert re.fullmatch(r"[A-Z][A-Za-z0-9]+", made["name"])
        assert made["helpUri"].endswith(f"/rules/{rule.name}.html")


def test_only_the_rules_that_ran_are_named() -> None:
    rules = run(finding(rule="bf16-weights"), rules=("pin-memory-disabled",))["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["pin-memory-disabled", "bf16-weights"]


def test_a_rule_of_somebody_else() -> None:
    made = run(finding(rule="my-rule"), finding(rule="my-rule"))
    assert made["tool"]["driver"]["rules"][made["results"][0]["ruleIndex"]]["help"] == {"text": "use fp16."}


def test_suppressed_findings_are_results_and_refuted_ones_are_not() -> None:
    refuted = finding(verdict=Verdict("refuted", "phantom", "certain", "no bf16 was seen"))
    made = run(refuted, suppressed=(finding(suppressed=Suppressed("baseline")),))
    assert [result["suppressions"] for result in made["results"]] == [[{"kind": "external"}]]
    (note,) = made["invocations"][0]["toolExecutionNotifications"]
    assert note["level"] == "note"
    assert note["message"]["text"] == (
        "A run (phantom) has refuted bf16-mixed-precision at train.py:2:5: no bf16 was seen."
    )


def test_problems_are_notifications() -> None:
    (invocation,) = run(problems=(Problem("a.py", "no syntax", 3, 4), Problem("", "bad")))["invocations"]
    assert invocation["executionSuccessful"] is False
    first, second = invocation["toolExecutionNotifications"]
    assert first["locations"][0]["physicalLocation"]["region"] == {"startLine": 3, "startColumn": 4}
    assert second == {"level": "error", "message": {"text": "bad."}}


def test_notebook_lines_are_those_of_the_file() -> None:
    where = Location("a.ipynb", 30, 5, 30, 9, cell=0, cell_line=2)
    (result,) = run(finding(location=where))["results"]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 30
    assert (result["properties"]["cell"], result["properties"]["cellLine"]) == (0, 2)


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    made = run(
        *(finding(location=Location(path, 1, 1, 1, 2)) for path in ("a b#%/模.py", "../x.py", "/elsewhere/y.py"))
    )
    found = {
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]: result["locations"][0][
            "physicalLocation"
        ]["artifactLocation"].get("uriBaseId")
        for result in made["results"]
    }
    assert found == {
        "x.py": "%SRCROOT%",
        "sub/a%20b%23%25/%E6%A8%A1.py": "%SRCROOT%",
        "file:///elsewhere/y.py": None,
    }


def test_where_the_files_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SERVER_URL": "https://github.com", "REPOSITORY": "me/it", "SHA": "abc"}.items():
        monkeypatch.setenv(f"GITHUB_{name}", value)
    assert run()["versionControlProvenance"] == [
        {"repositoryUri": "https://github.com/me/it", "revisionId": "abc", "mappedTo": {"uriBaseId": "%SRCROOT%"}}
    ]


def test_no_links_and_no_escapes_from_programs() -> None:
    text = render(Report("t4", (finding(EVIL),), (), (), 1), version="1")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\udc80]", text)
    (result,) = json.loads(text)["runs"][0]["results"]
    assert "\\[x](javascript:alert)" in result["message"]["text"]


def test_no_more_results_than_github_takes() -> None:
    found = [finding(location=Location("a.py", line, 1, line, 2)) for line in range(1, RESULTS + 10)]
    worst = finding(severity="error", location=Location("z.py", 1, 1, 1, 2))
    results = run(*found, worst)["results"]
    assert len(results) == RESULTS
    assert results[-1]["level"] == "error"


# --- the validator -----------------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_the_validator_has_nothing_to_say(validated: Validated, tmp_path: Path) -> None:
    notebook = Location("a b.ipynb", 30, 5, 30, 9, cell=0, cell_line=2)
    made = Report(
        "g4dn.12xlarge",
        (
            full(), finding(EVIL), finding(rule="my-rule"), finding(location=notebook), finding(severity="error"),
            finding(severity="note", help=""), finding(location=Location("empty.py", 1, 1, 1, 1)),
            finding(verdict=Verdict("refuted", "phantom", "certain", "no bf16")),
        ),
        (Problem("a.py", "no syntax", 3, 4), Problem("", "bad setting")), (), 4,
        {"train.py": SOURCE, "empty.py": ""}, suppressed=(finding(suppressed=Suppressed("baseline")),),
    )  # fmt: skip
    (tmp_path / "full.sarif").write_text(render(made, version="1.2.3"), encoding="utf-8")
    (tmp_path / "clean.sarif").write_text(render(Report("t4", (), (), (), 1), version="1.2.3"), encoding="utf-8")
    assert validated(tmp_path / "full.sarif") == []
    assert validated(tmp_path / "clean.sarif") == []


@pytest.mark.heavy
def test_the_validator_has_nothing_to_say_about_the_example(validated: Validated, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parent.parent
    command = [sys.executable, "-m", "t4lint", "examples", "--output-format", f"sarif:{tmp_path / 'it.sarif'}"]
    subprocess.run(command, cwd=root, check=False, timeout=300)
    assert len(json.loads((tmp_path / "it.sarif").read_text())["runs"][0]["results"]) > 3
    assert validated(tmp_path / "it.sarif") == []


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "break_it"),
    [
        ("line", lambda it: it["results"][0]["locations"][0]["physicalLocation"]["region"].update(startLine=0)),
        ("rule", lambda it: it["results"][0].update(ruleIndex=999)),
        ("help", lambda it: [rule.pop("help") for rule in it["tool"]["driver"]["rules"]]),
        ("key", lambda it: it["results"][0].update(surprise=1)),
    ],
)
def test_the_validator_can_see(validated: Validated, tmp_path: Path, name: str, break_it: Any) -> None:
    log = json.loads(render(Report("t4", (full(),), (), (), 1), version="1.2.3"))
    break_it(log["runs"][0])
    file = tmp_path / f"{name}.sarif"
    file.write_text(json.dumps(log), encoding="utf-8")
    assert validated(file) != []
