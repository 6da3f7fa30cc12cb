"""Commands in a Makefile: recipe lines, with the variables of the file written out at the place of their values."""

from __future__ import annotations

import re
from dataclasses import dataclass

from t4lint.sources.document import Document, ShellFragment
from t4lint.sources.fragments import MAX_FRAGMENTS, STARTS, Text, Written, add, text_of
from t4lint.sources.positions import TextBuilder, split_lines

MAX_NESTING = 10  # of variables inside one another
MAX_PARTS = 2_000  # of one command

_ASSIGNMENT = re.compile(r"^(?: *(export|override)[ \t]+)? *([A-Za-z_][\w.-]*)[ \t]*(\?=|\+=|:{0,3}=)[ \t]*(.*)$")
_VARIABLE = re.compile(r"\$(?:\$|\(([^()$]*)\)|\{([^{}$]*)\}|\((?:[^()]|\([^()]*\))*\)|(\S))")


@dataclass(frozen=True, slots=True)
class _Variable:
    value: Text
    exported: bool


def fragments(document: Document) -> list[ShellFragment]:
    """One fragment for each recipe line: each runs in a shell of its own."""
    lines = _logical(document.text)
    variables: dict[str, _Variable] = {}
    exported: set[str] = set()
    for line in lines:
        if not _is_recipe(line):
            _define(line, variables, exported)
    found: list[ShellFragment] = []
    for line in lines:
        if not _is_recipe(line) or len(found) >= MAX_FRAGMENTS:
            continue
        command = _Expansion(variables).of(_recipe(line))
        if not STARTS.search(text_of(command)):
            continue
        builder = TextBuilder()
        for name, variable in variables.items():
            if (variable.exported or name in exported) and re.fullmatch(r"[A-Za-z_]\w*", name):
                value = _Expansion(variables).of(variable.value)
                if "'" not in text_of(value):
                    add(builder, [f"export {name}='", *value, "'\n"])
        add(builder, [*command, "\n"])
        found.append(ShellFragment(document.path, document.file, builder.build(document.path)))
    return found


def _logical(text: str) -> list[Text]:
    """Lines with those that continue them; the backslash and the line end stay, as the shell sees them in a recipe."""
    found: list[Text] = []
    continued = False
    for number, line in enumerate(split_lines(text), start=1):
        part = Written.at(line, number, 1)
        if continued:
            found[-1] += ["\n", part]
        else:
            found.append([part])
        continued = line.endswith("\\")
    return found


def _is_recipe(line: Text) -> bool:
    return text_of(line[:1]).startswith("\t")


def _recipe(line: Text) -> Text:
    """A recipe line without the tab, and without `@`, `-` and `+` before the command."""
    first = line[0]
    assert isinstance(first, Written)
    start = re.match(r"\t[\s@+-]*", first.text)
    rest: Text = [
        part.part(1) if isinstance(part, Written) and part.text.startswith("\t") else part for part in line[1:]
    ]
    return [first.part(start.end() if start else 1), *rest]


def _define(line: Text, variables: dict[str, _Variable], exported: set[str]) -> None:
    first = line[0]
    assert isinstance(first, Written)
    found = _ASSIGNMENT.match(first.text)
    if found is None:
        names = re.match(r"export[ \t]+([\w \t]+)$", first.text)
        exported.update(names[1].split() if names else ())
        return
    name, operator = found[2], found[3]
    value = _value([first.part(found.start(4)), *line[1:]])
    before = variables.get(name)
    if operator == "?=" and before is not None:
        return
    if operator == "+=" and before is not None:
        value = [*before.value, " ", *value][:MAX_PARTS]
    variables[name] = _Variable(value, found[1] == "export" or (before is not None and before.exported))


def _value(parts: Text) -> Text:
    """A value without comment and blanks around it; its lines are joined by a blank."""
    found: Text = []
    for part in parts:
        if not isinstance(part, Written):
            continue
        comment = re.search(r"(?<!\\)#", part.text)
        text = part.text[: comment.start()] if comment else part.text
        text = text.removesuffix("\\") if not comment else text
        start = len(text) - len(text.lstrip())
        found += [*([" "] if found else []), part.part(start, max(len(text.rstrip()), start))]
    return found


class _Expansion:
    """Writes variables out; those that the file does not set, and functions, stay for the shell to not know."""

    def __init__(self, variables: dict[str, _Variable]) -> None:
        self.variables = variables
        self.parts = 0

    def of(self, text: Text, depth: int = 0) -> Text:
        found: Text = []
        for part in text:
            if isinstance(part, str) or "$" not in part.text:
                found.append(part)
                continue
            last = 0
            for use in _VARIABLE.finditer(part.text):
                self.parts += 1
                found.append(part.part(last, use.start()))
                last = use.end()
                found += self.used(part.part(use.start(), use.end()), use, depth)
            found.append(part.part(last))
        return found

    def used(self, part: Written, use: re.Match[str], depth: int) -> Text:
        if use[0] == "$$":
            return [part.part(1)]
        name = use[1] or use[2] or use[3] or ""
        variable = self.variables.get(name)
        if variable is not None and depth < MAX_NESTING and self.parts < MAX_PARTS:
            return self.of(variable.value, depth + 1)
        return [part.stand_in(f"${{{name}}}" if re.fullmatch(r"[A-Za-z_]\w*", name) else "${_}")]
