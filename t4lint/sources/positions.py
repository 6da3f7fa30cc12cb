"""Text that was put together from parts of a file, and where each part of it is written.

A notebook's module, the shell in a YAML block, a recipe of a Makefile: each is read as a text of its own, and findings in
it have to name places of the file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Protocol

from t4lint.trace import Location

LINE_END = re.compile(r"\r\n|\r|\n")


class Locator(Protocol):
    """Names places: offsets in a text as locations of a file, and back."""

    path: str

    def location(self, start: int, end: int) -> Location:
        """Where a range of the text is written."""

    def span(self, location: Location) -> tuple[int, int]:
        """The range that a location stands for; the location is one that was handed out."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the text within one line, and where it is written.

    In an `exact` one each character stands in the file as it does in the text, so that columns can be counted; any other
    (escapes, a rewritten magic) stands for its place as a whole.
    """

    start: int
    end: int
    line: int
    column: int
    end_line: int
    end_column: int
    exact: bool = True
    cell: int | None = None
    cell_line: int | None = None


class PositionMap:
    """From a text that was put together to the file. Text between the segments takes the nearest place inward."""

    __slots__ = ("_handed_out", "_lines", "_starts", "path", "segments", "text")

    def __init__(self, path: str, text: str, segments: tuple[Segment, ...]) -> None:
        self.path = path
        self.text = text
        self.segments = segments
        self._starts = [segment.start for segment in segments]
        self._lines: list[int] | None = None
        self._handed_out: dict[Location, tuple[int, int]] = {}

    def location(self, start: int, end: int) -> Location:
        """Where a range of the text is written."""
        if not self.segments:
            return Location(self.path, 1, 1, 1, 1)
        first = self._begin(start)
        begin = _inside(first, start)
        last = self._finish(end) if end > start else first
        finish = _inside(last, end, closing=True) if end > start or not first.exact else begin
        if finish < begin or not _continues(first, last):
            finish = max((first.end_line, first.end_column), begin)
        location = Location(self.path, *begin, *finish, first.cell, first.cell_line)
        self._handed_out.setdefault(location, (start, end))
        return location

    def span(self, location: Location) -> tuple[int, int]:
        """The range of the text that a location was handed out for."""
        return self._handed_out.get(location, (0, 0))

    def line_of(self, location: Location) -> int:
        """The 1-based line of the text that a location was handed out for: what an analysis of the text counts in."""
        offset = self.span(location)[0]
        return bisect_right(self._line_starts(), offset)

    def locate(self, line: int, column: int, end_line: int | None = None, end_column: int | None = None) -> Location:
        """The location of a range of the text that is given in its own 1-based lines and columns."""
        start = self.offset(line, column)
        end = start if end_line is None or end_column is None else self.offset(end_line, end_column)
        return self.location(start, max(start, end))

    def offset(self, line: int, column: int) -> int:
        """The offset of a 1-based line and column of the text; beyond its end, the end."""
        starts = self._line_starts()
        if line > len(starts):
            return len(self.text)
        return min(starts[max(line, 1) - 1] + max(column, 1) - 1, len(self.text))

    def _line_starts(self) -> list[int]:
        if self._lines is None:
            self._lines = line_starts(self.text)
        return self._lines

    def _begin(self, offset: int) -> Segment:
        """The segment that a range starting at `offset` starts in."""
        index = bisect_right(self._starts, offset) - 1
        if index < 0:
            return self.segments[0]
        segment = self.segments[index]
        at_line_end = offset == segment.end and (offset >= len(self.text) or self.text[offset] in "\r\n")
        if offset < segment.end or at_line_end or index + 1 == len(self.segments):
            return segment
        return self.segments[index + 1]

    def _finish(self, offset: int) -> Segment:
        """The segment that a range ending before `offset` ends in."""
        return self.segments[max(bisect_right(self._starts, offset - 1) - 1, 0)]


class OnePlace(PositionMap):
    """A text that is written nowhere: all of it stands for one place, such as the command that starts a program."""

    __slots__ = ("place",)

    def __init__(self, place: Location, text: str) -> None:
        super().__init__(place.path, text, ())
        self.place = place

    def location(self, start: int, end: int) -> Location:
        return self.place


def _inside(segment: Segment, offset: int, closing: bool = False) -> tuple[int, int]:
    """The place of an offset in a segment, or of the nearest of its ends."""
    if not segment.exact:
        return (segment.end_line, segment.end_column) if closing else (segment.line, segment.column)
    return segment.line, segment.column + min(max(offset - segment.start, 0), segment.end - segment.start)


def _continues(first: Segment, last: Segment) -> bool:
    """Can one location hold both? Not over two cells, nor where several lines of a cell share one physical line:
    columns count in the cell's own lines, so the span stays in its first one.
    """
    return first.cell == last.cell and (first.cell_line == last.cell_line or first.line != last.line)


class TextBuilder:
    """Puts a text together. `cell` and `cell_line` are noted for what is added while they are set."""

    __slots__ = ("cell", "cell_line", "length", "parts", "segments")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.segments: list[Segment] = []
        self.length = 0
        self.cell: int | None = None
        self.cell_line: int | None = None

    def add(self, text: str, line: int, column: int) -> None:
        """Text as it is written at a place, within one line of the file."""
        end = self.length + len(text)
        self.segments.append(
            Segment(self.length, end, line, column, line, column + len(text), cell=self.cell, cell_line=self.cell_line)
        )
        self._append(text)

    def stand_in(self, text: str, line: int, column: int, end_line: int, end_column: int) -> None:
        """Text that stands for something written otherwise."""
        place = (line, column, end_line, end_column)
        self.segments.append(
            Segment(self.length, self.length + len(text), *place, False, cell=self.cell, cell_line=self.cell_line)
        )
        self._append(text)

    def fill(self, text: str) -> None:
        """Text that is not written anywhere."""
        self._append(text)

    def splice(self, other: TextBuilder) -> None:
        """All that another builder holds, at its own places."""
        shift = self.length
        for segment in other.segments:
            place = (segment.line, segment.column, segment.end_line, segment.end_column)
            start, end = segment.start + shift, segment.end + shift
            self.segments.append(Segment(start, end, *place, segment.exact, segment.cell, segment.cell_line))
        self._append(other.text)

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def build(self, path: str) -> PositionMap:
        """The text and its map."""
        return PositionMap(path, self.text, tuple(self.segments))

    def _append(self, text: str) -> None:
        self.parts.append(text)
        self.length += len(text)


class Lines:
    """The lines of a text and the 1-based places of its offsets, in code points."""

    __slots__ = ("_starts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = line_starts(text)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def location(self, path: str, start: int, end: int) -> Location:
        """A range of the text as a location."""
        return Location(path, *self.place(start), *self.place(end))

    def offset(self, line: int, column: int) -> int:
        """The offset of a 1-based place."""
        return min(self._starts[min(line, len(self._starts)) - 1] + column - 1, len(self.text))


def line_starts(text: str) -> list[int]:
    """The offsets at which lines start, as Python and editors count: `str.splitlines` also splits at form feeds and others."""
    return [0, *(found.end() for found in LINE_END.finditer(text))]


def split_lines(text: str) -> list[str]:
    """Lines without their ends, as editors count them: form feeds and the like end none."""
    return LINE_END.split(text)
