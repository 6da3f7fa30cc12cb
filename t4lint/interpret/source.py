"""A parsed module of the project: its tree, and positions that are computed only when somebody asks."""

from __future__ import annotations

import ast
import os
import re
import sys
import warnings
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from t4lint.findings import Problem
from t4lint.sources.document import Document
from t4lint.sources.nesting import too_deep
from t4lint.sources.positions import line_starts, split_lines
from t4lint.sources.statements import spans_in, spans_of
from t4lint.sources.thin import MOST, Thinned, thin
from t4lint.trace import Location

# The parts of f-strings have places of their own since Python 3.12 (PEP 701); before, some of those were wrong.
PARTS_HAVE_PLACES = sys.version_info >= (3, 12)
# Blanks and comments, as they stand between the tokens in brackets.
_BETWEEN = re.compile(r"(?:[ \t\f\r\n\\]|#[^\r\n]*)*")
_BLOCKS = ("body", "orelse", "finalbody")
_WITH_BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try)


def statements_of(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body, those of blocks too, but not those of functions and classes in it."""
    pending = list(body)
    while pending:
        current = pending.pop()
        yield current
        if isinstance(current, _WITH_BLOCKS):
            for block in _BLOCKS:
                pending.extend(getattr(current, block, ()))


class SourceModule:
    """A document with its syntax tree. `name` is the dotted name under which the program imports it.

    The tree of a huge document is that of a text with parts left out, `thinned`; places are always the document's.
    """

    def __init__(
        self, document: Document, name: str, tree: ast.Module, thinned: Thinned | None = None, newer: bool = False
    ) -> None:
        self.document = document
        self.name = name
        self.tree = tree
        self.thinned = thinned if thinned is not None and len(thinned.starts) > 1 else None
        self.text = document.text if self.thinned is None else self.thinned.text  # what the tree was made from
        self.constants: dict[int, Any] = {}  # what literals evaluate to, by the id of their node
        self.strings: dict[int, ast.expr] = {}  # the f-strings that nodes without a sure place stand in
        self._starts: list[int] | None = None  # offsets of the lines of the text
        self._lines: list[int] | None = None  # and of the document
        self._locations: dict[int, Location] = {}
        self._statements: dict[int, Location] = {}
        self._newer = newer  # the running Python refuses the text: it knows no statements in it
        self._serials: dict[int, str] = {}

    @property
    def path(self) -> str:
        return self.document.path

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the document, without their ends."""
        return split_lines(self.document.text)

    def code(self, node: ast.AST) -> str:
        """The source text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    def serial(self, node: ast.AST) -> str:
        """A name for a node that is stable within one interpretation and needs no position."""
        key = id(node)
        if key not in self._serials:
            self._serials[key] = f"{self.path}#{len(self._serials)}"
        return self._serials[key]

    def location(self, node: ast.AST) -> Location:
        """Where a node stands."""
        found = self._locations.get(id(node))
        if found is None:
            found = self._locations[id(node)] = self._location(*self.span(node))
        return found

    def statement(self, node: ast.AST) -> Location:
        """Where the statement around a node stands. Kept: all runs of a script ask for the same ones."""
        found = self._statements.get(id(node))
        if found is None:
            found = self._statements[id(node)] = self._statement(self.location(node))
        return found

    @cached_property
    def _spans(self) -> dict[int, tuple[int, int]]:
        """First and last line of the statement at each line of the document."""
        if self.thinned is not None:
            return spans_in(self.document.text)
        return {} if self._newer else spans_of(self.tree, self.text)

    def _statement(self, inside: Location) -> Location:
        positions, lines = self.document.positions, self.lines
        line = inside.line if positions is None else positions.line_of(inside)
        first, last = self._spans.get(line, (line, line))
        start = lines[first - 1] if first <= len(lines) else ""
        column = len(start) - len(start.lstrip()) + 1
        if positions is not None:
            return positions.locate(first, column, last, len(lines[last - 1]) + 1 if last <= len(lines) else 1)
        end = len(lines[last - 1]) + 1 if last <= len(lines) else inside.end_column
        return Location(inside.path, first, column, last, end)

    def _location(self, start: int, end: int) -> Location:
        if self.thinned is not None:
            start, end = self.thinned.origin(start), self.thinned.origin(end)
        if self.document.positions is not None:
            return self.document.positions.location(start, end)
        if self._lines is None:
            self._lines = line_starts(self.document.text)
        return Location(self.path, *self._place(start), *self._place(end))

    def _place(self, offset: int) -> tuple[int, int]:
        assert self._lines is not None
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1

    def note_parts(self, string: ast.expr) -> None:
        """Nodes in an f-string stand where it stands, unless their places turn out to be right."""
        if not PARTS_HAVE_PLACES:
            for part in ast.walk(string):
                self.strings.setdefault(id(part), string)

    def span(self, node: ast.AST) -> tuple[int, int]:
        """The character offsets of a node in the text of the tree; brackets around an expression are no part of it."""
        if isinstance(node, ast.Module):
            return 0, len(self.text)
        start, end = self._written(node)
        if self.strings and (string := self.strings.get(id(node))) and string is not node:
            if not _says(self.text[start:end], node):
                start, end = self._written(string)
        if isinstance(node, (ast.Tuple, ast.GeneratorExp)) and self.text[start] == "(":
            return self._without_brackets(node, start, end)
        return start, end

    def _written(self, node: Any) -> tuple[int, int]:
        return self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)

    def _offset(self, line: int, column: int) -> int:
        """The offset of a 1-based line and a 0-based column in bytes of UTF-8, which is how `ast` counts."""
        if self._starts is None:
            self._starts = line_starts(self.text)
        start = self._starts[line - 1]
        before = self.text[start : start + column]
        if before.isascii():
            return start + column
        return start + len(before.encode("utf-8", "replace")[:column].decode("utf-8", "ignore"))

    def _without_brackets(self, node: ast.Tuple | ast.GeneratorExp, start: int, end: int) -> tuple[int, int]:
        """The inside of what has brackets of its own: those of a tuple may also be its first element's."""
        text = self.text
        if isinstance(node, ast.Tuple):
            if not node.elts:
                return (inside := _after_blanks(text, start + 1)), inside
            first, last = self._written(node.elts[0]), self._written(node.elts[-1])[1]
            if _count(text, start, first[0], "(") <= _count(text, first[1], text.find(",", first[1]), ")"):
                return start, end
        else:
            clause = node.generators[-1]
            last = self._written((clause.ifs or [clause.iter])[-1])[1]
        stop, at = last, _after_blanks(text, last)
        while at < end - 1:  # the closing brackets of the last part, and a comma
            stop = at + 1
            at = _after_blanks(text, stop)
        return _after_blanks(text, start + 1), stop


def _after_blanks(text: str, offset: int) -> int:
    match = _BETWEEN.match(text, offset)
    return match.end() if match is not None else offset


def _count(text: str, start: int, end: int, bracket: str) -> int:
    """How many brackets stand between two tokens, comments left out."""
    return re.sub(r"#[^\r\n]*", "", text[start:end]).count(bracket)


def _says(text: str, node: ast.AST) -> bool:
    """Is a text the one that an expression was made from?"""
    try:
        return ast.dump(ast.parse(f"({text})", mode="eval").body) == ast.dump(node)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def parse(document: Document, name: str) -> SourceModule | Problem:
    """Parse a document, or say where it is broken."""
    deep = too_deep(document.text)
    if deep is not None:
        return _problem(document, deep[1], deep[0], 1)
    thinned = thin(document.text)
    if thinned is None:
        return _problem(document, f"is too large to be followed: it has more than {MOST:,} words, numbers and signs")
    try:
        tree, newer = tree_of(thinned.text)
        return SourceModule(document, name, tree, thinned, newer)
    except SyntaxError as error:
        line, column = error.lineno or 1, error.offset or 1
        if len(thinned.starts) > 1:
            line, column = _in_document(document.text, thinned, line, column)
        return _problem(document, f"cannot be parsed: {error.msg}", line, column)
    except (RecursionError, MemoryError):
        return Problem(document.path, "cannot be parsed: it is nested more deeply than Python reads")
    except (ValueError, SystemError) as error:
        return Problem(document.path, f"cannot be parsed: {type(error).__name__}")


def tree_of(text: str) -> tuple[ast.Module, bool]:
    """The syntax tree of a text, and whether its syntax is that of a newer Python, which libcst reads.

    Where that refuses too, the error is Python's own, whose message and place are the better ones.
    """
    refused: Exception
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text, os.devnull), False  # Python opens the file of that name to show a line of it
    except (SyntaxError, ValueError) as error:
        refused = error  # what nests too deeply for Python is no newer syntax, and takes libcst seconds
    from t4lint.interpret import newer

    try:
        return newer.parse(text), True
    except SyntaxError as error:
        raise (refused if isinstance(refused, SyntaxError) else error) from None


def _problem(document: Document, message: str, line: int | None = None, column: int | None = None) -> Problem:
    """A problem at a place in the text of a document, named as in its file."""
    if line is not None and document.positions is not None:
        place = document.positions.locate(line, column or 1)
        line, column = place.line, place.column
    return Problem(document.path, message, line, column)


def _in_document(text: str, thinned: Thinned, line: int, column: int) -> tuple[int, int]:
    """A place in a text with parts left out, as a place in the document."""
    starts = line_starts(thinned.text)
    offset = thinned.origin(min(starts[min(line, len(starts)) - 1] + column - 1, len(thinned.text)))
    lines = line_starts(text)
    found = bisect_right(lines, offset)
    return found, offset - lines[found - 1] + 1
