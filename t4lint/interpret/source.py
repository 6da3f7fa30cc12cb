"""A parsed module of the project: its tree, and positions that are computed only when somebody asks."""

from __future__ import annotations

import ast
import os
import re
import sys
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import libcst as cst
from libcst._nodes.internal import CodegenState

from t4lint.findings import Problem
from t4lint.sources.document import Document
from t4lint.sources.nesting import too_deep
from t4lint.sources.thin import MOST, Thinned, thin
from t4lint.trace import Location

# Printing takes up to five frames for each of the levels that `too_deep` lets pass, below those of the interpretation.
PRINTING_FRAMES = 12_000 if sys.version_info >= (3, 11) else 5_000
_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f\r\n\\"


def statements_of(body: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A body and the statements in it, those of blocks too, but not those of functions and classes in it."""
    pending: list[Any] = [body]
    while pending:
        current = pending.pop()
        yield current
        if isinstance(current, (cst.IndentedBlock, cst.SimpleStatementLine, cst.SimpleStatementSuite)):
            pending.extend(current.body)
        elif isinstance(current, (cst.If, cst.For, cst.While, cst.With, cst.Try, cst.Else, cst.Finally)):
            pending.append(current.body)
            pending.extend(
                part for part in (getattr(current, "orelse", None), getattr(current, "finalbody", None)) if part
            )


class SourceModule:
    """A document with its syntax tree. `name` is the dotted name under which the program imports it.

    The tree of a huge document is that of a text with parts left out, `thinned`; places are always the document's.
    """

    def __init__(self, document: Document, name: str, tree: cst.Module, thinned: Thinned | None = None) -> None:
        self.document = document
        self.name = name
        self.tree = tree
        self.thinned = thinned if thinned is not None and len(thinned.starts) > 1 else None
        self.constants: dict[int, Any] = {}  # what literals evaluate to, by the id of their node
        self._marks: dict[int, tuple[int, int]] | None = None  # first and last token of each node
        self._starts: list[int] = []  # offsets of the tokens
        self._ends: list[int] = []  # where the tokens before them end
        self._lines: list[int] = []
        self._locations: dict[int, Location] = {}
        self._serials: dict[int, str] = {}

    @property
    def path(self) -> str:
        return self.document.path

    def code(self, node: cst.CSTNode) -> str:
        """The source text of a node."""
        return self.tree.code_for_node(node).strip()

    def serial(self, node: cst.CSTNode) -> str:
        """A name for a node that is stable within one interpretation and needs no position."""
        key = id(node)
        if key not in self._serials:
            self._serials[key] = f"{self.path}#{len(self._serials)}"
        return self._serials[key]

    def location(self, node: cst.CSTNode) -> Location:
        """Where a node stands. The first call prints the whole module once to learn the positions of all nodes."""
        if id(node) in self._locations:
            return self._locations[id(node)]
        if self._marks is None:
            text = self.document.text if self.thinned is None else self.thinned.text
            self._marks, self._starts, self._ends = _printed(self.tree, text)
            self._lines = _line_starts(self.document.text)
        start, end = _span(self._marks.get(id(node), (0, 0)), self._starts, self._ends)
        if self.thinned is not None:
            start, end = self.thinned.origin(start), self.thinned.origin(end)
        if self.document.positions is not None:
            found = self._locations[id(node)] = self.document.positions.location(start, end)
            return found
        line, column = self._position(start)
        end_line, end_column = self._position(end)
        found = self._locations[id(node)] = Location(self.path, line, column, end_line, end_column)
        return found

    def _position(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._lines, offset) - 1
        return line + 1, offset - self._lines[line] + 1


class _Recorder(CodegenState):
    """Notes for each node the index of its first and last token while the module is printed."""

    __slots__ = ("_stack", "marks")

    def __init__(self, tree: cst.Module) -> None:
        super().__init__(default_indent=tree.default_indent, default_newline=tree.default_newline)
        self.marks: dict[int, tuple[int, int]] = {}
        self._stack: list[int] = []

    def before_codegen(self, node: cst.CSTNode) -> None:
        self._stack.append(len(self.tokens))

    def after_codegen(self, node: cst.CSTNode) -> None:
        start = self._stack.pop()
        self.marks.setdefault(id(node), (start, len(self.tokens)))

    def record_syntactic_position(self, node: cst.CSTNode, *, start_node: Any = None, end_node: Any = None) -> Any:
        return _Mark(self, node, start_node, end_node)


class _Mark:
    """Context manager of `_Recorder`: a class, since a generator would double the cost of the pass."""

    __slots__ = ("end_node", "node", "recorder", "start", "start_node")

    def __init__(self, recorder: _Recorder, node: cst.CSTNode, start_node: Any, end_node: Any) -> None:
        self.recorder = recorder
        self.node = node
        self.start_node = start_node
        self.end_node = end_node
        self.start = 0

    def __enter__(self) -> None:
        self.start = len(self.recorder.tokens)

    def __exit__(self, *exception: object) -> None:
        marks = self.recorder.marks
        start = marks[id(self.start_node)][0] if self.start_node is not None else self.start
        end = marks[id(self.end_node)][1] if self.end_node is not None else len(self.recorder.tokens)
        marks[id(self.node)] = (start, end)


def spans(tree: cst.Module, text: str) -> dict[int, tuple[int, int]]:
    """Character offsets in its text of every node of a tree, by the node's id."""
    marks, starts, ends = _printed(tree, text)
    return {key: _span(mark, starts, ends) for key, mark in marks.items()}


def _span(mark: tuple[int, int], starts: list[int], ends: list[int]) -> tuple[int, int]:
    """The offsets of a first and a last token."""
    most = len(starts) - 1  # libcst takes the last line end back where the text has none
    start = starts[min(mark[0], most)]
    return start, max(start, ends[min(mark[1], most)])


def _printed(tree: cst.Module, text: str) -> tuple[dict[int, tuple[int, int]], list[int], list[int]]:
    """The first and last token of every node, the character offsets in the text of tokens, and of the ends before them."""
    recorder = _Recorder(tree)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, PRINTING_FRAMES))
    try:
        tree._codegen(recorder)
    finally:
        sys.setrecursionlimit(before)
    offsets = [0, *accumulate(map(len, recorder.tokens))]
    shifts = _shifts("".join(recorder.tokens), text)
    if not shifts:
        return recorder.marks, offsets, offsets
    places, sums = zip(*shifts, strict=True)
    starts = [it + (sums[at - 1] if (at := bisect_right(places, it)) else 0) for it in offsets]
    ends = [it + (sums[at - 1] if (at := bisect_left(places, it)) else 0) for it in offsets]
    return recorder.marks, starts, ends


