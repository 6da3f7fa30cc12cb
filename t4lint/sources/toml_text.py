"""Where keys and values stand in TOML text: good enough to point at a line, without a second parser."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator


def find_line(text: str, path: tuple[str, ...]) -> int | None:
    """The line of TOML text that comes nearest to a path of keys; the last of them may be a value in a list."""
    best: tuple[int, int] | None = None
    for number, keys in keys_of(text):
        shared = _shared(keys, path)
        if shared and (best is None or shared > best[1]):
            best = number, shared
        elif keys[: len(path)] == path and (best is None or len(path) > best[1]):
            best = number, len(path)  # a table that only stands in the headers of those inside it
    if best is None:
        return None
    number, shared = best
    return _value_line(text, number, path[-1]) if shared < len(path) else number


_BARE = r"[A-Za-z0-9_-]+"
_KEY = rf"""(?:{_BARE}|"[^"]*"|'[^']*')"""
_PATH = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*\[(\[?)\s*({_PATH})\s*\]")
_ASSIGNMENT = re.compile(rf"\s*({_PATH})\s*=")
_INLINE = re.compile(rf"[{{,]\s*({_PATH})\s*=")


def keys_of(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The keys of TOML text with their lines, in order. The tables of an array have their numbers, from 0, as keys."""
    table: tuple[str, ...] = ()
    counts: Counter[tuple[str, ...]] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        if match := _HEADER.match(line):
            table = _split(match[2])
            if match[1]:
                counts[table] += 1
                table = (*table, str(counts[table] - 1))
            yield number, table
        elif match := _ASSIGNMENT.match(line):
            keys = (*table, *_split(match[1]))
            yield number, keys
            for inner in _INLINE.finditer(line, match.end()):
                yield number, (*keys, *_split(inner[1]))


def _split(path: str) -> tuple[str, ...]:
    return tuple(key.strip("\"'") for key in re.findall(_KEY, path))


def _shared(keys: tuple[str, ...], path: tuple[str, ...]) -> int:
    """How much of `path` the keys lead to; 0 when they lead elsewhere."""
    return len(keys) if keys == path[: len(keys)] else 0


def _value_line(text: str, start: int, value: str) -> int:
    """The first line from `start` on that holds the value, as far as its list goes; else `start`."""
    lines = text.splitlines()
    for number in range(start, len(lines) + 1):
        line = lines[number - 1]
        if number > start and (_HEADER.match(line) or _ASSIGNMENT.match(line)):
            break
        if re.search(rf"(?<![\w-]){re.escape(value)}(?![\w-])", line):
            return number
    return start
