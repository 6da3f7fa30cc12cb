"""How a report reaches the person: formats, statistics and the exit code."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from t4lint import __version__
from t4lint.cli.usage import CLEAN, FAILED, FOUND, SEVERITIES, UsageError, say

if TYPE_CHECKING:
    from t4lint.asked import Asked
    from t4lint.cache import Kept
    from t4lint.findings import Finding, Problem, Report
    from t4lint.report.early import Early
    from t4lint.report.outputs import Output


def deliver(
    args: argparse.Namespace,
    asked: Asked,
    report: Report,
    wanted: tuple[Output, ...],
    kept: Kept | None = None,
    early: Early | None = None,
) -> int:
    """Write the report, or what of it was not shown early, and say by the exit code how it went."""
    from t4lint.report import outputs

    how = look(args, wanted) if kept is not None else None
    try:
        if early is not None or (kept is not None and how is not None):
            spoken = outputs.spoken(report, wanted[0], args.language)
            shown = early.shown if early is not None else ()
            text = outputs.render(spoken, wanted[0], version=__version__, shown=shown)
            outputs.to_screen(text, json=wanted[0].format in outputs.JSON)
            if kept is not None and how is not None:
                kept.keep_shown(how, (early.text if early is not None else "") + text)
        else:
            outputs.write(report, wanted, version=__version__, verbose=args.show_trace, language=args.language)
    except outputs.OutputError as error:
        raise UsageError(str(error)) from None
    if args.statistics:
        _statistics(report)
    return FAILED if report.problems else exit_code(args, asked, report)


def look(args: argparse.Namespace, wanted: tuple[Output, ...]) -> object:
    """What the text on the screen depends on besides the report; None where it depends on more than can be said."""
    if len(wanted) != 1 or wanted[0].file is not None or args.baseline or args.diff_base or args.statistics:
        return None
    from t4lint.report import outputs

    return outputs.look(wanted[0].format)


def said(problems: tuple[Problem, ...]) -> int:
    """Problems go to stderr; the code says whether there were any."""
    for problem in problems:
        line = f":{problem.line}" if problem.line else ""
        print(f"t4lint: {say('error')}: {problem.path}{line}: {say(problem.message)}", file=sys.stderr)
    return FAILED if problems else CLEAN


def _statistics(report: Report) -> None:
    """How often each rule was found, the most frequent first; to stderr, so that reports stay what they are."""
    from collections import Counter

    counts = Counter(finding.rule for finding in report.findings)
    width = len(str(max(counts.values(), default=0)))
    for rule, count in sorted(counts.items(), key=lambda it: (-it[1], it[0])):
        print(f"{count:>{width}}  {rule}", file=sys.stderr)


def exit_code(args: argparse.Namespace, asked: Asked, report: Report) -> int:
    def fails(finding: Finding) -> bool:
        least = args.fail_on or asked.settings(Path.cwd() / finding.location.path).fail_on
        return finding.severity in _at_least(least) and not _is_refuted(finding)

    return FOUND if any(map(fails, report.findings)) and not args.exit_zero else CLEAN


def _at_least(severity: str) -> tuple[str, ...]:
    return SEVERITIES[: SEVERITIES.index(severity) + 1]


def _is_refuted(finding: Finding) -> bool:
    """A run has shown that the finding does not hold."""
    return finding.verdict is not None and finding.verdict.verdict == "refuted"
