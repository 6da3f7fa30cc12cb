"""Commands in files of task runners (justfile, tox, task tables of pyproject.toml and pixi.toml), and in reStructuredText."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from t4lint.sources.document import Document, ShellFragment
from t4lint.sources.fragments import MAX_FRAGMENTS, STARTS, Text, Written, add, text_of
from t4lint.sources.positions import TextBuilder, split_lines

# --- just ------------------------------------------------------------------------------------------------------------

_JUST_VARIABLE = re.compile(r"""^(?:export\s+)?([A-Za-z_][\w-]*)\s*:=\s*(["'])(.*)\2\s*$""")
_INTERPOLATION = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")


def justfile(document: Document) -> list[ShellFragment]:
    """Each line of a recipe, with the variables of the file written out at the place of their values."""
    variables: dict[str, Written] = {}
    lines = list(enumerate(split_lines(document.text), start=1))
    for number, line in lines:
        if found := _JUST_VARIABLE.match(line):
            variables[found[1]] = Written.at(found[3], number, found.start(3) + 1)
    commands: list[Text] = []
    for number, line in lines:
        if line[:1] in (" ", "\t") and line.strip():
            start = len(line) - len(line.lstrip().lstrip("@-"))
            commands.append(_filled(Written.at(line[start:], number, start + 1), _INTERPOLATION, variables.get))
    return _fragments(document, [[command] for command in commands])


def _filled(line: Written, pattern: re.Pattern[str], value: Callable[[str], Written | None]) -> Text:
    """A line with what a pattern finds in it replaced: by a text and its place, or by a variable that is not known."""
    parts: Text = []
    end = 0
    for found in pattern.finditer(line.text):
        whole = line.part(found.start(), found.end())
        name = re.sub(r"\W", "_", found[1])
        parts += [line.part(end, found.start()), value(found[1]) or whole.stand_in(f"${{{name}}}")]
        end = found.end()
    return [*parts, line.part(end)]


# --- tox -------------------------------------------------------------------------------------------------------------

_SECTION = re.compile(r"^\[(.+)\]\s*$")
_KEY = re.compile(r"^(\w+)\s*=\s*")
_SUBSTITUTION = re.compile(r"\{([^{}=]*)\}")


def tox(document: Document) -> list[ShellFragment]:
    """The commands of each environment, with the variables that it sets."""
    groups: list[list[Text]] = []
    for section in _sections(document.text):
        exports = [_export(line) for line in section.get("setenv", []) + section.get("set_env", [])]
        commands = [_filled(line, _SUBSTITUTION, lambda name: None) for line in section.get("commands", [])]
        groups.append([*(line for line in exports if line), *commands])
    return _fragments(document, groups)


def _sections(text: str) -> Iterator[dict[str, list[Written]]]:
    keys: dict[str, list[Written]] = {}
    key = ""
    for number, line in enumerate(split_lines(text), start=1):
        if _SECTION.match(line):
            yield keys
            keys, key = {}, ""
            continue
        if (found := _KEY.match(line)) and not line[:1].isspace():
            key = found[1].lower()
            rest, start = line[found.end() :], found.end()
        else:
            start = len(line) - len(line.lstrip())
            rest = line[start:]
        if key and rest.strip() and not rest.startswith("#"):
            keys.setdefault(key, []).append(Written.at(rest.rstrip(), number, start + 1))
    yield keys


def _export(line: Written) -> Text:
    name, sign, value = line.text.partition("=")
    if not sign or not re.fullmatch(r"\w+", name.strip()) or "'" in value:
        return []
    start = len(name) + 1 + len(value) - len(value.lstrip())
    return [f"export {name.strip()}='", line.part(start), "'"]


# --- tables of tasks ---------------------------------------------------------------------------------------------------

_TASKS = re.compile(r"^\[(?:tool\.)?(?:[\w.-]+\.)?(?:scripts|tasks)(?:\.[\w.-]+)?\]\s*$")
_TABLE = re.compile(r"^\[")
_STRING = re.compile(r'"([^"\\\n]*)"|\'([^\'\n]*)\'')


def toml_tasks(document: Document) -> list[ShellFragment]:
    """The strings of task tables (pdm, poe, pixi, hatch, rye) that could start a script."""
    commands: list[Text] = []
    inside = False
    for number, line in enumerate(split_lines(document.text), start=1):
        if _TABLE.match(line):
            inside = bool(_TASKS.match(line)) and not line.startswith("[project")
        elif inside:
            for found in _STRING.finditer(line):
                group = 1 if found[1] is not None else 2
                commands.append([Written.at(found[group], number, found.start(group) + 1)])
    return _fragments(document, [[command] for command in commands])


# --- reStructuredText --------------------------------------------------------------------------------------------------

_DIRECTIVE = re.compile(r"^(\s*)\.\. (?:code-block|code|sourcecode|prompt)::\s*(bash|sh|shell|console|zsh)\b")


def rst(document: Document) -> list[ShellFragment]:
    """The code blocks of a page that hold shell commands."""
    blocks: list[list[Text]] = []
    indent: int | None = None
    for number, line in enumerate(split_lines(document.text), start=1):
        depth = len(line) - len(line.lstrip())
        if found := _DIRECTIVE.match(line):
            indent = len(found[1])
            blocks.append([])
        elif indent is not None and line.strip():
            if depth <= indent:
                indent = None
            elif not line.strip().startswith(":"):
                start = depth + (2 if line[depth:].startswith(("$ ", "> ")) else 0)
                blocks[-1].append([Written.at(line[start:], number, start + 1)])
    return _fragments(document, blocks)


def _fragments(document: Document, groups: list[list[Text]]) -> list[ShellFragment]:
    """One fragment for each group of lines that could start a script."""
    found: list[ShellFragment] = []
    for lines in groups:
        if len(found) >= MAX_FRAGMENTS or not any(STARTS.search(text_of(line)) for line in lines):
            continue
        builder = TextBuilder()
        for line in lines:
            add(builder, [*line, "\n"])
        found.append(ShellFragment(document.path, document.file, builder.build(document.path)))
    return found
