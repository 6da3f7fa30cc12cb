"""Shell commands put together from what other files hold: words, exports, `cd`, each at its own place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from t4lint.sources.positions import TextBuilder

MAX_FRAGMENTS = 300  # of one file
# What a fragment must hold to be of use: something that could start a script.
STARTS = re.compile(
    r"\b(?:python[\d.]*|torchrun|accelerate|deepspeed|srun|bash|sh|uv|singularity|mpirun)\b|\.py\b|\$[{(]?\w*(?:PYTHON|python)"
    r"|\b(?:trl|axolotl|llamafactory-cli|swift (?:sft|pt|rlhf)|tune run|yolo|fabric run)\s"
)
SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_SAFE = re.compile(r"[\w./:=@%+,-]+")
# Filled in before a shell sees it: GitHub's `${{ ... }}`, and templates.
_EXPRESSION = re.compile(r"\$?\{\{\s*(?:env\.(\w+)|[^{}\n]*)\s*\}\}")


@dataclass(frozen=True, slots=True)
class Written:
    """A stretch of text and its place; `exact` where each character stands in the file as it does here."""

    text: str
    line: int
    column: int
    end_line: int
    end_column: int
    exact: bool = True

    @staticmethod
    def at(text: str, line: int, column: int) -> Written:
        """Text within one line, as it is written."""
        return Written(text, line, column, line, column + len(text))

    def part(self, start: int, end: int | None = None) -> Written:
        """A part of it, at its own place if that is known."""
        text = self.text[start:end]
        if not self.exact:
            return Written(text, self.line, self.column, self.end_line, self.end_column, False)
        return Written.at(text, self.line, self.column + start)

    def stand_in(self, text: str) -> Written:
        """Another text for the same place."""
        return Written(text, self.line, self.column, self.end_line, self.end_column, False)


# Stretches in order; a plain string stands for text that is written nowhere: a line end, a blank.
Text = list["Written | str"]


def text_of(text: Text) -> str:
    """What a text says."""
    return "".join(part if isinstance(part, str) else part.text for part in text)


def add(builder: TextBuilder, text: Text) -> None:
    """Append a text as it stands."""
    for part in text:
        if isinstance(part, str):
            builder.fill(part)
        elif part.exact:
            builder.add(part.text, part.line, part.column)
        else:
            builder.stand_in(part.text, part.line, part.column, part.end_line, part.end_column)


def add_word(builder: TextBuilder, text: Text, expanded: bool = False) -> None:
    """Append a text as one word of a command. `expanded`: `$(X)` and `${X}` in it are replaced before it runs."""
    said = text_of(text)
    if expanded and "$" in said:
        builder.fill('"')
        for part in text:
            add(builder, [part if isinstance(part, str) else _double_quoted(part)])
        builder.fill('"')
    elif _SAFE.fullmatch(said):
        add(builder, text)
    else:
        builder.fill("'")
        for part in text:
            add(builder, [part] if isinstance(part, str) or "'" not in part.text else [_single_quoted(part)])
        builder.fill("'")


def _double_quoted(part: Written) -> Written:
    text = re.sub(r"\$\((\w+)\)", r"${\1}", re.sub(r'(["\\`])', r"\\\1", part.text))
    return part if text == part.text else part.stand_in(text)


def _single_quoted(part: Written) -> Written:
    return part.stand_in(part.text.replace("'", "'\\''"))


def add_command(builder: TextBuilder, words: Sequence[Text], expanded: bool = False) -> None:
    """Append a command that is given as a list of words; the code of `bash -c CODE` as the shell that it is."""
    code = _code(words)
    if code is not None:
        add(builder, code)
    else:
        for number, word in enumerate(words):
            builder.fill(" " if number else "")
            add_word(builder, word, expanded)
    builder.fill("\n")


def _code(words: Sequence[Text]) -> Text | None:
    if not words or PurePosixPath(text_of(words[0])).name not in SHELLS:
        return None
    for index, word in enumerate(words[1:-1], start=1):
        said = text_of(word)
        if not said.startswith("-"):
            return None
        if not said.startswith("--") and "c" in said:
            return words[index + 1]
    return None


def add_export(builder: TextBuilder, name: str, value: Text, keyword: str = "export ") -> None:
    """Append `export NAME='value'`; a value that is filled in later is not known."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        return
    builder.fill(f"{keyword}{name}=")
    if "{{" in text_of(value):
        add(builder, list(expressions(value)))
    else:
        add_word(builder, value, expanded=True)
    builder.fill("\n")


def add_folder(builder: TextBuilder, folder: Text) -> None:
    """Append `cd FOLDER`."""
    builder.fill("cd ")
    add_word(builder, folder, expanded=True)
    builder.fill("\n")


def expressions(text: Text) -> Iterator[Written | str]:
    """A text with what is filled in before the shell runs as variables that are not known (`${{ env.X }}` is X)."""
    for part in text:
        if isinstance(part, str) or "{{" not in part.text:
            yield part
            continue
        last = 0
        for found in _EXPRESSION.finditer(part.text):
            yield part.part(last, found.start())
            yield part.part(found.start(), found.end()).stand_in(f"${{{found[1] or '_'}}}")
            last = found.end()
        yield part.part(last)
