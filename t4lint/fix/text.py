"""Texts with positions, and edits of them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from t4lint.findings import TextEdit
from t4lint.sources.configs import JSON_SUFFIXES, YAML_SUFFIXES
from t4lint.sources.files import PYTHON_SUFFIXES, SHELL_SUFFIXES
from t4lint.sources.positions import LINE_END


class NoPlace(Exception):  # noqa: N818
    """An edit has no place in the text; so there is no fix."""


Kind = Literal["python", "shell", "notebook", "yaml", "json", "other"]
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(PYTHON_SUFFIXES, "python"),
    **dict.fromkeys(SHELL_SUFFIXES, "shell"),
    ".ipynb": "notebook",
    **dict.fromkeys(YAML_SUFFIXES, "yaml"),
    **dict.fromkeys(JSON_SUFFIXES, "json"),
}


def kind_of(path: str, text: str) -> Kind:
    """What a file is to an editor of text; Makefiles, Dockerfiles and READMEs are `other`: lines, with shell in some."""
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in _KINDS:
        return _KINDS[suffix]
    first = text.split("\n", 1)[0]
    if not suffix and re.match(r"#!.*\b(?:ba|da|z|k)?sh\b", first):
        return "shell"
    return "python" if not suffix and re.match(r"#!.*\bpython", first) else "other"


class Splice(NamedTuple):
    """Replace the characters from `start` to `end` (exclusive)."""

    start: int
    end: int
    text: str


class Lines:
    """A text, its lines as editors count them, and its line ending."""

    def __init__(self, text: str) -> None:
        self.text = text
        ends = list(LINE_END.finditer(text))
        self.starts = [0, *(match.end() for match in ends)]
        self._stops = [*(match.start() for match in ends), len(text)]
        self.newline = ends[0][0] if ends else "\n"

    def offset(self, line: int, column: int) -> int:
        """The index of a place; both are 1-based."""
        if not 1 <= line <= len(self.starts):
            raise NoPlace(f"there is no line {line}")
        return min(self.starts[line - 1] + column - 1, len(self.text))

    def place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def line_of(self, offset: int) -> int:
        return bisect_right(self.starts, offset)

    def start_of(self, line: int) -> int:
        return self.starts[line - 1]

    def stop_of(self, line: int) -> int:
        """The index after the last character of a line, before its line end."""
        return self._stops[line - 1]

    def end_of(self, line: int) -> int:
        """The index after a line's line end."""
        return self.starts[line] if line < len(self.starts) else len(self.text)

    def line(self, number: int) -> str:
        return self.text[self.start_of(number) : self.stop_of(number)]

    def all(self) -> list[str]:
        """The lines, without their line ends."""
        return [self.text[start:stop] for start, stop in zip(self.starts, self._stops, strict=True)]

    def indent(self, number: int) -> str:
        line = self.line(number)
        return line[: len(line) - len(line.lstrip(" \t\f"))]

    def own(self, text: str) -> str:
        """Text to insert, with the line ending of this one."""
        return text if self.newline == "\n" else text.replace("\n", self.newline)


def spliced(text: str, splices: Iterable[Splice]) -> str:
    """The text after edits that do not overlap."""
    parts: list[str] = []
    position = 0
    for splice in sorted(set(splices)):
        if splice.start < position:
            raise NoPlace("edits overlap")
        parts += [text[position : splice.start], splice.text]
        position = splice.end
    return "".join([*parts, text[position:]])


def splices(text: str, edits: Iterable[TextEdit]) -> list[Splice]:
    lines = Lines(text)
    return [Splice(lines.offset(*edit.start), lines.offset(*edit.end), edit.text) for edit in edits]


def edited(text: str, edits: Iterable[TextEdit]) -> str:
    """The text after edits of it."""
    return spliced(text, splices(text, edits))


def as_edits(path: str, text: str, given: Iterable[Splice]) -> list[TextEdit]:
    lines = Lines(text)
    return [TextEdit(path, lines.place(it.start), lines.place(it.end), lines.own(it.text)) for it in sorted(set(given))]


def overlap(one: Sequence[TextEdit], other: Sequence[TextEdit]) -> bool:
    """Do two fixes want to change the same text differently? The same edit in both is no conflict."""
    return any(_touch(a, b) for a in one for b in other if a != b and a.path == b.path)


def _touch(one: TextEdit, other: TextEdit) -> bool:
    first, second = sorted((one, other), key=lambda it: (it.start, it.end))
    return second.start < first.end or second.start == first.start
