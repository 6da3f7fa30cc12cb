"""TOML and INI with the place of every key: values are read by the standard library, places by the lines of keys.

Only the place of a value is approximate: a key that is written in an inline table has the place of that table.
"""

from __future__ import annotations

import configparser
import re
import sys
from collections.abc import Callable

from t4lint.sources.configs import ConfigNode
from t4lint.sources.toml_text import keys_of
from t4lint.trace import Location

At = Callable[[int, int], Location]
_SECTION = re.compile(r"^[ \t]*\[[ \t]*([^\]\n]+?)[ \t]*\][ \t]*(?:[#;].*)?$")
_KEY = re.compile(r"^[ \t]*([\w.\-\"' ]+?)[ \t]*[=:]")
MAX_DEPTH = 32


class TextError(ValueError):
    """The text is not what it should be; the message says why."""


def parse_toml(text: str, at: At) -> ConfigNode:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise TextError(str(error)) from None
    return _node(data, (), _toml_places(text), at)


def parse_ini(text: str, at: At) -> ConfigNode:
    """Sections of keys; every value is text, as `configparser` gives it."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    try:
        parser.read_string(text)
    except (configparser.Error, ValueError) as error:
        raise TextError(str(error).splitlines()[0]) from None
    data = {name: dict(parser.items(name)) for name in parser.sections()}
    return _node(data, (), _ini_places(text), at)


Places = dict[tuple[str, ...], tuple[int, int]]


def _toml_places(text: str) -> Places:
    spans = _lines(text)
    found: Places = {}
    for number, path in keys_of(text):
        found.setdefault(path, spans[number - 1])
    return found


def _ini_places(text: str) -> Places:
    found: Places = {}
    section: tuple[str, ...] = ()
    for line, span in zip(text.splitlines(), _lines(text), strict=True):
        header, key = _SECTION.match(line), _KEY.match(line)
        if header:
            section = (header[1],)
            found.setdefault(section, span)
        elif key:
            found.setdefault((*section, key[1].strip().lower()), span)
    return found


def _lines(text: str) -> list[tuple[int, int]]:
    """The offsets of each line, without indentation and line ending."""
    spans, offset = [], 0
    for line in text.splitlines(keepends=True):
        body = line.rstrip("\r\n")
        spans.append((offset + len(body) - len(body.lstrip()), offset + len(body)))
        offset += len(line)
    return spans


def _node(value: object, path: tuple[str, ...], places: Places, at: At, depth: int = 0) -> ConfigNode:
    known = next((places[path[:n]] for n in range(len(path), 0, -1) if path[:n] in places), (0, 0))
    location = at(*known)
    if depth > MAX_DEPTH:
        return ConfigNode("cycle", location)
    if isinstance(value, dict):
        entries = {str(key): _node(part, (*path, str(key)), places, at, depth + 1) for key, part in value.items()}
        return ConfigNode("mapping", location, entries=entries, key=location)
    if isinstance(value, list):
        return ConfigNode(
            "sequence", location, items=[_node(part, path, places, at, depth + 1) for part in value], key=location
        )
    return ConfigNode("scalar", location, value=value, key=location, style="quoted")
