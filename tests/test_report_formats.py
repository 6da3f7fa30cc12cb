"""The other formats for machines: what each must hold, and that nothing in a program can break out of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from t4lint.findings import Finding, Fix, Problem, Report, Suppressed, TextEdit, Verdict
from t4lint.report import gitlab, jsonl, junit, markdown, rdjson
from t4lint.trace import Location, Origin

EVIL = "\x1b[31m\x00\x9b \u202e ]]></failure><x a=\"'&\ufffe\udc80 | `a|b` <img src=x> [l](http://e) @all\n## h\r\n| x"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_WORKSPACE", "GITHUB_SHA", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)


def finding(line: int = 1, severity: Any = "warning", message: str = "it is slow", **more: Any) -> Finding:
    where = more.pop("where", Location(more.pop("path", "train.py"), line, 5, line, 9))
    rule = more.pop("rule", "bf16-weights")
    return Finding(rule, severity, "certain", where, message, more.pop("help", "do this"), **more)


def report(*findings: Finding, **more: Any) -> Report:
    return Report("t4", findings, more.pop("problems", ()), (), 3, more.pop("sources", {}), **more)


def evil() -> Report:
    origin = Origin("literal", EVIL, Location(EVIL, 2, 1, 2, 2))
    bad = finding(message=EVIL, path=EVIL, help=EVIL, rule=EVIL, provenance=(origin,))
    return report(bad, problems=(Problem(EVIL, EVIL, 1),), sources={EVIL: EVIL}, checked=(EVIL, "good.py"))


HIDDEN = (
    finding(verdict=Verdict("refuted", "phantom", "certain")),
    finding(suppressed=Suppressed("baseline", "old")),
)
FORMATS = [gitlab, jsonl, junit, markdown, rdjson]


@pytest.mark.parametrize("format", FORMATS)
def test_nothing_can_move_a_cursor_or_reorder_text(format: Any) -> None:
    text = format.render(evil(), version="1")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\udc80]", text)
    text.encode("utf-8")


# --- GitLab ------------------------------------------------------------------------------------------------------


def test_gitlab() -> None:
    found = finding(4, "error", fingerprint="abc", where=Location("a.py", 4, 1, 6, 2))
    (issue,) = json.loads(gitlab.render(report(found), version="1"))
    assert {key: issue[key] for key in ("description", "check_name", "fingerprint", "severity", "location")} == {
        "description": "it is slow",
        "check_name": "bf16-weights",
        "fingerprint": "abc",
        "severity": "critical",
        "location": {"path": "a.py", "lines": {"begin": 4, "end": 6}},
    }


def test_gitlab_fingerprints_are_unique() -> None:
    found = [finding(line, fingerprint="abc") for line in (1, 2, 3)] + [finding(9), finding(10)]
    issues = json.loads(gitlab.render(report(*found, problems=(Problem("a", "b"), Problem("a", "b"))), version="1"))
    assert len({issue["fingerprint"] for issue in issues}) == len(issues) == 7
    assert issues[0]["fingerprint"] == "abc"


def test_gitlab_says_what_could_not_be_checked() -> None:
    (issue,) = json.loads(gitlab.render(report(problems=(Problem("a.py", "no syntax", 3),)), version="1"))
    assert (issue["severity"], issue["location"]) == ("blocker", {"path": "a.py", "lines": {"begin": 3}})


# --- JUnit -------------------------------------------------------------------------------------------------------


def cases(made: Report) -> list[tuple[str, str | None, str | None]]:
    root = ET.fromstring(junit.render(made, version="1"))
    for suite in root:
        found = list(suite)
        assert suite.attrib["tests"] == str(len(found))
        assert suite.attrib["failures"] == str(sum(case.find("failure") is not None for case in found))
    assert root.attrib["tests"] == str(sum(int(suite.attrib["tests"]) for suite in root))
    return [
        (case.attrib["name"], case.attrib.get("classname"), next((part.tag for part in case), None))
        for case in root.iter("testcase")
    ]


def test_junit() -> None:
    found = (finding(4, "error"), finding(5, "note"))
    made = report(*found, problems=(Problem("b.py", "no syntax", 3),), checked=("b.py", "c.py", "train.py"))
    assert cases(made) == [
        ("bf16-weights (4:5)", "train.py", "failure"),
        ("bf16-weights (5:5)", "train.py", "system-out"),
        ("could not be checked (3)", "b.py", "error"),
        ("no findings", "c.py", None),
    ]


def test_junit_without_findings_is_a_test_that_passed() -> None:
    assert cases(report(*HIDDEN)) == [("no findings (3 files)", "t4lint", None)]


def test_junit_cannot_be_broken_out_of() -> None:
    root = ET.fromstring(junit.render(evil(), version="1"))
    assert {element.tag for element in root.iter()} == {"testsuites", "testsuite", "testcase", "failure", "error"}
    assert "]]></failure><x" in (next(root.iter("failure")).text or "")


# --- rdjson ------------------------------------------------------------------------------------------------------


def test_rdjson_counts_bytes() -> None:
    edit = TextEdit("train.py", (1, 8), (1, 9), "x")
    found = finding(where=Location("train.py", 1, 8, 1, 9), fix=Fix("safe", "t", (edit,)))
    (it,) = json.loads(rdjson.render(report(found, sources={"train.py": "a = '模' + b"}), version="1.2"))["diagnostics"]
    place = {"start": {"line": 1, "column": 10}, "end": {"line": 1, "column": 11}}
    assert it["location"] == {"path": "train.py", "range": place}
    assert it["suggestions"] == [{"range": place, "text": "x"}]
    assert it["severity"] == "WARNING"
    assert it["code"] == {
        "value": "bf16-weights",
        "url": "https://t4lint.github.io/t4lint/rules/bf16-weights.html",
    }
    assert it["message"] == "it is slow\nhelp: do this"


def test_rdjson_suggests_nothing_that_needs_another_file() -> None:
    edits = (TextEdit("train.py", (1, 1), (1, 2), "x"), TextEdit("run.sh", (1, 1), (1, 2), "x"))
    (it,) = json.loads(rdjson.render(report(finding(fix=Fix("safe", "t", edits))), version="1"))["diagnostics"]
    assert "suggestions" not in it


def test_rdjson_problems() -> None:
    (it,) = json.loads(rdjson.render(report(problems=(Problem("a.py", "no", 3),)), version="1"))["diagnostics"]
    assert it == {
        "message": "no",
        "location": {"path": "a.py", "range": {"start": {"line": 3}}},
        "severity": "ERROR",
    }


# --- Markdown ----------------------------------------------------------------------------------------------------


def test_markdown() -> None:
    made = report(finding(4), finding(9, "error", "`a | b` is *bad*", help=""), problems=(Problem("b.py", "no", 3),))
    assert markdown.render(made, version="1") == (
        "### t4lint\n\n"
        "Found 2 findings (1 error, 1 warning) in 3 files; target: NVIDIA T4  \n"
        "1 problem kept t4lint from checking everything\n\n"
        "- **could not be checked** `b.py:3`: no\n\n"
        "| severity | rule | where | what |\n"
        "| --- | --- | --- | --- |\n"
        "| **error** | `bf16-weights` | `train.py:9` | `a \\| b` is \\*bad\\* |\n"
        "| warning | `bf16-weights` | `train.py:4` | it is slow<br>do this |\n"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", "a\\|b"),
        ("`a|b`", "`a\\|b`"),
        ("`a\\|b`", "a\\\\\\|b"),
        ("`a\\x`", "`a\\x`"),
        ("`", "\\`"),
        ("``a`", "\\`\\`a\\`"),
        ("`a` and ` and `b`", "`a` and `and`b\\`"),
        ("<b>&amp;", "\\<b\\>\\&amp;"),
        ("[l](x)", "\\[l\\](x)"),
        ("@all", "@\u200ball"),
        ("a\n| --- |", "a \\| --- \\|"),
    ],
)
def test_markdown_means_what_it_says(text: str, shown: str) -> None:
    assert markdown.escaped(text) == shown


def test_evil_stays_in_its_row() -> None:
    text = markdown.render(evil(), version="1")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 3
    assert all(len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 5 for row in rows)
    assert "<img" not in text.replace("\\<img", "")


# --- JSON lines --------------------------------------------------------------------------------------------------


def test_json_lines() -> None:
    rows = [
        json.loads(row)
        for row in jsonl.render(report(finding(), problems=(Problem("a", "b"),)), version="1").splitlines()
    ]
    assert rows[0]["rule"] == "bf16-weights"
    assert rows[1] == {"error": {"path": "a", "line": None, "message": "b"}}


@pytest.mark.parametrize("format", [gitlab, junit, markdown, rdjson])
def test_what_is_refuted_or_suppressed_is_not_shown(format: Any) -> None:
    assert "bf16-weights" not in format.render(report(*HIDDEN), version="1")


# --- concise ------------------------------------------------------------------------------------------------------


def test_the_problem_matcher_reads_the_concise_lines() -> None:
    """As a runner does: the expression line by line, its groups by number. Lines of cells are no lines of files."""
    from t4lint.report import concise

    file = Path(__file__).resolve().parents[1] / "problem-matcher.json"
    (matcher,) = json.loads(file.read_text(encoding="utf-8"))["problemMatcher"]
    (pattern,) = matcher["pattern"]
    notebook = Location("a b.ipynb", 30, 5, 30, 9, cell=0, cell_line=2)
    findings = (
        Finding("bf16-weights", "error", "certain", Location("src/a.py", 3, 7, 3, 9), "one\ntwo: 3", ""),
        Finding("fp32-training", "note", "likely", notebook, "slow", ""),
    )
    text = concise.render(Report("t4", findings, (Problem("b.py", "is no Python", 3, 4),), (), 2), version="1")
    found = [match for line in text.splitlines() if (match := re.search(pattern["regexp"], line))]
    names = ("file", "line", "column", "severity", "code", "message")
    assert [tuple(match[pattern[name]] for name in names) for match in found] == [
        ("src/a.py", "3", "7", "error", "bf16-weights", "one two: 3"),
    ]
    assert "b.py:3:4: error is no Python" in text.splitlines()
