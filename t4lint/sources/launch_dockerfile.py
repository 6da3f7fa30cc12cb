"""Commands in a Dockerfile: RUN, and what ENTRYPOINT and CMD start, with ENV, ARG and WORKDIR in force."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from t4lint.sources.document import Document, ShellFragment
from t4lint.sources.fragments import MAX_FRAGMENTS, STARTS, Text, Written, add, add_command, add_folder, text_of
from t4lint.sources.json_text import JsonError, parse_json
from t4lint.sources.positions import PositionMap, TextBuilder, split_lines

MAX_LINES = 200  # of what is in force

_INSTRUCTION = re.compile(r"\s*([A-Za-z]+)(?:[ \t]+|$)")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_]\w*)\1")
_FLAGS = re.compile(r"(?:--[a-z]+=\S+\s+)+")


@dataclass(slots=True)
class _Stage:
    """What a build stage has set: lines of shell, the working folder and what it will start."""

    lines: list[TextBuilder] = field(default_factory=list)
    folder: Text | None = None
    entrypoint: Text | None = None
    command: Text | None = None

    def derived(self) -> _Stage:
        return _Stage(list(self.lines), self.folder, self.entrypoint, self.command)


def fragments(document: Document) -> list[ShellFragment]:
    """One fragment for each RUN, and one for what each stage starts."""
    reader = _Reader(document)
    for keyword, text in _instructions(document.text):
        reader.instruction(keyword, text)
    reader.end_stage()
    return reader.found


class _Reader:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.found: list[ShellFragment] = []
        self.stage = _Stage()
        self.stages: dict[str, _Stage] = {}

    def instruction(self, keyword: str, text: Text) -> None:
        match keyword:
            case "FROM":
                self.end_stage()
                words = text_of(text).split()
                base = next((word for word in words if not word.startswith("--")), "").lower()
                self.stage = self.stages[base].derived() if base in self.stages else _Stage()
                if len(words) > 2 and words[-2].upper() == "AS":
                    self.stages[words[-1].lower()] = self.stage
            case "ENV" | "ARG":
                self.variables(keyword, text)
            case "WORKDIR":
                self.stage.folder = text
            case "ENTRYPOINT":
                self.stage.entrypoint, self.stage.command = text, None
            case "CMD":
                self.stage.command = text
            case "RUN":
                self.start(text)

    def variables(self, keyword: str, text: Text) -> None:
        """`ENV A=b C="d e"`, which is shell as it stands; `ENV A the rest`."""
        builder = TextBuilder()
        old = re.match(r"\s*([A-Za-z_]\w*)[ \t]+(?=\S)", text_of(text))
        if keyword == "ENV" and old and isinstance(text[0], Written) and len(text) == 1:
            builder.fill(f"export {old[1]}=")
            value = text[0].part(old.end())
            add(builder, ["'", value, "'"] if "'" not in value.text else [value.stand_in("$_")])
        elif "=" in text_of(text):
            builder.fill("export " if keyword == "ENV" else "declare ")
            add(builder, text)
        else:
            return  # `ARG NAME`: given when the image is built
        builder.fill("\n")
        if len(self.stage.lines) < MAX_LINES:
            self.stage.lines.append(builder)

    def end_stage(self) -> None:
        """What the stage starts: ENTRYPOINT with CMD as its arguments where both are lists of words."""
        entrypoint, command = self.stage.entrypoint, self.stage.command
        words = self.words(entrypoint) if entrypoint is not None else None
        more = self.words(command) if command is not None else None
        if words is not None:
            self.words_start([*words, *(more or [])])
        elif entrypoint is not None:
            self.start(entrypoint)
        elif more is not None:
            self.words_start(more)
        elif command is not None:
            self.start(command)

    def start(self, text: Text) -> None:
        """A command in a shell, or as a list of words."""
        words = self.words(text)
        if words is not None:
            self.words_start(words)
            return
        if not STARTS.search(text_of(text)):
            return
        first = text[0]
        flags = _FLAGS.match(first.text) if isinstance(first, Written) else None
        if flags and isinstance(first, Written):
            text = [first.part(flags.end()), *text[1:]]
        if isinstance(text[0], Written) and (heredoc := _HEREDOC.match(text[0].text.lstrip())):
            end = heredoc[2]
            text = [part for part in text[1:] if isinstance(part, str) or part.text.strip() != end]
        builder = self.preamble()
        add(builder, [*text, "\n"])
        self.add(builder)

    def words_start(self, words: list[Text]) -> None:
        builder = self.preamble()
        add_command(builder, words)
        self.add(builder)

    def preamble(self) -> TextBuilder:
        builder = TextBuilder()
        for line in self.stage.lines:
            builder.splice(line)
        if self.stage.folder is not None:
            add_folder(builder, self.stage.folder)
        return builder

    def add(self, builder: TextBuilder) -> None:
        if len(self.found) < MAX_FRAGMENTS:
            positions = builder.build(self.document.path)
            self.found.append(ShellFragment(self.document.path, self.document.file, positions, True))

    def words(self, text: Text) -> list[Text] | None:
        """The words of `["python", "train.py"]`; None where it is not such a list."""
        if not text_of(text).lstrip().startswith("["):
            return None
        builder = TextBuilder()
        add(builder, text)
        joined = builder.build(self.document.path)
        said = joined.text.replace("\\\n", "  ")
        try:
            root = parse_json(said)
        except JsonError:
            return None
        if not all(isinstance(item.value, str) for item in root.items):
            return None
        return [[_word(joined, str(item.value), item.start, item.end)] for item in root.items]


def _word(joined: PositionMap, value: str, start: int, end: int) -> Written:
    place = joined.location(start + 1, max(end - 1, start + 1))
    exact = joined.text[start + 1 : end - 1] == value
    if exact and place.line == place.end_line:
        return Written.at(value, place.line, place.column)
    return Written(value, place.line, place.column, place.end_line, place.end_column, False)


def _instructions(text: str) -> Iterator[tuple[str, Text]]:
    """Keyword and text of each instruction. Continued lines stay lines, comments between them are left out."""
    lines = split_lines(text)
    directive = re.match(r"#\s*escape\s*=\s*(\S)", lines[0], re.IGNORECASE) if lines else None
    escape = directive[1] if directive else "\\"
    number = 0
    while number < len(lines):
        found = _INSTRUCTION.match(lines[number])
        if found is None:
            number += 1
            continue
        parts: Text = [Written.at(lines[number][found.end() :], number + 1, found.end() + 1)]
        last = number
        while lines[last].rstrip().endswith(escape) and last + 1 < len(lines):
            number += 1
            while number < len(lines) and (lines[number].lstrip().startswith("#") or not lines[number].strip()):
                number += 1
            if number >= len(lines):
                break
            last = number
            _continue(parts, escape)
            parts += ["\n", Written.at(lines[number], number + 1, 1)]
        keyword = found[1].upper()
        number += 1
        if keyword == "RUN":
            number = _heredoc(lines, number, parts)
        yield keyword, parts


def _continue(parts: Text, escape: str) -> None:
    """The line that goes on ends in a backslash and nothing else, as a shell has it."""
    part = parts[-1]
    if isinstance(part, Written):
        kept = part.text.rstrip()[:-1]
        parts[-1:] = [part.part(0, len(kept)), "\\"] if escape == "`" else [part.part(0, len(kept) + 1)]


def _heredoc(lines: list[str], number: int, parts: Text) -> int:
    """`RUN <<EOF`: the lines up to EOF belong to it."""
    found = _HEREDOC.search(text_of(parts))
    if found is None:
        return number
    end = next((at for at in range(number, len(lines)) if lines[at].strip() == found[2]), None)
    if end is None:
        return number
    for at in range(number, end + 1):
        parts += ["\n", Written.at(lines[at], at + 1, 1)]
    return end + 1
