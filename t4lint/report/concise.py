"""A line for each finding, as editors, `grep` and problem matchers read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from t4lint.report.frame import visible
from t4lint.report.text import place, sorted_findings, summary

if TYPE_CHECKING:
    from t4lint.findings import Problem, Report


def render(report: Report, *, version: str) -> str:
    """`path:line:column: severity[rule] message`, and the summary."""
    lines = [
        f"{place(it.location)}: {it.severity}[{it.rule}] {_one_line(it.message)}"
        for it in sorted_findings(report.findings)
    ]
    lines += [_problem(problem) for problem in report.problems]
    return "\n".join([*lines, summary(report)]) + "\n"


def _problem(problem: Problem) -> str:
    numbers = [str(number) for number in (problem.line, problem.column if problem.line else None) if number]
    at = ":".join([visible(problem.path), *numbers])
    return f"{at}: error {_one_line(problem.message)}" if at else f"error {_one_line(problem.message)}"


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()))
