"""Where the nodes of a libcst tree stand in the text that it was parsed from, without libcst's metadata: a fifth of its time."""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import libcst as cst
from libcst._nodes.internal import CodegenState

# Printing takes up to five frames for each of the levels that `nesting.too_deep` lets pass, below those of who asks.
PRINTING_FRAMES = 12_000 if sys.version_info >= (3, 11) else 5_000
_BLANKS = " \t\f\r\n\\"


def spans(tree: cst.Module, text: str) -> dict[int, tuple[int, int]]:
    """Character offsets in its text of every node of a tree, by the node's id."""
    marks, starts, ends = _printed(tree, text)
    return {key: _span(mark, starts, ends) for key, mark in marks.items()}


@contextmanager
def deep_enough() -> Iterator[None]:
    """For walks over trees of any depth that `too_deep` lets pass."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, PRINTING_FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


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


def _span(mark: tuple[int, int], starts: list[int], ends: list[int]) -> tuple[int, int]:
    """The offsets of a first and a last token."""
    most = len(starts) - 1  # libcst takes the last line end back where the text has none
    start = starts[min(mark[0], most)]
    return start, max(start, ends[min(mark[1], most)])


def _printed(tree: cst.Module, text: str) -> tuple[dict[int, tuple[int, int]], list[int], list[int]]:
    """The first and last token of every node, the character offsets in the text of tokens, and of the ends before them."""
    recorder = _Recorder(tree)
    with deep_enough():
        tree._codegen(recorder)
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
