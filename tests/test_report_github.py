"""Annotations and the job summary, read by a runner that keeps GitHub's rules (actions/runner, ActionCommand.cs)."""

from __future__ import annotations

import io
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from t4lint.findings import Finding, Problem, Report, Suppressed, Verdict
from t4lint.report import outputs
from t4lint.report.github import MESSAGE_LIMIT, SUMMARY_LIMIT, inert, render, write_summary
from t4lint.trace import Location, Origin

COMMANDS = {"error", "warning", "notice", "debug", "add-mask", "set-env", "add-path", "group", "endgroup", "set-output"}


@dataclass
class Runner:
    """What a step's log makes of its lines: annotations up to the limits, other commands, and what was dropped."""

    annotations: list[tuple[str, dict[str, str], str]] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    others: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    token: str | None = None

    def read(self, output: str) -> Runner:
        for line in re.split("\r\n|\r|\n", output):
            self._line(line)
        return self

    def _line(self, line: str) -> None:
        found = self._second_form(line) or self._first_form(line)
        if found is None:
            self.log.append(line)
            return
        name, properties, data = found
        if self.token is not None:
            self.token = None if name == self.token else self.token
            self.log.append(line)
        elif name == "stop-commands":
            self.token = data
        elif name in ("error", "warning", "notice"):
            self._annotate(name, properties, data)
        else:
            self.others.append(name)

    def _annotate(self, level: str, properties: dict[str, str], data: str) -> None:
        assert len(data) <= MESSAGE_LIMIT
        if properties.get("line") != properties.get("endLine"):
            assert not {"col", "endColumn"} & set(properties)
        if sum(name == level for name, _, _ in self.annotations) < 10:
            self.annotations.append((level, properties, data))
        else:
            self.dropped[level] += 1

    def _known(self, info: str) -> bool:
        return info.split(" ")[0].lower() in {*COMMANDS, "stop-commands", self.token}

    def _second_form(self, line: str) -> tuple[str, dict[str, str], str] | None:
        line = line.lstrip()
        end = line.find("::", 2)
        if not line.startswith("::") or end < 0 or not self._known(line[2:end]):
            return None
        name, _, rest = line[2:end].partition(" ")
        pairs = [pair.split("=", 1) for pair in rest.strip().split(",") if "=" in pair]
        return name, {key: _unescaped(value, ":,") for key, value in pairs}, _unescaped(line[end + 2 :])

    def _first_form(self, line: str) -> tuple[str, dict[str, str], str] | None:
        start = line.find("##[")
        end = line.find("]", start)
        if start < 0 or end < 0 or not self._known(line[start + 3 : end]):
            return None
        return line[start + 3 : end].split(" ")[0], {}, line[end + 1 :]


def _unescaped(text: str, also: str = "") -> str:
    for char in ("\r", "\n", *also, "%"):
        text = text.replace(f"%{ord(char):02X}", char)
    return text


def finding(
    line: int = 1, severity: Any = "warning", path: str = "train.py", message: str = "m", **more: Any
) -> Finding:
    where = more.pop("where", Location(path, line, 5, line, 9))
    confidence = more.pop("confidence", "certain")
    return Finding("some-rule", severity, confidence, where, message, more.pop("help", ""), **more)


def report(*findings: Finding, **more: Any) -> Report:
    return Report("t4", findings, more.get("problems", ()), (), 3, more.get("sources", {}))


def run(*findings: Finding, **more: Any) -> Runner:
    return Runner().read(render(report(*findings, **more), version="1"))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "GITHUB_WORKSPACE", "GITHUB_STEP_SUMMARY", "GITHUB_SHA", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)


# --- annotations -------------------------------------------------------------------------------------------------


