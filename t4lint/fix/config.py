"""Edits of configurations in YAML and JSON: found by a parser with places, made in the text."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from t4lint.fix.shell import called
from t4lint.fix.text import Lines, NoPlace, Splice
from t4lint.sources.json_text import JsonError, JsonNode, parse_json
from t4lint.trace import Location

# Text that YAML reads as itself, and as text, without quotes.
_PLAIN = re.compile(r"[A-Za-z_][\w./-]*")


@dataclass(slots=True)
class Entry:
    """A key with its value, as spans of the text; `siblings` are all entries of its mapping, itself among them."""

    key: tuple[int, int]
    value: tuple[int, int]
    name: str
    siblings: list[Entry]
    flow: bool  # between braces, with commas
    scalar: bool  # one plain or quoted value


class ConfigFile:
    """A configuration file, and edits of its values."""

    def __init__(self, text: str, kind: str) -> None:
        self.text = text
        self.lines = Lines(text)
        self.json = kind == "json"
        self.entries = {entry.value[0]: entry for entry in (_json_entries(text) if self.json else _yaml_entries(text))}

    def _entry(self, location: Location) -> Entry:
        entry = self.entries.get(self.lines.offset(location.line, location.column))
        if entry is None or not entry.scalar:
            raise NoPlace("no key has its value here")
        return entry

    def set_value(self, location: Location, python: str) -> list[Splice]:
        """Another value, which is a Python literal."""
        entry = self._entry(location)
        return [Splice(*entry.value, self._written(python, self.text[slice(*entry.value)]))]

    def _written(self, python: str, old: str) -> str:
        try:
            value = ast.literal_eval(python)
        except (ValueError, SyntaxError):
            raise NoPlace("this value cannot stand in a configuration") from None
        if not isinstance(value, (str, int, float, bool, type(None))):
            raise NoPlace("this value cannot stand in a configuration")
        if self.json:
            return json.dumps(value, ensure_ascii=False)
        if isinstance(value, str):
            return _yaml_text(value, old)
        plain = json.dumps(value)
        return plain.capitalize() if isinstance(value, bool) and old[:1].isupper() else plain

    def drop(self, location: Location, name: str, otherwise: str) -> list[Splice]:
        """A key with its value; where the key is called otherwise, it gets another value, if there is one."""
        entry = self._entry(location)
        if not called(entry.name, name):
            if otherwise:
                return self.set_value(location, otherwise)
            raise NoPlace(f"the key is not called {name}")
        return [self._dropped_item(entry) if entry.flow else self._dropped_lines(entry)]

    def _dropped_item(self, entry: Entry) -> Splice:
        items = entry.siblings
        index = next(number for number, other in enumerate(items) if other is entry)
        start, end = entry.key[0], entry.value[1]
        if index + 1 < len(items):
            end = items[index + 1].key[0]
        elif index > 0:
            start = items[index - 1].value[1]
        if not self.json and "#" in self.text[start:end]:
            raise NoPlace("a comment stands in between")
        return Splice(start, end, "")

    def _dropped_lines(self, entry: Entry) -> Splice:
        first, last = self.lines.line_of(entry.key[0]), self.lines.line_of(entry.value[1])
        before = self.text[self.lines.start_of(first) : entry.key[0]]
        after = self.text[entry.value[1] : self.lines.stop_of(last)].strip()
        if len(entry.siblings) == 1 or before.strip() or (after and not after.startswith("#")):
            raise NoPlace("the key does not have its lines for itself")
        return Splice(self.lines.start_of(first), self.lines.end_of(last), "")

    def rename(self, location: Location, name: str, to: str) -> list[Splice]:
        """Another key for a value; a key that is there already is no place."""
        entry = self._entry(location)
        written = self.text[slice(*entry.key)]
        if entry.name != name or any(other.name == to for other in entry.siblings):
            raise NoPlace(f"{name} cannot become {to} here")
        return [Splice(*entry.key, written.replace(name, to))]


def _yaml_text(value: str, old: str) -> str:
    quote = old[:1] if old[:1] in "'\"" else ""
    if re.fullmatch(r"[\w ./-]*", value) and quote:
        return f"{quote}{value}{quote}"
    if _PLAIN.fullmatch(value) and yaml.safe_load(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


def _json_entries(text: str) -> Iterator[Entry]:
    try:
        stack: list[JsonNode] = [parse_json(text)]
    except JsonError as error:
        raise NoPlace("the file cannot be parsed") from error
    while stack:
        node = stack.pop()
        stack += [*node.items, *(value for _, value in node.entries)]
        siblings: list[Entry] = []
        for key, value in node.entries:
            spans = (key.start, key.end), (value.start, value.end)
            siblings.append(Entry(*spans, str(key.value), siblings, True, value.kind == "scalar"))
        yield from siblings


def _yaml_entries(text: str) -> Iterator[Entry]:
    try:
        stack: list[yaml.Node] = [node for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if node is not None]
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise NoPlace("the file cannot be parsed") from error
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in seen:  # under an alias
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            stack += node.value
        elif isinstance(node, yaml.MappingNode):
            stack += [value for _, value in node.value]
            yield from _siblings(node.value, flow=bool(node.flow_style))


def _siblings(pairs: Sequence[tuple[Any, Any]], *, flow: bool) -> list[Entry]:
    found: list[Entry] = []
    for key, value in pairs:
        scalar = isinstance(value, yaml.ScalarNode) and value.style not in ("|", ">")
        spans = _span(key), _span(value)
        found.append(Entry(*spans, str(key.value), found, flow, scalar))
    return found


def _span(node: Any) -> tuple[int, int]:
    return node.start_mark.index, node.end_mark.index
