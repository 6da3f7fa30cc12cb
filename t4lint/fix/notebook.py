"""Edits of notebooks: found in the text of the cells, made in the JSON of the file, whose other bytes stay."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from t4lint.findings import Problem, TextEdit
from t4lint.fix.text import Lines, NoPlace, Splice, spliced
from t4lint.sources.json_text import JsonNode
from t4lint.sources.notebook import CHARACTER, CodeCell, code_cells, notebook_from
from t4lint.sources.positions import PositionMap, split_lines
from t4lint.trace import Location


class Row(NamedTuple):
    """A line of a view: the line of a cell that it is, and how much of its indentation the view leaves out.

    `shift` is None where the view has other text than the cell, e.g. `pass` for a magic.
    """

    cell: int
    line: int
    shift: int | None


class View:
    """A text whose lines are lines of cells: the notebook's module, a file that a cell writes, or the cells as they are."""

    def __init__(self, notebook: NotebookFile, text: str, rows: Sequence[tuple[int, int]]) -> None:
        self.notebook = notebook
        self.path = notebook.path
        self.text = text
        self.lines = Lines(text)
        self.rows = [self._row(number, *row) for number, row in enumerate(rows, 1)]
        self.numbers = {(row.cell, row.line): number for number, row in enumerate(self.rows, 1)}

    def _row(self, number: int, cell: int, line: int) -> Row:
        ours, written = self.lines.line(number), self.notebook.line(cell, line)
        left_out = len(written) - len(ours)
        same = left_out >= 0 and written.endswith(ours) and not written[:left_out].strip()
        return Row(cell, line, left_out if same else None)

    def holds(self, location: Location) -> bool:
        """Does a line of the view say what the cell says at a place?"""
        number = self.numbers.get((location.cell or 0, location.cell_line or 0))
        return number is not None and self.rows[number - 1].shift is not None and bool(self.lines.line(number).strip())

    def line_of(self, location: Location) -> int | None:
        """The line of the view at which a location starts."""
        return self.numbers.get((location.cell or 0, location.cell_line or 0))

    def first_line(self, number: int) -> str:
        """The first line of the cell that a line of the view is in."""
        return self.notebook.line(self.rows[number - 1].cell, 1) if 0 < number <= len(self.rows) else ""

    def local(self, location: Location) -> Location:
        """The same span in lines and columns of the view."""
        first = self.line_of(location)
        if first is None or location.cell is None or location.cell_line is None:
            raise NoPlace("this place is in no cell")
        last_line = self.notebook.line_at(location.cell, location.cell_line, location.end_line)
        last = self.numbers.get((location.cell, last_line), first)
        shifts = self.rows[first - 1].shift, self.rows[last - 1].shift
        if shifts[0] is None or shifts[1] is None:
            raise NoPlace("the cell has other text here")
        return Location(self.path, first, location.column - shifts[0], last, location.end_column - shifts[1])

    def location(self, start: int, end: int) -> Location:
        """Where a range of the view stands in the file, as a finding there would say it."""
        (first, column), (last, end_column) = self.lines.place(start), self.lines.place(end)
        begin, finish = self.rows[first - 1], self.rows[last - 1]
        return Location(
            self.path,
            self.notebook.physical(begin.cell, begin.line),
            column + (begin.shift or 0),
            self.notebook.physical(finish.cell, finish.line),
            end_column + (finish.shift or 0),
            begin.cell,
            begin.line,
        )

    def edits(self, given: Iterable[Splice]) -> list[TextEdit]:
        """Edits of the view as edits of the file."""
        by_cell: dict[int, list[Splice]] = {}
        for splice in sorted(set(given)):
            cell, inside = self._in_cell(splice)
            by_cell.setdefault(cell, []).append(inside)
        return [edit for cell, inside in sorted(by_cell.items()) for edit in self.notebook.edits(cell, inside)]

    def _in_cell(self, splice: Splice) -> tuple[int, Splice]:
        """The cell that a splice is about, and the splice in its text."""
        if not self.rows:
            raise NoPlace("there is no code")
        if splice.start == splice.end == len(self.text) and len(self.lines.starts) > len(self.rows):
            last = self.rows[-1]
            return last.cell, self._at_end(last.cell, splice.text)
        (first, column), (last_line, end_column) = self.lines.place(splice.start), self.lines.place(splice.end)
        whole_lines = splice.end > splice.start and end_column == 1  # up to the start of the next line
        touched = self.rows[first - 1 : last_line - whole_lines]
        start = self._offset(touched[0], column, splice.text)
        joins = (
            whole_lines and (column > 1 or splice.text != "") and not splice.text.endswith("\n")
        )  # the next line would go on in this one
        touching = self.rows[first - 1 : last_line] if joins else touched
        if any(row.cell != touched[0].cell or row.shift is None for row in touching):
            raise NoPlace("an edit would reach over cells, or into a magic")
        cell = self.notebook.cell(touched[0].cell)
        lines = Lines(cell.text)
        if whole_lines:
            return cell.index, Splice(start, lines.end_of(touched[-1].line), splice.text)
        return cell.index, Splice(start, self._offset(touched[-1], end_column, splice.text), splice.text)

    def _offset(self, row: Row, column: int, text: str) -> int:
        if row.shift is None or (row.shift and "\n" in text):
            raise NoPlace("the cell has other text here")
        return Lines(self.notebook.cell(row.cell).text).offset(row.line, column + row.shift)

    def _at_end(self, cell: int, text: str) -> Splice:
        end = self.notebook.cell(cell).text
        if text and not end.endswith(("\n", "\r")):
            text = "\n" + text.removesuffix("\n")
        return Splice(len(end), len(end), text)


