"""Places: ours are 1-based and count code points, the editor's are 0-based and count code units that were agreed on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lsprotocol import types
from pygls.workspace import PositionCodec, ServerTextPosition

from t4lint.fix.text import Lines, Splice
from t4lint.trace import Location


class Places:
    """The places of one text."""

    def __init__(self, text: str, codec: PositionCodec) -> None:
        self.text = text
        self.codec = codec
        self._lines = Lines(text)
        self.lines = self._lines.all()

    def position(self, line: int, column: int) -> types.Position:
        """Of a place of ours; beyond the text it is the end of it."""
        if line > len(self.lines):
            return self.position(len(self.lines), len(self.lines[-1]) + 1)
        return self.codec.position_to_client_units(self.lines, ServerTextPosition(max(line, 1) - 1, max(column, 1) - 1))

    def place(self, position: types.Position) -> tuple[int, int]:
        """The line and column of a position of the editor's."""
        found = self.codec.position_from_client_units(self.lines, types.Position(position.line, position.character))
        return found.line + 1, found.character + 1

    def range(self, start: tuple[int, int], end: tuple[int, int]) -> types.Range:
        return types.Range(self.position(*start), self.position(*max(start, end)))

    def of(self, location: Location) -> types.Range:
        """The range of a location; in a cell, of the cell's own text."""
        line, end_line = location.line, location.end_line
        if location.cell_line is not None:
            line, end_line = location.cell_line, location.cell_line + (location.end_line - location.line)
        end = (end_line, location.end_column)
        if end <= (line, location.column):  # an empty span could not be seen
            end = (line, location.column + 1)
        return self.range((line, location.column), end)

    def of_splice(self, splice: Splice) -> types.Range:
        return self.range(self._lines.place(splice.start), self._lines.place(splice.end))


def lines_after(before: str, after: str) -> Callable[[int], int | None]:
    """Where a line (0-based) of a text is after an edit of one place; None where it is the edited one."""
    old, new = Lines(before).all(), Lines(after).all()
    shorter = min(len(old), len(new))
    head = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    tail = next((n for n in range(shorter - head) if old[-1 - n] != new[-1 - n]), shorter - head)

    def moved(line: int) -> int | None:
        if line < head:
            return line
        return line + len(new) - len(old) if line >= len(old) - tail else None

    return moved


def contains(range_: types.Range, position: types.Position) -> bool:
    return range_.start <= position <= range_.end


def touch(one: types.Range, other: types.Range) -> bool:
    return one.start <= other.end and other.start <= one.end


def smallest(ranges: Sequence[types.Range]) -> types.Range:
    """The shortest of some ranges around the same place."""
    return min(ranges, key=lambda it: (it.end.line - it.start.line, it.end.character - it.start.character))
