"""Edits of environment variables and of launchers' flags, wherever commands stand: shell, Dockerfile, YAML, notebook cells.

What sets a variable is not parsed again: the value's place is known, and its name stands right before it, as
`NAME=value`, `NAME value` (Dockerfile, `%env`), `NAME: value` or `environ["NAME"] = "value"`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from t4lint.fix.shell import shell_word
from t4lint.fix.text import Lines, NoPlace, Splice
from t4lint.trace import Location

_QUOTE = r"""['"]?"""
_GAP = rf"(?:{_QUOTE}\s*\]?\s*=\s*|{_QUOTE}[ \t]*[:,]\s*|[ \t]+){_QUOTE}"  # between a name and its value
# A list of variables, as Kubernetes has it: `name: NAME` and `value: value`.
_PAIR = rf"{_QUOTE}[ \t]*(?:#[^\n]*)?[,\n]\s*{_QUOTE}value{_QUOTE}\s*:\s*{_QUOTE}"
_SET = rf"(?={_QUOTE}\s*\]?\s*[=:])"
_LAUNCHER = re.compile(r"(?<![\w./-])(?:torchrun|torch\.distributed\.(?:run|launch))(?![\w./-])")
_CONTAINER = re.compile(r"(?<![\w./-])(?:docker|podman)[ \t]+run(?![\w./-])")
_BASH = re.compile(r"%%(?:bash|sh|script[ \t]+(?:ba)?sh)\b")
_VARIABLE = re.compile(r"(?<!\\)\$(?:\w+|\{\w+\})")
# The start of a command up to somewhere inside the text that it hands to another shell in double quotes.
_INNER = re.compile(
    r"""(?:[^"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')*\b(?:ba|z|da)?sh[ \t]+-\w*c[ \t\\\n]+"(?:[^"\\]|\\.)*""", re.DOTALL
)
_PLAIN = re.compile(r"[\w.:-]+")  # a host or a number: the same in every quoting


class Given(NamedTuple):
    """What a variable is set to, None where that is not known, and its place where that is in the same text."""

    text: str | None
    place: Location | None


class CommandText:
    """A text with commands in it. `kind` is that of the file, or "cells" for the code cells of a notebook: there
    `first_line` gives the first line of the cell that a line is in."""

    def __init__(self, text: str, kind: str, first_line: Callable[[int], str] = lambda line: "") -> None:
        self.text = text
        self.lines = Lines(text)
        self.kind = kind
        self.first_line = first_line

    def _span(self, at: Location) -> tuple[int, int]:
        return self.lines.offset(at.line, at.column), self.lines.offset(at.end_line, at.end_column)

    # --- variables ---

    def _value(self, at: Location) -> tuple[int, int]:
        """The span of a value without its quotes, and without `NAME=` where the place is that of both."""
        start, end = self._span(at)
        if named := re.match(r"[A-Za-z_]\w*=", self.text[start:end]):
            start += named.end()
        if end - start > 1 and self.text[start] in "'\"" and self.text[start] == self.text[end - 1]:
            start, end = start + 1, end - 1
        return start, end

    def set_value(self, at: Location, said: object, python: str) -> list[Splice]:
        """Another value for a variable that has `said`; of `${NAME:-said}` the default changes."""
        start, end = self._value(at)
        written, old = self.text[start:end], str(said)
        if written == old:
            return [Splice(start, end, shell_word(python))]
        default = re.fullmatch(r"\$\{\w+:?-(.*)\}", written)
        if default is None or default[1] != old:
            raise NoPlace("the value is not written here")
        return [Splice(start + default.start(1), start + default.end(1), shell_word(python))]

    def rename(self, at: Location, name: str, to: str) -> list[Splice]:
        """Another name for a variable; none where the text uses it otherwise, or has the new name too."""
        start, _ = self._value(at)
        found = re.search(rf"(?<!\w)({re.escape(name)})(?:{_GAP}|{_PAIR})\Z", self.text[:start])
        if found is None:
            raise NoPlace("the name does not stand before its value")
        code = re.sub(r"(?m)^\s*#.*$", lambda line: " " * len(line[0]), self.text)
        uses = [it.start() for it in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)(?!{_SET})", code)]
        if any(use != found.start(1) for use in uses) or re.search(rf"(?<!\w){re.escape(to)}(?!\w)", code):
            raise NoPlace(f"{name} is used, or {to} is there already")
        return [Splice(*found.span(1), to)]

    def export(self, at: Location, name: str, value: str) -> list[Splice]:
        """A line before a command that sets a variable for it."""
        if _CONTAINER.search(self.text, *self._span(at)):
            end = self._only(at, _CONTAINER).end()
            return [Splice(end, end, f" -e {name}={value}")]
        line = at.line
        written = self.lines.line(line)
        if self.kind not in ("shell", "cells") or (line > 1 and self.lines.line(line - 1).rstrip().endswith("\\")):
            raise NoPlace("no line can come before this command")
        start, indent = self.lines.start_of(line), self.lines.indent(line)
        if self.kind == "cells" and written.lstrip().startswith("!"):
            return [Splice(start, start, f"{indent}%env {name}={value}\n")]
        if self.kind == "cells" and not _BASH.match(self.first_line(line)):
            raise NoPlace("no line can come before this command")
        return [Splice(start, start, f"{indent}export {name}={value}\n")]

    def leave_to_inner_shell(self, at: Location) -> list[Splice]:
        r"""`\$NAME` for the only variable of a word that stands in `bash -c "..."`."""
        start, end = self._span(at)
        words = list(_VARIABLE.finditer(self.text, start, end))
        begin = self.lines.start_of(at.line)
        while begin > 0 and self.text[:begin].endswith("\\\n"):
            begin = self.lines.start_of(self.lines.line_of(begin - 1))
        if len(words) != 1 or not _INNER.fullmatch(self.text, begin, words[0].start()):
            raise NoPlace("no inner shell would fill it in")
        return [Splice(words[0].start(), words[0].start(), "\\")]

    def drop_requirement(self, at: Location) -> list[Splice]:
        """A line of a requirements file."""
        if self.lines.line(at.line).rstrip().endswith("\\"):
            raise NoPlace("the requirement does not have its line for itself")
        return [Splice(self.lines.start_of(at.line), self.lines.end_of(at.line), "")]

    # --- flags ---

    def _only(self, at: Location, pattern: re.Pattern[str]) -> re.Match[str]:
        words = list(pattern.finditer(self.text, *self._span(at)))
        if len(words) != 1:
            raise NoPlace("it is not clear which command is meant")
        return words[0]

    def use_module(self, at: Location, module: str, to: str) -> list[Splice]:
        word = self._only(at, re.compile(rf"(?<=-m)\s+({re.escape(module)})(?![\w.])"))
        return [Splice(*word.span(1), to)]

    def add_flag(
        self, at: Location, name: str, text: str, variables: Mapping[str, Given], to: str = "launcher"
    ) -> list[Splice]:
        """A flag right behind the launcher. Variables go by their names where a shell fills them in."""
        word = self._only(at, _LAUNCHER if to == "launcher" else _CONTAINER)
        if to == "container" and f"--{name}" in self.text[slice(*self._span(at))]:
            raise NoPlace(f"--{name} is there already")
        before, after = self.text[: word.start()], self.text[word.end() :]
        if item := re.search(r"(?:^|\n)([ \t]*-[ \t]+)(['\"]?)\Z", before):
            if re.match(rf"{item[2]}[ \t]*(?:\r?\n|\Z)", after):
                flag = f"--{name}={self._listed(text, variables)}"
                return [Splice(word.end() + len(item[2]), word.end() + len(item[2]), f"\n{item[1]}{flag}")]
        if listed := re.search(r"[\[,]\s*(['\"]?)\Z", before):
            quote = listed[1]
            if re.match(rf"{quote}\s*[,\]]", after):
                flag = f"{quote}--{name}={self._listed(text, variables)}{quote}"
                return [Splice(word.end() + len(quote), word.end() + len(quote), f", {flag}")]
        filled_in = self.kind == "shell" or (self.kind == "cells" and self._in_bash(at.line))
        said = {
            variable: f"${variable}" if filled_in and not self._prefixed(given, at, word.start()) else _literal(given)
            for variable, given in variables.items()
        }
        return [Splice(word.end(), word.end(), f" --{name}={text.format(**said)}")]

    def _listed(self, text: str, variables: Mapping[str, Given]) -> str:
        """Words of a list are read by no shell, but Kubernetes fills in `$(NAME)`."""
        pods = self.kind == "yaml" and re.search(r"(?m)^apiVersion:", self.text)
        return text.format(**{name: f"$({name})" if pods else _literal(given) for name, given in variables.items()})

    def _prefixed(self, given: Given, at: Location, word: int) -> bool:
        """Does the variable stand before the launcher in the same command? The command itself does not see it then."""
        if given.place is None or given.place.line < at.line:
            return False
        start = self._span(given.place)[0]
        return start < word and not re.search(r"\n(?<!\\\n)|[;&|]", self.text[start:word])

    def _in_bash(self, number: int) -> bool:
        """Is a line of the cells one of `%%bash`, or of `!`?"""
        while number > 1 and self.lines.line(number - 1).rstrip().endswith("\\"):
            number -= 1
        return self.lines.line(number).lstrip().startswith("!") or bool(_BASH.match(self.first_line(number)))


def _literal(given: Given) -> str:
    if given.text is None or not _PLAIN.fullmatch(given.text):
        raise NoPlace("nothing fills in the variable here")
    return given.text
