"""JSON with the place of every key and value; bounded in depth and size, and without recursion."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Literal

MAX_DEPTH = 200
MAX_NODES = 1_000_000

JsonKind = Literal["object", "array", "scalar", "skipped"]

_BLANK = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")
_CONSTANTS = {
    "true": True, "false": False, "null": None,
    "NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf"),
}  # fmt: skip
_CONSTANT = re.compile("|".join(map(re.escape, _CONSTANTS)))
# Over numbers and strings without escapes; at most so many at a time, since each costs the matcher memory.
_TO_BRACKET = re.compile(r'(?:[^"\[\]{}]+|"[^"\\]*"){0,1000}')


class JsonError(ValueError):
    """Text that is not JSON, or too much of it; `offset` says where."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


@dataclass(slots=True)
class JsonNode:
    """A value and its range in the text. Of equal keys the last one counts, as in Python's own reader."""

    kind: JsonKind
    start: int
    end: int = 0
    value: object = None
    items: list[JsonNode] = field(default_factory=list)
    entries: list[tuple[JsonNode, JsonNode]] = field(default_factory=list)

    def get(self, *keys: str) -> JsonNode | None:
        """The value under a path of keys."""
        node: JsonNode | None = self
        for key in keys:
            node = None if node is None else next((v for k, v in reversed(node.entries) if k.value == key), None)
        return node

    def text(self, *keys: str) -> str | None:
        """The string under a path of keys; None for anything else."""
        node = self.get(*keys)
        return node.value if node is not None and isinstance(node.value, str) else None


def parse_json(text: str, skip: frozenset[str] = frozenset(), limit: int = MAX_NODES) -> JsonNode:
    """The tree of a JSON text. The values of the keys in `skip` are passed over, which is cheap however large they are.

    `limit` is how many values it may have.
    """
    return _Reader(text, skip, limit).read()


class _Reader:
    """One pass with a stack of its own: the depth of the text is not the depth of calls."""

    __slots__ = ("limit", "nodes", "position", "skip", "text")

    def __init__(self, text: str, skip: frozenset[str], limit: int) -> None:
        self.limit = limit
        self.text = text
        self.skip = skip
        self.position = 0
        self.nodes = 0

    def read(self) -> JsonNode:
        root = self.value()
        open_nodes = [root] if root.kind != "scalar" else []
        while open_nodes:
            node = open_nodes[-1]
            if self.closes(node):
                open_nodes.pop()
                continue
            child = self.entry(node) if node.kind == "object" else self.item(node)
            if child.kind in ("object", "array"):
                open_nodes.append(child)
                if len(open_nodes) > MAX_DEPTH:
                    raise JsonError(f"is nested more than {MAX_DEPTH} deep", child.start)
        self.blank()
        if self.position < len(self.text):
            raise JsonError("has text after its end", self.position)
        return root

    def closes(self, node: JsonNode) -> bool:
        """Is the next thing the end of this object or array? Otherwise steps over the comma."""
        self.blank()
        closing = "}" if node.kind == "object" else "]"
        character = self.text[self.position : self.position + 1]
        filled = node.items or node.entries
        if character == closing:
            self.position += 1
            node.end = self.position
            return True
        if filled:
            if character != ",":
                raise JsonError(f"needs a comma or {closing}", self.position)
            self.position += 1
            self.blank()
        return False

    def entry(self, node: JsonNode) -> JsonNode:
        if self.text[self.position : self.position + 1] != '"':
            raise JsonError("needs a key in double quotes", self.position)
        key = self.value()
        self.blank()
        if self.text[self.position : self.position + 1] != ":":
            raise JsonError("needs a colon", self.position)
        self.position += 1
        self.blank()
        value = self.passed_over() if key.value in self.skip else self.value()
        node.entries.append((key, value))
        return value

    def item(self, node: JsonNode) -> JsonNode:
        child = self.value()
        node.items.append(child)
        return child

    def value(self) -> JsonNode:
        """The value that starts here; of an object or array only its bracket."""
        self.nodes += 1
        if self.nodes > self.limit:
            raise JsonError(f"has more than {self.limit} values", self.position)
        self.blank()
        start = self.position
        character = self.text[start : start + 1]
        if character and character in "{[":
            self.position += 1
            return JsonNode("object" if character == "{" else "array", start)
        if character == '"':
            value: object = self.string()
        elif found := _NUMBER.match(self.text, start):
            self.position = found.end()
            value = _number(found)
        elif found := _CONSTANT.match(self.text, start):
            self.position = found.end()
            value = _CONSTANTS[found[0]]
        else:
            raise JsonError("ends too early" if not character else "needs a value", start)
        return JsonNode("scalar", start, self.position, value)

    def string(self) -> str:
        try:
            value, self.position = scanstring(self.text, self.position + 1, False)
        except json.JSONDecodeError as error:
            raise JsonError(error.msg[:1].lower() + error.msg[1:], error.pos) from None
        return str(value)

    def passed_over(self) -> JsonNode:
        """A value of which only the end is looked for."""
        start, depth = self.position, 0
        if self.text[start : start + 1] not in ("[", "{"):
            return self.value()
        while True:
            found = _TO_BRACKET.match(self.text, self.position)
            self.position = found.end() if found else self.position
            character = self.text[self.position : self.position + 1]
            if not character:
                raise JsonError("ends too early", self.position)
            if character == '"':
                self.string()
            elif character in "[{}]":
                depth += 1 if character in "[{" else -1
                self.position += 1
            if depth == 0:
                return JsonNode("skipped", start, self.position)

    def blank(self) -> None:
        found = _BLANK.match(self.text, self.position)
        self.position = found.end() if found else self.position


def _number(found: re.Match[str]) -> object:
    try:
        return float(found[0]) if found[1] or found[2] else int(found[0])
    except ValueError:  # Python refuses integers of thousands of digits
        return found[0]


def duplicates(node: JsonNode) -> Iterator[JsonNode]:
    """Keys that stand twice in the same object: the earlier ones, which do not count."""
    pending = [node]
    while pending:
        current = pending.pop()
        seen: dict[object, JsonNode] = {}
        for key, value in current.entries:
            if key.value in seen:
                yield seen[key.value]
            seen[key.value] = key
            pending.append(value)
        pending.extend(current.items)