class NotebookFile:
    """A notebook's text with its code cells, and edits of them."""

    def __init__(self, path: str, text: str) -> None:
        document = notebook_from(text, Path(path), path)
        if isinstance(document, Problem):
            raise NoPlace("this is no notebook")
        self.path = path
        self.text = text
        self.document = document
        self.cells = {cell.index: cell for cell in code_cells(text)}
        self._lines = {index: split_lines(cell.text) for index, cell in self.cells.items()}

    # --- views ---

    @cached_property
    def module(self) -> View:
        """The cells as the Python module that they are."""
        return self._view(self.document.positions)

    @cached_property
    def written(self) -> list[View]:
        """The files that cells write."""
        return [self._view(file.positions) for file in self.document.written]

    @cached_property
    def code(self) -> View:
        """The code cells as they are, one after the other."""
        rows = [(index, number) for index, cell in self.cells.items() for number in range(1, len(cell.physical) + 1)]
        text = "".join(f"{self.line(*row)}\n" for row in rows)
        return View(self, text, rows)

    def python_at(self, location: Location) -> View:
        """The Python text that a place is in."""
        for view in (self.module, *self.written):
            if view.holds(location):
                return view
        raise NoPlace("this place is in no Python")

    def _view(self, positions: PositionMap) -> View:
        text, segments = positions.text, positions.segments
        starts = [segment.start for segment in segments]
        lines, rows = Lines(text), []
        for number in range(1, len(lines.starts) + 1):
            index = bisect_left(starts, lines.start_of(number))
            if index == len(segments) or starts[index] > lines.stop_of(number):
                break  # the end of the text, after its last line end
            rows.append((segments[index].cell or 0, segments[index].cell_line or 0))
        return View(self, text, rows)

    # --- places ---

    def cell(self, index: int) -> CodeCell:
        if index not in self.cells:
            raise NoPlace("there is no such cell")
        return self.cells[index]

    def line(self, cell: int, number: int) -> str:
        lines = self._lines.get(cell, ())
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def physical(self, cell: int, line: int) -> int:
        return self.cell(cell).physical[line - 1]

    def line_at(self, cell: int, first: int, physical: int) -> int:
        """The line of a cell, from `first` on, that stands at a physical line of the file."""
        found = self.cell(cell).physical
        return next((number for number in range(first, len(found) + 1) if found[number - 1] == physical), first)

    # --- edits ---

    def edits(self, index: int, given: Sequence[Splice]) -> list[TextEdit]:
        """Edits of a cell's text as edits of the file; no line end is left at the end of a cell that had none."""
        cell = self.cell(index)
        own = Lines(cell.text)
        new = spliced(cell.text, [Splice(it.start, it.end, own.own(it.text)) for it in given])
        if not cell.text.endswith(("\n", "\r")):
            new = re.sub(r"(?:\r\n|\r|\n)\Z", "", new)
        parts = _parts(cell.node)
        lines_of_their_own = cell.node.kind == "array" and all(_is_line(part) for part in parts)
        made = self._items(cell.node, parts, new) if lines_of_their_own else self._characters(cell.text, parts, new)
        lines = Lines(self.text)
        return [TextEdit(self.path, lines.place(it.start), lines.place(it.end), it.text) for it in made]

    def _items(self, node: JsonNode, parts: Sequence[JsonNode], new: str) -> list[Splice]:
        """A list with a string for each line, as Jupyter writes it: only the strings of changed lines change."""
        old, lines = [str(part.value) for part in parts], re.findall(r"[^\n]*\n|[^\n]+", new)
        if not old or not lines:
            raise NoPlace("a cell would be empty")
        between = self.text[parts[0].end : parts[1].start] if len(parts) > 1 else ""
        between = between or "," + self.text[node.start + 1 : parts[0].start]
        made = []
        for kind, first, last, begin, end in SequenceMatcher(None, old, lines, autojunk=False).get_opcodes():
            text = between.join(self._quoted(line) for line in lines[begin:end])
            if kind == "replace":
                made.append(Splice(parts[first].start, parts[last - 1].end, text))
            elif kind == "delete":
                made.append(_without(parts, first, last))
            elif kind == "insert" and first < len(parts):
                made.append(Splice(parts[first].start, parts[first].start, text + between))
            elif kind == "insert":
                made.append(Splice(parts[-1].end, parts[-1].end, between + text))
        return made

    def _characters(self, old: str, parts: Sequence[JsonNode], new: str) -> list[Splice]:
        """A cell in one string, or in pieces that are no lines: what differs is replaced inside a string."""
        start = 0
        while start < min(len(old), len(new)) and old[start] == new[start]:
            start += 1
        left = 0
        while left < min(len(old), len(new)) - start and old[-1 - left] == new[-1 - left]:
            left += 1
        places = [(number, at) for number, part in enumerate(parts) for at in self._offsets(part)]
        if not parts or len(places) != len(old):
            raise NoPlace("the cell cannot be followed")
        places.append((len(parts) - 1, parts[-1].end - 1))
        (first, begin), (last, end) = places[start], places[len(old) - left]
        if first != last:  # the end of one piece is also the start of the next
            last, end = first, parts[first].end - 1
            if len(old) - left != next(i for i, it in enumerate(places) if it[0] > first):
                raise NoPlace("an edit would reach over strings")
        return [Splice(begin, end, self._quoted(new[start : len(new) - left])[1:-1])]

    def _offsets(self, part: JsonNode) -> list[int]:
        """Where each character of a string stands in the file."""
        found, offset = [], part.start + 1
        while offset < part.end - 1:
            match = CHARACTER.match(self.text, offset, part.end - 1)
            found.append(offset)
            offset = match.end() if match else offset + 1
        return found

    @cached_property
    def _ascii(self) -> bool:
        return self.text.isascii() and "\\u" in self.text

    def _quoted(self, text: str) -> str:
        """As JSON, with escapes for what is not ASCII where the file has them."""
        return json.dumps(text, ensure_ascii=self._ascii)


def _parts(node: JsonNode) -> list[JsonNode]:
    parts = node.items if node.kind == "array" else [node]
    return [part for part in parts if isinstance(part.value, str)]


def _is_line(part: JsonNode) -> bool:
    text = str(part.value)
    return bool(text) and "\n" not in text[:-1] and "\r" not in text.removesuffix("\n").removesuffix("\r")


def _without(parts: Sequence[JsonNode], first: int, last: int) -> Splice:
    """Strings of a list dropped, with the commas that were theirs."""
    if last < len(parts):
        return Splice(parts[first].start, parts[last].start, "")
    return Splice(parts[first - 1].end, parts[last - 1].end, "")