def test_an_annotation_with_all_that_it_has() -> None:
    origin = Origin("flag", "--bf16 True", Location("run.sh", 7, 3, 7, 14))
    assert run(finding(4, message="50% slower,\nsays: a::b", help="use fp16", provenance=(origin,))).annotations == [
        (
            "warning",
            {"file": "train.py", "line": "4", "endLine": "4", "col": "5", "endColumn": "9", "title": "some-rule"},
            "50% slower,\nsays: a::b\nfrom: --bf16 True (run.sh:7)\nhelp: use fp16",
        )
    ]


def test_only_what_must_be_escaped_is() -> None:
    text = render(report(finding(message="a: b, c%0A", path="a,b:c=100%.py")), version="1")
    assert text == (
        "::warning file=a%2Cb%3Ac=100%25.py,line=1,endLine=1,col=5,endColumn=9,title=some-rule::a: b, c%250A\n"
    )
    assert Runner().read(text).annotations[0][1]["file"] == "a,b:c=100%.py"


def test_a_span_of_several_lines_has_no_columns() -> None:
    ((_, properties, _),) = run(finding(where=Location("a.py", 3, 5, 8, 2))).annotations
    assert properties == {"file": "a.py", "line": "3", "endLine": "8", "title": "some-rule"}


def test_notes_are_notices_and_problems_are_errors() -> None:
    seen = run(finding(severity="note"), problems=(Problem("b.py", "no syntax", 3), Problem("", "bad setting")))
    assert [(level, it.get("file"), it.get("line")) for level, it, _ in seen.annotations] == [
        ("error", "b.py", "3"),
        ("error", None, None),
        ("notice", "train.py", "1"),
    ]


def test_what_is_refuted_or_suppressed_is_not_shown() -> None:
    refuted = Verdict("refuted", "phantom", "certain")
    assert run(finding(verdict=refuted), finding(suppressed=Suppressed("comment"))).annotations == []


def test_nothing_found_is_nothing_said() -> None:
    assert render(report(), version="1") == ""


def test_the_worst_come_first_and_one_notice_counts_the_rest() -> None:
    found = [finding(line, "warning", confidence="likely") for line in range(1, 150)]
    found += [finding(line, "error") for line in range(150, 190)]
    found += [finding(line, "note") for line in range(190, 201)]
    found += [finding(300, "warning", verdict=Verdict("confirmed", "phantom", "certain"))]
    seen = run(*found)
    assert not seen.dropped
    assert Counter(level for level, _, _ in seen.annotations) == {"error": 10, "warning": 10, "notice": 10}
    assert next(it["line"] for level, it, _ in seen.annotations if level == "warning") == "300"
    assert seen.annotations[-1][2] == (
        "30 errors, 140 warnings, 2 notices more: GitHub shows 10 of a kind. "
        "The log and the summary of this job have all of them."
    )


def test_ten_of_each_fit() -> None:
    seen = run(*(finding(line, level) for line in range(1, 11) for level in ("error", "warning", "note")))
    assert len(seen.annotations) == 30
    assert not seen.dropped


def test_long_messages_are_cut_where_github_cuts() -> None:
    ((_, _, message),) = run(finding(message="x" * 10_000)).annotations
    assert (len(message), message[-4:]) == (MESSAGE_LIMIT, "x...")


def test_paths_are_those_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    files = [
        it["file"]
        for _, it, _ in run(finding(path="a.py"), finding(path="../b.py"), finding(path="../../c.py")).annotations
    ]
    assert sorted(files) == ["../../c.py", "b.py", "sub/a.py"]


# --- injection ---------------------------------------------------------------------------------------------------

EVIL = [
    "x\n::error::gotcha",
    "x\r::add-mask::e",
    "::warning::gotcha",
    "##[add-mask]e",
    "a##[error]gotcha",
    "\x1b[2J\x1b]0;owned\x07",
    "\u202e::error::x\u2028::error::y",
    "\u200d::error::x",
    "%0A::error::x",
]