def _shifts(printed: str, text: str) -> list[tuple[int, int]]:
    """Where a printed tree and its text differ: offsets in what was printed, and how much further the text is from there on.

    libcst forgets blanks in a few places (`except (A, B) :`). Anything but blanks is never lost.
    """
    found: list[tuple[int, int]] = []
    if printed == text:
        return found
    at = place = 0
    while at < len(printed) and place < len(text):
        if printed[at] == text[place]:
            at, place = at + 1, place + 1
            continue
        if text[place] in _BLANKS:
            place += 1
        elif printed[at] in _BLANKS:
            at += 1
        else:
            break
        found.append((at, place - at))
    return found


def _line_starts(text: str) -> list[int]:
    """The offsets at which lines start, as editors count them: `str.splitlines` also splits at form feeds and others."""
    return [0, *(match.end() for match in _LINE_END.finditer(text))]


def parse(document: Document, name: str) -> SourceModule | Problem:
    """Parse a document, or say where it is broken."""
    deep = too_deep(document.text)
    if deep is not None:
        return _problem(document, deep[1], deep[0], 1)
    thinned = thin(document.text)
    if thinned is None:
        return _problem(document, f"is too large to be followed: it has more than {MOST:,} words, numbers and signs")
    try:
        with unvalidated():
            tree = cst.parse_module(thinned.text)
        return SourceModule(document, name, tree, thinned)
    except cst.ParserSyntaxError as error:
        line, column, reason = _place(thinned.text, error)
        if len(thinned.starts) > 1:
            line, column = _in_document(document.text, thinned, line, column)
        return _problem(document, f"cannot be parsed: {reason}", line, column)
    except (RecursionError, ValueError, MemoryError, SystemError) as error:
        return Problem(document.path, f"cannot be parsed: {type(error).__name__}")


_VALIDATE = cst.CSTNode.__post_init__


@contextmanager
def unvalidated() -> Iterator[None]:
    """Without libcst's checks of each node, a quarter of its time: those are for trees that are built by hand."""
    cst.CSTNode.__post_init__ = _nothing  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        cst.CSTNode.__post_init__ = _VALIDATE  # type: ignore[method-assign]


def _nothing(node: cst.CSTNode) -> None:
    pass


def _problem(document: Document, message: str, line: int | None = None, column: int | None = None) -> Problem:
    """A problem at a place in the text of a document, named as in its file."""
    if line is not None and document.positions is not None:
        place = document.positions.locate(line, column or 1)
        line, column = place.line, place.column
    return Problem(document.path, message, line, column)


def _in_document(text: str, thinned: Thinned, line: int, column: int) -> tuple[int, int]:
    """A place in a text with parts left out, as a place in the document."""
    starts = _line_starts(thinned.text)
    offset = thinned.origin(min(starts[min(line, len(starts)) - 1] + column - 1, len(thinned.text)))
    lines = _line_starts(text)
    found = bisect_right(lines, offset)
    return found, offset - lines[found - 1] + 1


def _place(text: str, error: cst.ParserSyntaxError) -> tuple[int, int, str]:
    """Where a file is broken. Python's own parser says it better, where it refuses the file as well."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text, os.devnull)  # Python opens the file of that name to show a line of it
    except SyntaxError as own:
        return own.lineno or error.raw_line, own.offset or 1, own.msg
    except (ValueError, RecursionError, MemoryError):
        pass
    reason = error.message.removeprefix("parser error: ").strip() or "syntax error"
    return error.raw_line, error.raw_column + 1, reason
