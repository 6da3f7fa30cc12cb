"""GitHub Actions: annotations beside the lines, as workflow commands, and the summary page of the job.

A step may add ten errors, ten warnings and ten notices, and GitHub drops the rest without a word. So of each level those
on changed lines and the most important come first, and one notice counts what is left out.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from t4lint.report import common
from t4lint.report.frame import visible

if TYPE_CHECKING:
    from t4lint.findings import Finding, Problem, Report
    from t4lint.trace import Location

LIMIT = 10  # annotations of one level that a step may add
MESSAGE_LIMIT = 4096  # characters that the runner passes on
SUMMARY_LIMIT = 1024 * 1024  # bytes that all summaries of a step may take
# What the runner may take for a command. It compares as people do, without characters that do not show.
_COMMAND = re.compile(r"##\[|^[^\w:]*::(?!:)")
LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


class Annotation(NamedTuple):
    """One annotation, before it is escaped."""

    level: str
    title: str
    message: str
    place: tuple[tuple[str, str], ...] = ()


# --- annotations -------------------------------------------------------------------------------------------------


def render(report: Report, *, version: str) -> str:
    """The workflow commands, one a line; nothing when all is well."""
    made = [*(_problem(problem) for problem in report.problems)]
    made += [_finding(finding, report.language) for finding in _by_use(common.by_importance(common.active(report)))]
    return "".join(f"{_command(annotation)}\n" for annotation in within_limits(made))


def _by_use(findings: list[Finding]) -> list[Finding]:
    """Those on lines of the pull request first: GitHub shows the others nowhere near the code."""
    base = os.environ.get("GITHUB_BASE_REF")  # set for pull requests only
    if not base or not findings:
        return findings
    from t4lint.baseline import BaselineError, changed_since

    try:
        changes = changed_since(f"origin/{base}", Path.cwd())
    except BaselineError:  # a checkout that is not deep enough
        return findings
    return sorted(findings, key=lambda finding: not changes.touch(finding, {}, {}))


def within_limits(annotations: Iterable[Annotation]) -> Iterator[Annotation]:
    """The first ones of each level, and a notice about the others."""
    levels: dict[str, list[Annotation]] = {level: [] for level in LEVELS.values()}
    for annotation in annotations:
        levels[annotation.level].append(annotation)
    if any(len(found) > LIMIT for found in levels.values()):
        room = {level: LIMIT - (level == "notice") for level in levels}
        left_out = {level: max(0, len(found) - room[level]) for level, found in levels.items()}
        for level, found in levels.items():
            yield from found[: room[level]]
        yield Annotation("notice", "t4lint", _more(left_out))
        return
    for found in levels.values():
        yield from found


def _more(left_out: dict[str, int]) -> str:
    counts = ", ".join(f"{count} {level}{'' if count == 1 else 's'}" for level, count in left_out.items() if count)
    return f"{counts} more: GitHub shows {LIMIT} of a kind. The log and the summary of this job have all of them."


def _finding(finding: Finding, language: str) -> Annotation:
    message = common.explained(finding, language)
    return Annotation(LEVELS[finding.severity], finding.rule, message, tuple(_place(finding.location)))


def _place(at: Location) -> Iterator[tuple[str, str]]:
    """GitHub takes columns only for spans on one line."""
    yield "file", common.in_repository(at.path)
    yield "line", str(at.line)
    yield "endLine", str(max(at.end_line, at.line))
    if at.end_line <= at.line:
        yield "col", str(at.column)
        yield "endColumn", str(max(at.end_column, at.column))


def _problem(problem: Problem) -> Annotation:
    place = [("file", common.in_repository(problem.path))] if problem.path else []
    if problem.path and problem.line:
        place.append(("line", str(problem.line)))
    return Annotation("error", "t4lint could not check this", common.lines(problem.message), tuple(place))


def _command(annotation: Annotation) -> str:
    properties = [*annotation.place, ("title", annotation.title)]
    said = ",".join(f"{name}={_property(value)}" for name, value in properties)
    message = annotation.message
    if len(message) > MESSAGE_LIMIT:
        message = message[: MESSAGE_LIMIT - 3] + "..."
    return f"::{annotation.level} {said}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(visible(text)).replace(":", "%3A").replace(",", "%2C")


# --- text beside it ----------------------------------------------------------------------------------------------


def inert(text: str) -> str:
    """Text for a log in which GitHub must find no commands, though a code frame may show some."""
    if not any(_COMMAND.search(line) for line in text.encode("ascii", "ignore").decode().splitlines()):
        return text
    token = secrets.token_hex(16)
    return f"::stop-commands::{token}\n{text.rstrip()}\n::{token}::\n"


def write_summary(report: Report) -> None:
    """Add the report to the summary page of the job, where there is one. It never fails a run."""
    from t4lint.report.markdown import limited

    name = os.environ.get("GITHUB_STEP_SUMMARY")
    if not name:
        return
    file = Path(name)
    try:
        used = file.stat().st_size if file.exists() else 0
        text = limited(report, SUMMARY_LIMIT - used - 2) if used < SUMMARY_LIMIT // 2 else ""
        with file.open("a", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
            stream.write(text + "\n" if text else "")
    except OSError:
        return
