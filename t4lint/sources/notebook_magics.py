"""What the lines of a notebook cell are: Python, or something that IPython handles before Python sees it."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from typing import Literal

LineKind = Literal["python", "shell", "magic", "help"]

# Cell magics that run their cell as Python in the notebook's own namespace.
KEEP_CODE = frozenset({
    "time", "timeit", "capture", "prun", "debug", "memit", "mprun", "lprun", "wandb", "notify", "snakeviz", "heat",
    "pyinstrument", "scalene", "memray_flamegraph", "px", "skip_exception", "ipytest", "pyspy", "filprofile", "nbdev",
})  # fmt: skip
SHELL_CELLS = frozenset({"bash", "sh", "!", "sx", "system", "shell"})
WRITE_CELLS = frozenset({"writefile", "file"})

# Names that IPython takes for magics without a percent sign, where the line is not Python.
_AUTOMAGIC = frozenset(
    {"pip", "conda", "mamba", "cd", "ls", "pwd", "mkdir", "cp", "mv", "rm", "cat", "env", "run", "uv"}
)
_INSTALLERS = frozenset({"pip", "conda", "mamba", "micromamba", "uv"})
_TOKEN = re.compile(r"'''|\"\"\"|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|#.*|[()\[\]{}]|[^'\"#()\[\]{}]+|.", re.DOTALL)
_CAPTURED = re.compile(r"^(\s*[A-Za-z_][\w., \[\]'\"]*?\s*=\s*)([!%])(?=[\w./~\"'({$])(.*)$", re.DOTALL)
_HELP = re.compile(r"^\s*(?:\?{1,2}\s*[%\w.*]+|[%\w][\w.*%\[\]]*\?{1,2})\s*;?\s*$")
_CELL_MAGIC = re.compile(r"^%%(!|[A-Za-z_][\w.]*)[ \t]*(.*)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a cell. `rest` starts at `column` (0-based): the command or magic without its mark.

    `target` is what stands before the mark in `files = !ls`.
    """

    kind: LineKind
    rest: str = ""
    column: int = 0
    target: str = ""


class Lexer:
    """Follows brackets and quotes from line to line: `% b` inside brackets is an operator, not a magic."""

    __slots__ = ("_continued", "_depth", "_quote")

    def __init__(self) -> None:
        self._depth = 0
        self._quote = ""
        self._continued = False

    @property
    def fresh(self) -> bool:
        """Does the next line start a statement?"""
        return not (self._depth or self._quote or self._continued)

    def feed(self, line: str) -> None:
        """Step over a line of Python."""
        position = 0
        if self._quote:
            end = _closing(line, self._quote)
            if end < 0:
                return
            position, self._quote = end, ""
        comment = False
        while position < len(line):
            found = _TOKEN.match(line, position)
            if found is None:
                break
            token, position = found[0], found.end()
            comment = token.startswith("#")
            if token in ("'''", '"""'):
                end = _closing(line[position:], token)
                if end < 0:
                    self._quote = token
                    break
                position += end
            elif token in "([{":
                self._depth += 1
            elif token in ")]}":
                self._depth = max(self._depth - 1, 0)
        self._continued = not comment and line.rstrip("\r\n").endswith("\\")


def _closing(text: str, quote: str) -> int:
    """Where a triple-quoted string ends in a text; -1 if it does not."""
    position = 0
    while position < len(text):
        if text[position] == "\\":
            position += 2
        elif text.startswith(quote, position):
            return position + 3
        else:
            position += 1
    return -1


def classify(line: str) -> Line:
    """What a line that starts a statement is."""
    stripped = line.lstrip()
    indent = len(line) - len(stripped)
    if not stripped or stripped.startswith("#"):
        return Line("python")
    if stripped.startswith("!"):
        column = indent + (2 if stripped.startswith("!!") else 1)
        return Line("shell", line[column:], column)
    if _HELP.match(line):
        return Line("help")
    if stripped.startswith("%"):
        column = indent + (2 if stripped.startswith("%%") else 1)
        return Line("magic", line[column:], column)
    if stripped.startswith("?"):
        return Line("help")
    captured = _CAPTURED.match(line)
    if captured:
        kind: LineKind = "shell" if captured[2] == "!" else "magic"
        return Line(kind, captured[3], captured.start(3), captured[1])
    name = re.match(r"[a-z]+(?=[ \t]+\S)", stripped)
    if name and name[0] in _AUTOMAGIC and not is_python(stripped):
        return Line("magic", line[indent:], indent)
    return Line("python")


def cell_magic(line: str) -> tuple[str, str] | None:
    """Name and arguments of `%%name arguments`."""
    found = _CELL_MAGIC.match(line)
    return (found[1], found[2].strip()) if found else None


def shell_of_script(arguments: str) -> bool:
    """Does `%%script ARGUMENTS` run its cell with a shell?"""
    words = [word for word in arguments.split() if not word.startswith("-")]
    return bool(words) and words[0].rpartition("/")[2] in ("bash", "sh", "zsh")


def installs(text: str) -> bool:
    """Is this a command of an installer: `pip install ...`, `python -m pip install ...`?"""
    return bool(re.search(r"\b(?:pip3?|conda|mamba|micromamba|uv)\b.*\b(?:install|add)\b", text))


def is_installer(rest: str) -> bool:
    """Is a magic one of the installers' (`%pip`, `%conda`)?"""
    return rest.split(None, 1)[0] in _INSTALLERS if rest.strip() else False


def is_python(text: str) -> bool:
    """Does a text parse as Python?"""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def parameters(rest: str) -> tuple[str, str, int] | None:
    """Name, value and the value's offset in `env NAME=value`, `env NAME value`, `set_env NAME=value`."""
    found = re.match(r"(?:set_)?env[ \t]+([A-Za-z_]\w*)[ \t]*(?:=[ \t]*|[ \t]+)(.*?)[ \t;]*$", rest.rstrip("\r\n"))
    return (found[1], found[2], found.start(2)) if found and found[2] else None


__all__ = [
    "KEEP_CODE", "SHELL_CELLS", "WRITE_CELLS", "Lexer", "Line", "cell_magic", "classify", "installs", "is_installer",
    "is_python", "parameters", "shell_of_script",
]  # fmt: skip
