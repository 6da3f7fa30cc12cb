"""Code frames: the lines that a finding is about, with its span underlined.

Everything is measured in terminal cells: tabs are expanded, wide characters count twice, and characters that could move
the cursor, hide or reorder text are spelled out.
"""

from __future__ import annotations

import unicodedata
from typing import Literal, NamedTuple

from rich.cells import get_character_cell_size

from t4lint.sources.positions import split_lines
from t4lint.trace import Location

TAB = 4
HEAD, TAIL = 3, 1  # lines shown of a span that is too long
CUT = "..."

_HARMFUL = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"  # ordinary in Persian and in emoji

Part = tuple[str, Literal["code", "mark", "label"]]


class Row(NamedTuple):
    """One line of a frame: its number (empty for a row of marks), and what stands right of the bar."""

    number: str
    parts: tuple[Part, ...]


class Cell(NamedTuple):
    """One character of the source as it is shown."""

    text: str
    width: int


def visible(text: str) -> str:
    """`text` with control characters, invisible and reordering ones spelled out."""
    if text.isprintable():
        return text
    return "".join(_spelled(char) for char in text)


def frame(source: str, location: Location, width: int, mark: str = "^", label: str = "") -> list[Row]:
    """The rows for a span; none when the text has no such line. `width` is the room for code, in cells."""
    lines = split_lines(source)
    first, last = location.line, location.end_line
    if not 1 <= first <= len(lines):
        return []
    end = location.end_column
    last = min(max(last, first), len(lines))
    if last > first and end <= 1:
        last, end = last - 1, len(lines[last - 2]) + 1
    if last == first:
        line = lines[first - 1]
        stop = end if location.end_line == first else len(line) + 1
        return _one_line(first, line, location.column - 1, stop - 1, width, mark, label)
    return _several_lines(lines, first, last, location.column - 1, end - 1, width, mark, label)


def _one_line(number: int, line: str, start: int, end: int, width: int, mark: str, label: str) -> list[Row]:
    text, offset, length = _window(line, start, end, width)
    marks: list[Part] = [(" " * offset + mark * length, "mark")]
    if label:
        marks.append((f" {label}", "label"))
    return [Row(str(number), ((text, "code"),)), Row("", tuple(marks))]


def _several_lines(
    lines: list[str], first: int, last: int, start: int, end: int, width: int, mark: str, label: str
) -> list[Row]:
    """A bracket at the left joins the first line of the span to its last."""
    head = lines[first - 1]
    text, offset, _ = _window(head, start, len(head), width - 2)
    if head[:start].strip():
        rows = [
            Row(str(first), (("  ", "mark"), (text, "code"))),
            Row("", ((" " + "_" * (offset + 1) + mark, "mark"),)),
        ]
    else:
        rows = [Row(str(first), (("/ ", "mark"), (text, "code")))]
    for number in _shown(first + 1, last):
        if number is None:
            rows.append(Row(CUT, (("|", "mark"),)))
            continue
        text, _, _ = _window(lines[number - 1], 0, 0, width - 2)
        rows.append(Row(str(number), (("| ", "mark"), (text, "code"))))
    tail = lines[last - 1]
    _, offset, length = _window(tail, 0, min(max(end, 1), len(tail)), width - 2)
    closing: list[Part] = [("|" + "_" * (offset + length) + mark, "mark")]
    if label:
        closing.append((f" {label}", "label"))
    rows.append(Row("", tuple(closing)))
    return rows


def _shown(first: int, last: int) -> list[int | None]:
    """The line numbers to show; None where lines are left out."""
    numbers = list(range(first, last + 1))
    if len(numbers) <= HEAD + TAIL + 1:
        return [*numbers]
    return [*numbers[: HEAD - 1], None, *numbers[-TAIL:]]


def _window(line: str, start: int, end: int, width: int) -> tuple[str, int, int]:
    """The part of a line that fits, with the offset and length of its span in cells."""
    width = max(width, 20)
    start = min(max(start, 0), len(line))
    end = min(max(end, start), len(line))
    left = max(0, start - width)
    right = min(len(line), start + 2 * width)
    cells = _cells(line[left:right])
    start, end = start - left, min(end, right) - left
    total = _width(cells)
    cut_right = right < len(line)
    if left == 0 and not cut_right and total <= width:
        return _joined(cells), _width(cells[:start]), max(1, _width(cells[start:end]))
    return _cut(cells, start, end, width, cut_left=left > 0, cut_right=cut_right)


def _cut(
    cells: list[Cell], start: int, end: int, width: int, *, cut_left: bool, cut_right: bool
) -> tuple[str, int, int]:
    """Keep as much around the span as fits, with dots where something is left out."""
    span = _width(cells[start:end])
    room = width - 2 * len(CUT)
    before = min(_width(cells[:start]), max(room // 4, room - span) // 2)
    if not cut_left and _width(cells[:end]) <= width - len(CUT):
        before = _width(cells[:start])
    begin = start
    while begin > 0 and cells[begin - 1].width <= before:
        begin -= 1
        before -= cells[begin].width
    prefix = CUT if begin > 0 or cut_left else ""
    room = width - len(prefix) - len(CUT)
    stop, used = begin, 0
    while stop < len(cells) and used + cells[stop].width <= room:
        used += cells[stop].width
        stop += 1
    if not cut_right and _width(cells[stop:]) <= len(CUT):
        stop = len(cells)
        used = _width(cells[begin:])
        while begin > 1 and used + cells[begin - 1].width <= width - len(prefix):  # the room that is left over
            begin -= 1
            used += cells[begin].width
    suffix = CUT if stop < len(cells) or cut_right else ""
    offset = len(prefix) + _width(cells[begin:start])
    return prefix + _joined(cells[begin:stop]) + suffix, offset, max(1, _width(cells[start : min(end, stop)]))


def _cells(line: str) -> list[Cell]:
    cells: list[Cell] = []
    column = 0
    for char in line:
        text = " " * (TAB - column % TAB) if char == "\t" else char if char.isprintable() else _spelled(char)
        width = get_character_cell_size(char) if text == char else len(text)
        cells.append(Cell(text, width))
        column += width
    return cells


def _spelled(char: str) -> str:
    """One character, spelled out where it would not show as itself."""
    if char in _JOINERS or unicodedata.category(char) not in _HARMFUL:
        return char
    number = ord(char)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _width(cells: list[Cell]) -> int:
    return sum(cell.width for cell in cells)


def _joined(cells: list[Cell]) -> str:
    return "".join(cell.text for cell in cells).rstrip()
