"""The Reviewdog Diagnostic Format: `t4lint --output-format rdjson | reviewdog -f=rdjson`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from t4lint.report import common

if TYPE_CHECKING:
    from t4lint.findings import Finding, Problem, Report, TextEdit

SEVERITIES = {"error": "ERROR", "warning": "WARNING", "note": "INFO"}


def render(report: Report, *, version: str) -> str:
    """The report as a DiagnosticResult. Paths stay relative to the working directory: reviewdog finds the root."""
    from t4lint import engine

    urls = {rule.name: common.rule_url(rule, report.language) for rule in engine.rules()}
    diagnostics = [_finding(report, finding, urls.get(finding.rule)) for finding in common.active(report)]
    diagnostics += [_problem(problem) for problem in report.problems]
    return common.dumps({"source": {"name": "t4lint", "url": common.HOME}, "diagnostics": diagnostics})


def _finding(report: Report, finding: Finding, url: str | None) -> dict[str, object]:
    at = finding.location
    start, end = (at.line, at.column), (at.end_line, at.end_column)
    code = {"value": finding.rule, **({"url": url} if url else {})}
    made: dict[str, object] = {
        "message": common.explained(finding, report.language),
        "location": {"path": at.path, "range": _range(report, at.path, start, end)},
        "severity": SEVERITIES[finding.severity],
        "code": code,
    }
    fix = common.fix_of(finding)
    if fix is not None and all(edit.path == at.path for edit in fix.edits):  # a suggestion belongs to one file
        made["suggestions"] = [_suggestion(report, edit) for edit in fix.edits]
    return made


def _suggestion(report: Report, edit: TextEdit) -> dict[str, object]:
    return {"range": _range(report, edit.path, edit.start, edit.end), "text": edit.text}


def _range(report: Report, path: str, start: tuple[int, int], end: tuple[int, int]) -> dict[str, object]:
    return {"start": _position(report, path, *start), "end": _position(report, path, *end)}


def _position(report: Report, path: str, line: int, column: int) -> dict[str, int]:
    """Columns count UTF-8 bytes here; ours count characters."""
    text = common.source_line(report, path, line)
    if text is not None:
        before = text[: column - 1]
        column += len(before.encode("utf-8", "surrogatepass")) - len(before)
    return {"line": line, "column": column}


def _problem(problem: Problem) -> dict[str, object]:
    location: dict[str, object] = {"path": problem.path}
    if problem.line:
        location["range"] = {"start": {"line": problem.line}}
    return {"message": common.lines(problem.message), "location": location, "severity": "ERROR"}
