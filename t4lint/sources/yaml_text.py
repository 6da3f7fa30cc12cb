"""YAML as nodes with places, from the parser's events: no recursion, no construction, and bounds on what aliases expand to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml

from t4lint.sources.configs import ConfigNode, Style
from t4lint.trace import Location

MAX_DEPTH = 100
MAX_NODES = 50_000
LONGEST_NUMBER = 400  # characters: longer ones are no numbers that a person wrote, and cost quadratic time
MAX_EXPANDED = 1_000_000  # values after all aliases are followed

# The scanner in C is ten times faster, and is not there on every platform.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STYLES: dict[str | None, Style] = {"|": "literal", ">": "folded", "'": "quoted", '"': "quoted"}
_STRING = "tag:yaml.org,2002:str"
_KNOWN_TAGS = tuple(f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "timestamp", "str"))

At = Callable[[int, int], Location]


class YamlError(ValueError):
    """Text that is not YAML, or too much of it; `offset` says where."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


def parse_yaml(text: str, at: At) -> tuple[list[ConfigNode], list[Location]]:
    """The documents of a text, and the places of keys that do not count since they stand twice."""
    composer = _Composer(at)
    # The parser in C counts columns and indices of its own; a text without a byte order mark makes both agree.
    shift = len(text) - len(text.removeprefix("\ufeff"))
    position = 0
    try:
        events: Any = yaml.parse(text[shift:], Loader=_LOADER)
        for event in events:
            position = event.start_mark.index + shift
            composer.event(event, position, event.end_mark.index + shift)
    except yaml.MarkedYAMLError as error:
        mark: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        offset = mark.index + shift if mark is not None else position
        raise YamlError(error.problem or error.context or "syntax error", offset) from None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        raise YamlError(" ".join(str(error).split()), getattr(error, "position", position) or position) from None
    except (RecursionError, MemoryError, ValueError, OverflowError) as error:
        if isinstance(error, YamlError):
            raise
        raise YamlError(type(error).__name__, position) from None
    return composer.documents, composer.repeated


@dataclass(slots=True)
class _Open:
    """A mapping or sequence whose end has not come."""

    node: ConfigNode
    start: int
    key: tuple[str, Location] | None = None
    has_key: bool = False
    merged: list[ConfigNode] = field(default_factory=list)
    own: set[str] = field(default_factory=set)
    size: int = 1


class _Composer:
    def __init__(self, at: At) -> None:
        self.at = at
        self.documents: list[ConfigNode] = []
        self.repeated: list[Location] = []
        self.open: list[_Open] = []
        self.anchors: dict[str, ConfigNode] = {}
        self.sizes: dict[int, int] = {}
        self.nodes = 0
        self.last_end = 0
        self.resolver: Any = yaml.SafeLoader("")

    def event(self, event: Any, start: int, end: int) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise YamlError(f"has more than {MAX_NODES} values", start)
        if isinstance(event, yaml.ScalarEvent):
            self.scalar(event, start, end)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self.begin(event, start)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self.finish(start, end)
        elif isinstance(event, yaml.AliasEvent):
            self.alias(str(event.anchor), start, end)
        elif isinstance(event, yaml.DocumentStartEvent):
            self.anchors = {}

    def begin(self, event: Any, start: int) -> None:
        if len(self.open) >= MAX_DEPTH:
            raise YamlError(f"is nested more than {MAX_DEPTH} deep", start)
        mapping = isinstance(event, yaml.MappingStartEvent)
        node = ConfigNode("mapping" if mapping else "sequence", self.at(start, start))
        if event.anchor:
            self.anchors[event.anchor] = node
        self.open.append(_Open(node, start))

    def finish(self, start: int, end: int) -> None:
        frame = self.open.pop()
        # A block collection ends where the next thing starts: its own end is that of its last value.
        frame.node.location = self.at(frame.start, max(end if end > start else self.last_end, frame.start))
        for other in frame.merged:
            for name, child in other.entries.items():
                frame.node.entries.setdefault(name, child)
        self.sizes[id(frame.node)] = frame.size
        self.last_end = max(self.last_end, end if end > start else 0)
        self.place(frame.node, frame.size, frame.start, end)

    def scalar(self, event: Any, start: int, end: int) -> None:
        node = ConfigNode("scalar", self.at(start, end), self.value(event), style=_STYLES.get(event.style, "plain"))
        if event.anchor:
            self.anchors[event.anchor] = node
        self.last_end = end
        self.place(node, 1, start, end)

    def value(self, event: Any) -> object:
        """As safe_load would have it; a tag of the program's own leaves the text."""
        text = event.value
        tag = event.tag
        if tag is None or tag == "!":
            tag = self.resolver.resolve(yaml.ScalarNode, text, event.implicit)
        if tag == _STRING or tag not in _KNOWN_TAGS or len(text) > LONGEST_NUMBER:
            return text
        try:
            return self.resolver.construct_object(yaml.ScalarNode(tag, text))
        except (yaml.YAMLError, ValueError, OverflowError, LookupError, AttributeError, TypeError):
            return text

    def alias(self, anchor: str, start: int, end: int) -> None:
        node = self.anchors.get(anchor)
        if node is None:
            raise YamlError(f"uses an alias that is not defined: {anchor}", start)
        self.last_end = end
        if any(frame.node is node for frame in self.open):
            self.place(ConfigNode("cycle", self.at(start, end)), 1, start, end)
        else:
            self.place(node, self.sizes.get(id(node), 1), start, end)

    def place(self, node: ConfigNode, size: int, start: int, end: int) -> None:
        """Put a finished node where it belongs."""
        if not self.open:
            self.documents.append(node)
            return
        frame = self.open[-1]
        frame.size += size
        if frame.size > MAX_EXPANDED:
            raise YamlError("has aliases that expand to too much", start)
        if frame.node.kind == "sequence":
            frame.node.items.append(node)
        elif not frame.has_key:
            frame.key, frame.has_key = (_name(node), self.at(start, end)), True
        else:
            assert frame.key is not None
            self.entry(frame, *frame.key, node)
            frame.key, frame.has_key = None, False

    def entry(self, frame: _Open, name: str, key: Location, node: ConfigNode) -> None:
        if name == "<<":
            frame.merged.extend([node] if node.kind == "mapping" else node.items)
            return
        if name in frame.own:
            self.repeated.append(frame.node.entries[name].key or key)
        frame.own.add(name)
        if node.key is not None:  # an alias: the same value under a key of its own
            size = self.sizes.get(id(node), 1)
            node = ConfigNode(node.kind, node.location, node.value, None, node.style, node.entries, node.items)
            self.sizes[id(node)] = size
        node.key = key
        frame.node.entries[name] = node


def _name(node: ConfigNode) -> str:
    """A key as text; what JSON writes as `true` keeps its YAML look: `on:` is the key of a workflow."""
    if node.kind != "scalar":
        return "?"
    if node.value is True:
        return "on" if node.location.end_column - node.location.column == 2 else "true"
    return "false" if node.value is False else "null" if node.value is None else str(node.value)
