"""Runs that VS Code starts: the configurations of `.vscode/launch.json`."""

from __future__ import annotations

import re

from t4lint.sources.document import Document, ShellFragment
from t4lint.sources.fragments import MAX_FRAGMENTS, Text, Written, add, add_command, add_export, add_folder
from t4lint.sources.json_text import JsonError, JsonNode, parse_json
from t4lint.sources.positions import Lines, TextBuilder

_TYPES = ("debugpy", "python")
_STRING_OR_NOTE = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")
_FOLDER = re.compile(r"\$\{(?:workspaceFolder|workspaceRoot)(?::[^}]*)?\}[/\\]?")


def fragments(document: Document) -> list[ShellFragment]:
    """One fragment for each configuration that starts a Python program."""
    try:
        root = parse_json(_plain(document.text))
    except JsonError:
        return []
    listed = root.get("configurations")
    lines = Lines(document.text)
    return [
        _fragment(document, node, lines)
        for node in (listed.items[:MAX_FRAGMENTS] if listed is not None else ())
        if node.text("type") in _TYPES and (node.text("program") or node.text("module"))
    ]


def _plain(text: str) -> str:
    """JSON of a text with comments and trailing commas: each of their characters becomes a blank."""
    text = _STRING_OR_NOTE.sub(lambda it: it[0] if it[0].startswith('"') else re.sub(r"[^\n]", " ", it[0]), text)
    return _TRAILING_COMMA.sub(" ", text)


def _fragment(document: Document, node: JsonNode, lines: Lines) -> ShellFragment:
    builder = TextBuilder()
    environment, folder = node.get("env"), node.get("cwd")
    for name, value in environment.entries if environment is not None else ():
        if isinstance(value.value, str):
            add_export(builder, str(name.value), [_word(value, lines)])
    if folder is not None and isinstance(folder.value, str):
        add_folder(builder, [_word(folder, lines)])
    program, module, given = node.get("program"), node.get("module"), node.get("args")
    words: list[Text] = [["python"]]
    if program is not None:
        words.append([_word(program, lines)])
    elif module is not None:
        words += [["-m"], [_word(module, lines)]]
    words += [[_word(item, lines)] for item in (given.items if given is not None else ())]
    add_command(builder, words, expanded=True)
    if given is not None and isinstance(given.value, str):  # one string of words
        builder = _joined(builder, given, lines)
    return ShellFragment(document.path, document.file, builder.build(document.path))


def _joined(builder: TextBuilder, given: JsonNode, lines: Lines) -> TextBuilder:
    """The command with a string of further words at its end."""
    longer = TextBuilder()
    longer.splice(builder)
    longer.parts, longer.length = [longer.text.removesuffix("\n")], longer.length - 1
    longer.fill(" ")
    add(longer, [_word(given, lines)])
    longer.fill("\n")
    return longer


def _word(node: JsonNode, lines: Lines) -> Written:
    """A string at its place; the folder of the workspace is the project's own."""
    text = str(node.value)
    line, column = lines.place(node.start)
    end_line, end_column = lines.place(node.end)
    said = _FOLDER.sub("", text) or "."
    if said == text and node.end - node.start == len(text) + 2:
        return Written.at(text, line, column + 1)
    return Written(said, line, column, end_line, end_column, False)
