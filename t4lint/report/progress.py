"""How far a long check is, on a terminal: one line that goes away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from t4lint.language import ENGLISH, phrase

if TYPE_CHECKING:
    from rich.progress import Progress

AFTER = 1.0  # seconds before anything is shown


class Line:
    """The line. rich is imported when there is something to show."""

    def __init__(self, stream: TextIO, language: str = ENGLISH) -> None:
        self.language = language
        self.stream = stream
        self.start = time.monotonic()
        self.bar: Progress | None = None
        self.drawn = False

    def tell(self, done: int, total: int) -> None:
        if self.bar is None:
            if done >= total or time.monotonic() - self.start < AFTER:
                return
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (
                TextColumn(phrase("checking", self.language)),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn(phrase("scripts", self.language)),
                TimeElapsedColumn(),
            )
            self.bar = Progress(*columns, console=Console(file=self.stream), transient=True)
            self.bar.add_task("")
        if not self.drawn and done < total:
            self.bar.start()
            self.drawn = True
        self.bar.update(self.bar.task_ids[0], completed=done, total=total)

    def hide(self) -> None:
        """Make room for other text; the line comes back when there is more to tell."""
        if self.bar is not None and self.drawn:
            self.bar.stop()
            self.drawn = False


@contextmanager
def shown(stream: TextIO, language: str = ENGLISH) -> Iterator[Line | None]:
    """The line to tell how far it is; None where nobody watches."""
    if not stream.isatty():
        yield None
        return
    line = Line(stream, language)
    try:
        yield line
    finally:
        line.hide()
