"""GitLab Code Quality: a JSON array for `artifacts: reports: codequality`."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

from t4lint.report import common

if TYPE_CHECKING:
    from t4lint.findings import Finding, Problem, Report

SEVERITIES = {"error": "critical", "warning": "major", "note": "info"}
PROBLEM = "t4lint"  # the name under which files that could not be checked are reported


def render(report: Report, *, version: str) -> str:
    """The report as GitLab reads it. Fingerprints must differ: GitLab shows one of those that are the same."""
    issues = [_finding(finding, report.language) for finding in common.active(report)]
    issues += [_problem(problem) for problem in report.problems]
    seen: Counter[object] = Counter()
    for issue in issues:
        same = issue["fingerprint"]
        seen[same] += 1
        if seen[same] > 1:
            issue["fingerprint"] = _hash(f"{same}:{seen[same]}")
    return common.dumps(issues)


def _finding(finding: Finding, language: str) -> dict[str, object]:
    at = finding.location
    return {
        "description": common.one_line(finding.message),
        "check_name": finding.rule,
        "fingerprint": finding.fingerprint or _hash(f"{finding.rule}:{at.path}:{at.line}:{at.column}"),
        "severity": SEVERITIES[finding.severity],
        "location": {"path": common.in_repository(at.path), "lines": {"begin": at.line, "end": at.end_line}},
        "content": {"body": common.explained(finding, language)},
        "categories": ["Performance" if finding.severity == "note" else "Bug Risk"],
        "type": "issue",
    }


def _problem(problem: Problem) -> dict[str, object]:
    return {
        "description": common.one_line(problem.message),
        "check_name": PROBLEM,
        "fingerprint": _hash(f"{PROBLEM}:{problem.path}:{problem.message}"),
        "severity": "blocker",
        "location": {"path": common.in_repository(problem.path or "."), "lines": {"begin": problem.line or 1}},
        "type": "issue",
    }


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
