"""Markdown: a table for pull request comments, wikis and the summary page of a GitHub job."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from t4lint.language import phrase
from t4lint.report import common
from t4lint.report.text import place, summary

if TYPE_CHECKING:
    from t4lint.findings import Finding, Problem, Report
    from t4lint.trace import Location

COLUMNS = ("severity", "rule", "where", "what")
RULE = "| --- | --- | --- | --- |"
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_MARKS = re.compile(r"([\\`*_\[\]<>|~$#&!])")
_MENTION = re.compile(r"@(?=\w)")


def render(report: Report, *, version: str) -> str:
    """The whole report."""
    return "\n".join([_title(report), "", *_parts(report)]) + "\n"


def limited(report: Report, limit: int) -> str:
    """The report in at most `limit` bytes, the most important first; what does not fit is counted."""
    head = [_title(report), ""]
    rows = list(_parts(report))
    room = limit - _size(head) - len("\nand 1000000000 more\n")
    kept, used = 0, 0
    while kept < len(rows) and used + _size([rows[kept]]) <= room:
        used += _size([rows[kept]])
        kept += 1
    left_out = sum(
        row.startswith(("| ", "- ")) and row not in (RULE, header(report.language)[0]) for row in rows[kept:]
    )
    more = ["", phrase(f"and {left_out} more", report.language)] if left_out else []
    return "\n".join([*head, *rows[:kept], *more]) + "\n"


def _size(rows: list[str]) -> int:
    return sum(len(row.encode("utf-8", "backslashreplace")) + 1 for row in rows)


def _title(report: Report) -> str:
    return "### t4lint\n\n" + "  \n".join(escaped(line) for line in summary(report).splitlines())


def _parts(report: Report) -> Iterator[str]:
    if report.problems:
        failed = phrase("could not be checked", report.language)
        yield from (f"- **{failed}** {_problem(problem)}" for problem in report.problems)
        yield ""
    findings = common.by_importance(common.active(report))
    if findings:
        yield from header(report.language)
        yield from (_row(finding, report.language) for finding in findings)


def header(language: str) -> tuple[str, str]:
    """The first two lines of the table."""
    names = [phrase(name, language) for name in COLUMNS]
    return f"| {' | '.join(names)} |", RULE


def _row(finding: Finding, language: str) -> str:
    said = escaped(finding.message)
    if finding.help:
        said += f"<br>{escaped(finding.help)}"
    if finding.verdict is not None:
        verdict = phrase(f"{finding.verdict.verdict} on {finding.verdict.basis}", language)
        said += f"<br>**{escaped(verdict)}**"
    return f"| {_severity(finding, language)} | {code(finding.rule)} | {_where(finding.location)} | {said} |"


def _severity(finding: Finding, language: str) -> str:
    sure = "" if finding.confidence == "certain" else f" ({phrase(finding.confidence, language)})"
    said = phrase(finding.severity, language)
    return f"**{said}**{sure}" if finding.severity == "error" else f"{said}{sure}"


def _where(at: Location) -> str:
    shown = code(place(at).rpartition(":")[0])  # the column says little here
    url = _url(at)
    return f"[{shown}]({url})" if url else shown


def _url(at: Location) -> str | None:
    """The line on GitHub, inside a workflow there."""
    parts = [os.environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "SHA")]
    path = common.in_repository(at.path)
    if not all(parts) or common.is_outside(path):
        return None
    server, repository, sha = parts
    return f"{server}/{quote(repository)}/blob/{quote(sha)}/{quote(os.fsencode(path))}#L{at.line}"


def _problem(problem: Problem) -> str:
    where = f"{problem.path}:{problem.line}" if problem.line else problem.path
    return f"{code(where)}: {escaped(problem.message)}" if where else escaped(problem.message)


def escaped(text: str) -> str:
    """Text that means itself in Markdown, in a table too; single backticks stay code."""
    text = common.one_line(text)
    parts: list[str] = []
    end = 0
    for span in _SPAN.finditer(text):
        if text.count("`", end, span.start()):  # an odd backtick before it: not ours to guess
            break
        parts += [_plain(text[end : span.start()]), code(span[1])]
        end = span.end()
    return "".join([*parts, _plain(text[end:])])


def _plain(text: str) -> str:
    return _MENTION.sub("@\u200b", _MARKS.sub(r"\\\1", text))


def code(text: str) -> str:
    """A code span in a table. What a span cannot hold there becomes plain text."""
    text = common.one_line(text)
    if "`" in text or not text.strip() or ("|" in text and "\\" in text):
        return _plain(text)
    return f"`{text.replace('|', chr(92) + '|')}`"
