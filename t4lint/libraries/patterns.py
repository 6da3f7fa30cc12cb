"""Regular expressions over text that is known: names of classes and files that a program takes apart."""

from __future__ import annotations

import re

from t4lint.interpret.operators import origins_of, unknown_from
from t4lint.interpret.values import NONE, Abstract, Const, ListValue, Object
from t4lint.libraries.api import Call, calls, methods

# A pattern may take time that grows fast with its text: only short texts, and patterns that repeat little, are tried.
MAX_PATTERN, MAX_TEXT, MAX_REPEATS = 60, 200, 2
REPEATS = re.compile(r"[*+?{]")
NESTED = re.compile(r"[*+?}][^()]*\)+[*+?{]")


def compiled(pattern: Abstract, text: Abstract) -> re.Pattern[str] | None:
    """A pattern that is quickly tried on a known text."""
    if isinstance(pattern, Object) and pattern.kind == "pattern":
        pattern = pattern.attributes["pattern"]
    if not (isinstance(pattern, Const) and isinstance(text, Const)):
        return None
    if not (isinstance(pattern.value, str) and isinstance(text.value, str)) or len(text.value) > MAX_TEXT:
        return None
    if len(pattern.value) > MAX_PATTERN or len(REPEATS.findall(pattern.value)) > MAX_REPEATS:
        return None
    if NESTED.search(pattern.value):
        return None
    try:
        return re.compile(pattern.value)
    except (re.error, OverflowError, RecursionError):
        return None


@calls("re.compile")
def compile_(call: Call) -> Abstract:
    return Object("pattern", "re.Pattern", {"pattern": call.argument("pattern", 0)})


@calls("re.sub")
def sub(call: Call) -> Abstract:
    return substituted(call.argument("pattern", 0), call.argument("repl", 1), call.argument("string", 2))


@methods("pattern", "sub")
def pattern_sub(call: Call) -> Abstract:
    return substituted(call.receiver, call.argument("repl", 0), call.argument("string", 1))


def substituted(pattern: Abstract, by: Abstract, text: Abstract) -> Abstract:
    found = compiled(pattern, text)
    if found is None or not (isinstance(by, Const) and isinstance(by.value, str)):
        return unknown_from("re.sub", pattern, by, text)
    try:
        result = found.sub(by.value, text.value)  # type: ignore[attr-defined]
    except (re.error, IndexError):
        return unknown_from("re.sub", pattern, by, text)
    return Const(result, text.origins) if len(result) <= MAX_TEXT else unknown_from("re.sub", pattern, by, text)


@calls("re.split", "re.findall")
def parts(call: Call) -> Abstract:
    pattern, text = call.argument("pattern", 0), call.argument("string", 1)
    found = compiled(pattern, text)
    if found is None or call.given("maxsplit", 2):
        return unknown_from(call.name, pattern, text)
    value = text.value  # type: ignore[attr-defined]
    pieces = found.split(value) if call.name == "re.split" else found.findall(value)
    if not all(isinstance(piece, str) for piece in pieces):
        return unknown_from(call.name, pattern, text)
    return ListValue(tuple(Const(piece, text.origins) for piece in pieces), "list")


@calls("re.match", "re.search", "re.fullmatch")
def match(call: Call) -> Abstract:
    return matched(call.name.rpartition(".")[2], call.argument("pattern", 0), call.argument("string", 1))


@methods("pattern", "match", "search", "fullmatch")
def pattern_match(call: Call) -> Abstract:
    return matched(call.name.rpartition(".")[2], call.receiver, call.argument("string", 0))


def matched(how: str, pattern: Abstract, text: Abstract) -> Abstract:
    found = compiled(pattern, text)
    if found is None:
        return unknown_from(f"re.{how}", pattern, text)
    result: re.Match[str] | None = getattr(found, how)(text.value)  # type: ignore[attr-defined]
    if result is None:
        return Const(None, origins_of(text)) if text.origins else NONE
    groups = (result.group(0), *result.groups())
    parts_of = Object("match", "re.Match")
    parts_of.attributes.update({"$groups": groups, "$names": result.groupdict(), "$text": text})
    return parts_of


@methods("match", "group", "getitem")
def group(call: Call) -> Abstract:
    wanted = call.arguments.positional[0] if call.arguments.positional else Const(0)
    text: Abstract = call.receiver.attributes["$text"]
    if len(call.arguments.positional) <= 1 and isinstance(wanted, Const):
        groups, names = call.receiver.attributes["$groups"], call.receiver.attributes["$names"]
        if isinstance(wanted.value, int) and 0 <= wanted.value < len(groups):
            return Const(groups[wanted.value], text.origins)
        if wanted.value in names:
            return Const(names[wanted.value], text.origins)
    return unknown_from("group", text, wanted)


@methods("match", "groups")
def groups_(call: Call) -> Abstract:
    text: Abstract = call.receiver.attributes["$text"]
    return ListValue(tuple(Const(it, text.origins) for it in call.receiver.attributes["$groups"][1:]), "tuple")
