"""Findings of a long check on a terminal, shown as each group of scripts is done.

The groups come in the order of their paths, whoever works on them, so the same check shows the same text each time.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from t4lint.report import outputs

if TYPE_CHECKING:
    from t4lint.findings import Report
    from t4lint.report.progress import Line
    from t4lint.report.text import Place


@dataclass(slots=True)
class Early:
    """What has been shown before the report: `text` on the screen, and the findings in it."""

    language: str | None
    line: Line | None = None  # of progress, which makes room
    text: str = ""
    shown: set[Place] = field(default_factory=set)

    def show(self, report: Report) -> None:
        """Show the findings that were not shown before: programs may share a launch or a settings file."""
        from t4lint.report.text import render_part

        fresh = [it for it in report.findings if (it.rule, it.location) not in self.shown]
        self.shown |= {(it.rule, it.location) for it in fresh}
        spoken = outputs.spoken(replace(report, findings=tuple(fresh)), outputs.Output("text"), self.language)
        colour = outputs.has_colour(sys.stdout)
        text = render_part(spoken, colour=colour, width=outputs.terminal_width())
        if not text:
            return
        if self.line is not None:
            self.line.hide()
        outputs.to_screen(text)
        self.text += text