@pytest.mark.parametrize("text", EVIL)
def test_messages_and_names_cannot_give_commands(text: str) -> None:
    origin = Origin("literal", text, Location(text, 2, 1, 2, 2))
    found = finding(message=text, help=text, path=text, provenance=(origin,))
    seen = run(found, problems=(Problem(text, text, 1),))
    assert [level for level, _, _ in seen.annotations] == ["error", "warning"]
    assert seen.others == []
    assert seen.annotations[1][1]["line"] == "1"
    assert not any("\x1b" in part for _, it, said in seen.annotations for part in (said, *it.values()))


@pytest.mark.parametrize("text", EVIL)
def test_text_beside_annotations_gives_no_commands(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    found = finding(message=f"m\n{text}", help=f"h\n{text}")
    made = report(found, sources={"train.py": f"{text}\n"})
    outputs.write(made, outputs.parse([]), version="1")
    seen = Runner().read(capsys.readouterr().out)
    assert [level for level, _, _ in seen.annotations] == ["warning"]
    assert seen.others == []
    assert seen.token is None


def test_ordinary_text_is_left_alone() -> None:
    text = "warning[r]: m\n --> a.py:1:1\n ::: b.py:2:1\n  | x = a[::2]\n"
    assert inert(text) == text


# --- the job summary ---------------------------------------------------------------------------------------------


def test_the_summary_is_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "summary.md"
    file.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    write_summary(report(finding(message="a | b")))
    text = file.read_text(encoding="utf-8")
    assert text.startswith("before\n### t4lint\n\nFound 1 finding (1 warning) in 3 files")
    assert text.endswith("| warning | `some-rule` | `train.py:1` | a \\| b |\n\n")


def test_the_summary_stays_below_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "summary.md"
    file.write_bytes(b"x" * 1000 + b"\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    write_summary(report(*(finding(line, message="é" * 500) for line in range(1, 5001))))
    text = file.read_text(encoding="utf-8")
    assert SUMMARY_LIMIT - 5000 < file.stat().st_size <= SUMMARY_LIMIT
    shown, more = text.count("\n| warning |"), re.search(r"and (\d+) more", text)
    assert more and shown + int(more[1]) == 5000


def test_a_summary_that_cannot_be_written_fails_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "folder"))
    write_summary(report(finding()))


def test_places_link_to_the_line_on_github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "s.md"))
    for name, value in {"SERVER_URL": "https://github.com", "REPOSITORY": "me/it", "SHA": "abc"}.items():
        monkeypatch.setenv(f"GITHUB_{name}", value)
    write_summary(report(finding(7, path="a b/(x).py")))
    text = (tmp_path / "s.md").read_text(encoding="utf-8")
    assert "[`a b/(x).py:7`](https://github.com/me/it/blob/abc/a%20b/%28x%29.py#L7)" in text


# --- which formats -----------------------------------------------------------------------------------------------


def test_in_a_workflow_both_are_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [it.format for it in outputs.parse([])] == ["text"]
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert [it.format for it in outputs.parse([])] == ["text", "github"]
    assert [it.format for it in outputs.parse(["json"])] == ["json"]
    assert [it.format for it in outputs.parse([], ("text", "json"))] == ["text"]


def test_text_and_annotations_may_share_the_screen_and_nothing_else_may() -> None:
    assert len(outputs.parse(["text", "github", "sarif:x.sarif"])) == 3
    for given in (["text", "json"], ["github", "sarif"], ["text", "github", "json"]):
        with pytest.raises(outputs.OutputError, match="only one format can go to the screen"):
            outputs.parse(given)


def test_json_on_a_screen_that_knows_ascii_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in outputs.FORMATS:
        screen = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        monkeypatch.setattr(sys, "stdout", screen)
        outputs.write(report(finding(message="模型 \U0001f600 \udc80")), outputs.parse([name]), version="1")
        screen.flush()
        screen.buffer.seek(0)
        assert screen.buffer.read().isascii(), name
