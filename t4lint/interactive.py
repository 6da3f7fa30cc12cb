"""`-i`: fixes one by one, each with its diff and a question."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from t4lint.report import outputs
from t4lint.report.text import render, sorted_findings

if TYPE_CHECKING:
    from t4lint.findings import Finding, Report
    from t4lint.fix.loop import Answer

HELP = """\
y  fix it
n  leave it
a  fix this and every other finding of its rule
d  leave this and every other finding of its rule
i  leave it, with a comment that hides it
q  stop here; what was fixed so far is written
"""
WORDS = {"safe": "same meaning", "unsafe": "changes numerics, speed or memory beyond the finding"}


class Asker:
    """Asks a person, and remembers what was said for a whole rule."""

    def __init__(self) -> None:
        self.always: dict[str, Answer] = {}
        self.shown: Report | None = None

    def __call__(self, report: Report, finding: Finding, diff: str) -> Answer:
        if finding.rule in self.always:
            return self.always[finding.rule]
        colour = outputs.has_colour(sys.stdout)
        safety = finding.fix.safety if finding.fix is not None else "none"
        title = finding.fix.title if finding.fix is not None else ""
        outputs.to_screen(_only(report, finding, colour=colour) + "\n" + coloured(diff, colour=colour))
        while True:
            word = self.read(f"{title} ({safety}: {WORDS.get(safety, '')})? [y,n,a,d,i,q,?] ")
            if word in ("a", "d"):
                self.always[finding.rule] = "fix" if word == "a" else "skip"
            answer = _ANSWERS.get(word)
            if answer is not None:
                return answer
            outputs.to_screen(HELP)

    def read(self, question: str) -> str:
        """A letter; the end of the input is the wish to stop."""
        outputs.to_screen(question)
        line = sys.stdin.readline()
        return line.strip().lower()[:1] if line else "q"


_ANSWERS: dict[str, Answer] = {"y": "fix", "a": "fix", "n": "skip", "d": "skip", "i": "ignore", "q": "quit"}


def _only(report: Report, finding: Finding, *, colour: bool) -> str:
    """One finding as the report for people shows it, without the summary below."""
    (one,) = sorted_findings([finding])
    text = render(replace(report, findings=(one,), problems=(), notes=(), trace=()), colour=colour)
    return text.rstrip().rpartition("\n\n")[0] + "\n"


def coloured(diff: str, *, colour: bool) -> str:
    """A diff with its lines in colour."""
    if not colour:
        return diff
    codes = {"+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m"}
    lines = diff.splitlines(keepends=True)
    return "".join(f"{codes[it[0]]}{it.rstrip()}\x1b[0m\n" if it[:1] in codes else it for it in lines)
