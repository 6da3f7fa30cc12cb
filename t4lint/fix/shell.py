"""Edits of command lines: the flags of a launch, as they stand in a shell script."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from t4lint.fix.text import Lines, NoPlace, Splice
from t4lint.trace import Origin

# What separates words: blanks, and a line that goes on.
_GAP = r"(?:[ \t]|\\\r?\n)+"
_WORD = re.compile(r"""(?:[^\s\\'"|&;<>()]|\\[^\r\n]|'[^']*'|"(?:[^"\\]|\\.)*")+""", re.DOTALL)


class Flag(NamedTuple):
    """A flag as written: its name, and the span of its value where it has one (after `=`, or the next word)."""

    start: int
    name_end: int
    value: tuple[int, int] | None

    @property
    def end(self) -> int:
        return self.value[1] if self.value else self.name_end


class ShellFile:
    """A shell script, and edits of what it passes on."""

    def __init__(self, text: str) -> None:
        self.lines = Lines(text)
        self.text = text

    def flag(self, origin: Origin) -> Flag:
        """The flag at an origin. Its note says whether it has a value: `--bf16 True`."""
        if origin.how != "flag" or origin.location is None:
            raise NoPlace("this is no flag")
        start = self.lines.offset(origin.location.line, origin.location.column)
        end = self.lines.offset(origin.location.end_line, origin.location.end_column)
        word = self.text[start:end]
        name, equals, _ = word.partition("=")
        if not re.fullmatch(r"--?[A-Za-z][\w-]*", name):
            raise NoPlace("what stands here is not a plain flag")
        if equals:
            return Flag(start, start + len(name), (start + len(name) + 1, end))
        _, _, value = origin.note.partition(" ")
        if not value:
            return Flag(start, end, None)
        return Flag(start, end, self._next_word(end, value))

    def _next_word(self, position: int, value: str) -> tuple[int, int] | None:
        gap = re.compile(_GAP).match(self.text, position)
        word = _WORD.match(self.text, gap.end()) if gap else None
        if (word is None or _unquoted(word[0]) != value) and value != "true":  # so a launcher's switch is noted
            raise NoPlace("the value of the flag does not stand behind it")
        return word.span() if word is not None and _unquoted(word[0]) == value else None

    def set_value(self, origin: Origin, python: str) -> list[Splice]:
        if (span := self._bare_value(origin)) is not None:
            return [Splice(*span, shell_word(python))]
        flag = self.flag(origin)
        if flag.value is None:
            raise NoPlace("the flag has no value")
        return [Splice(*flag.value, shell_word(python))]

    def _bare_value(self, origin: Origin) -> tuple[int, int] | None:
        """The span of a launcher's value: its place is its own, not that of its flag."""
        at, (_, _, value) = origin.location, origin.note.partition(" ")
        if origin.how != "flag" or at is None or not value or value.startswith("-"):
            return None
        span = self.lines.offset(at.line, at.column), self.lines.offset(at.end_line, at.end_column)
        return span if _unquoted(self.text[slice(*span)]) == value else None

    def rename(self, origin: Origin, name: str, to: str) -> list[Splice]:
        flag = self.flag(origin)
        written = self.text[flag.start : flag.name_end]
        plain = written.lstrip("-")
        if not called(plain, name):
            raise NoPlace(f"the flag is not called {name}")
        dashes = written[: len(written) - len(plain)]
        new = to.replace("_", "-") if "-" in plain else to
        if re.search(rf"(?<![\w-]){re.escape(dashes + new)}(?![\w-])", self._command(flag.start)):
            raise NoPlace(f"{dashes}{new} is there already")
        return [Splice(flag.start, flag.name_end, dashes + new)]

    def drop(self, origin: Origin, name: str, otherwise: str) -> list[Splice]:
        """The flag goes with its value, and with the blanks, or the whole line, that it leaves empty.

        One that is called otherwise (it feeds a variable) gets another value, if there is one.
        """
        flag = self.flag(origin)
        if not called(self.text[flag.start : flag.name_end].lstrip("-"), name):
            if otherwise:
                return self.set_value(origin, otherwise)
            raise NoPlace(f"the flag is not called {name}")
        first, last = self.lines.line_of(flag.start), self.lines.line_of(flag.end)
        before = self.text[self.lines.start_of(first) : flag.start]
        after = self.text[flag.end : self.lines.stop_of(last)]
        if not before.strip() and after.strip() == "\\":
            return [Splice(self.lines.start_of(first), self.lines.end_of(last), "")]
        if not before.strip() and not after.strip():
            return [self._drop_last_line(first, flag.end)]
        start = flag.start - (len(before) - len(before.rstrip(" \t")))
        if before.strip() and start < flag.start:
            return [Splice(start, flag.end, "")]
        return [Splice(flag.start, flag.end + len(after) - len(after.lstrip(" \t")), "")]

    def _drop_last_line(self, line: int, end: int) -> Splice:
        """The flag is all of a command's last line: the line before must not go on any more."""
        if line == 1:
            raise NoPlace("the flag stands alone")
        previous = self.lines.line(line - 1)
        kept = previous.rstrip()
        if not kept.endswith("\\"):
            return Splice(self.lines.start_of(line), self.lines.end_of(line), "")  # an item of an array
        kept = kept[:-1].rstrip()
        return Splice(self.lines.start_of(line - 1) + len(kept), end, "")

    def _command(self, position: int) -> str:
        """The lines of the command around a position, those that go on joined."""
        first = last = self.lines.line_of(position)
        while first > 1 and self.lines.line(first - 1).rstrip().endswith("\\"):
            first -= 1
        while last < len(self.lines.starts) and self.lines.line(last).rstrip().endswith("\\"):
            last += 1
        return self.text[self.lines.start_of(first) : self.lines.stop_of(last)]


def called(written: str, name: str) -> bool:
    """Does an argument go by a name? `dataloader-pin-memory` does by `pin_memory`."""
    plain = written.replace("-", "_")
    return plain == name or plain.endswith(f"_{name}")


def _unquoted(word: str) -> str:
    return re.sub(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)""", lambda m: m[1] or m[2] or m[3] or "", word)


def shell_word(python: str) -> str:
    """A Python literal as a word."""
    try:
        value = ast.literal_eval(python)
    except (ValueError, SyntaxError):
        raise NoPlace("this value cannot stand on a command line") from None
    if not re.fullmatch(r"[\w.,:/+-]+", str(value)):
        raise NoPlace("this value cannot stand on a command line")
    return str(value)
