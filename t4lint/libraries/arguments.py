"""argparse: parsers, and the namespace that a run's command line gives."""

from __future__ import annotations

from typing import Any

from t4lint.interpret.values import (
    NONE,
    Abstract,
    Const,
    DictValue,
    ListValue,
    Object,
    Step,
    Symbol,
    Unknown,
    replace_origins,
)
from t4lint.libraries import flags as command_line
from t4lint.libraries.api import Call, calls, methods


@calls(
    "argparse.ArgumentParser",
    "configargparse.ArgumentParser",
    "configargparse.ArgParser",
    "jsonargparse.ArgumentParser",
)
def parser(call: Call) -> Abstract:
    result = Object("parser", "argparse.ArgumentParser", {"$specs": DictValue(), "$defaults": DictValue()})
    parents = call.argument("parents")
    if isinstance(parents, ListValue):
        for parent in parents.items:
            if isinstance(parent, Object) and parent.kind == "parser":
                result.attributes["$specs"].items.update(parent.attributes["$specs"].items)
    return result


@methods("parser", "add_argument_group", "add_mutually_exclusive_group")
def group(call: Call) -> Abstract:
    return call.receiver  # type: ignore[no-any-return]


@methods("parser", "add_subparsers", "add_parser")
def subparsers(call: Call) -> Abstract:
    return call.receiver  # type: ignore[no-any-return]


@methods("parser", "add_argument", "add")
def add_argument(call: Call) -> Abstract:
    names = [
        value.value for value in call.arguments.positional if isinstance(value, Const) and isinstance(value.value, str)
    ]
    if not names:
        return NONE
    long = next((name for name in names if name.startswith("--")), names[0])
    destination = call.constant("dest", default=long.lstrip("-").replace("-", "_"))
    action = call.argument("action", default=Const("store"))
    spec = Object(
        "argument",
        "argparse.Action",
        {
            "names": ListValue(tuple(Const(name) for name in names)),
            "default": default_of(call, long, action),
            "type": call.arguments.get("type") or NONE,
            "action": action,
            "positional": Const(not names[0].startswith("-")),
            "nargs": call.arguments.get("nargs") or NONE,
        },
    )
    call.machine.write(call.receiver.attributes["$specs"].items, destination, spec)
    return spec


def default_of(call: Call, name: str, action: Abstract) -> Abstract:
    """The default of a flag; its provenance is the add_argument call, at the default where one is written."""
    value = call.arguments.get("default")
    if value is not None:
        resolved: Abstract = call.machine.resolve(value)
        step = resolved.origins[0] if resolved.origins else call.machine.here("default", "")
        if isinstance(resolved, (Const, Symbol)) and len(resolved.origins) <= 1:
            shown = resolved.value if isinstance(resolved, Const) else resolved.name
            written = Step("default", f"default of {name} ({shown})", step.source, step.node, step.location)
            return replace_origins(resolved, (written, *(s for s in resolved.origins if s.how == "target")))
        return resolved
    implied: Any = None
    if isinstance(action, Const):
        implied = {"store_true": False, "store_false": True, "count": None}.get(str(action.value))
    return Const(implied, (call.machine.here("default", f"default of {name} ({implied})"),))


@methods("parser", "set_defaults")
def set_defaults(call: Call) -> Abstract:
    for name, value in call.arguments.keywords.items():
        call.machine.write(call.receiver.attributes["$defaults"].items, name, value)
    return NONE


@methods("parser", "parse_args", "parse_known_args", "parse_intermixed_args")
def parse_args(call: Call) -> Abstract:
    m = call.machine
    given = m.resolve(call.arguments.get("args", 0) or NONE)
    flags = command_line.read(m)
    if isinstance(given, ListValue):
        flags = from_list(m, given)
    elif not (isinstance(given, Const) and given.value is None):
        flags = command_line.Flags(open=True, why="the words that are parsed are not known")
    namespace = Object("namespace", "argparse.Namespace")
    for name, spec in call.receiver.attributes["$specs"].items.items():
        namespace.attributes[name] = argument_value(call, name, m.resolve(spec), flags)
    for name, value in call.receiver.attributes["$defaults"].items.items():
        if command_line.find(flags, [name]) is None:
            namespace.attributes[name] = value
    if call.name.endswith("parse_known_args"):
        return ListValue(
            (namespace, rest_of(call, m.arguments if not isinstance(given, ListValue) else words_of(given))), "tuple"
        )
    return namespace


def from_list(m: Any, given: ListValue) -> command_line.Flags:
    """`parse_args([...])` with words written in code, or with a part of `sys.argv`."""
    from_command_line = bool(given.state.get("command line"))
    flags = command_line.parse(words_of(given), launched=m.launch is not None or not from_command_line)
    if not given.complete:
        flags.open, flags.why = True, "a part of the command line is not known"
    return flags


def words_of(given: ListValue) -> list[Any]:
    words = []
    for item in given.items:
        place = next((step.location for step in item.origins if step.location is not None), None)
        words.append(_Word(str(item.value) if isinstance(item, Const) else None, place))
    return words


def rest_of(call: Call, words: Any) -> ListValue:
    """What `parse_known_args` leaves over: the flags that this parser does not have, with their values."""
    from t4lint.libraries.python import command_words

    known = set()
    for spec in call.receiver.attributes["$specs"].items.values():
        if isinstance(spec, Object):
            known |= {item.value for item in spec.attributes["names"].items}
    rest, taking = [], False
    for word in words:
        text = word.text or ""
        if text.startswith("-"):
            taking = text.partition("=")[0] not in known
        if taking or word.text is None:
            rest.append(word)
    return command_words(call.machine, rest)


class _Word:
    __slots__ = ("location", "text", "why")

    def __init__(self, text: str | None, location: Any) -> None:
        self.text = text
        self.location = location
        self.why = "given by code"


def argument_value(call: Call, name: str, spec: Any, flags: command_line.Flags) -> Abstract:
    if not isinstance(spec, Object):
        return Unknown(f"the flag {name} is added in some runs only", uid=f"flag {name}")
    default: Abstract = spec.attributes["default"]
    action = spec.attributes["action"]
    names = [item.value for item in spec.attributes["names"].items]
    if spec.attributes["positional"].value:
        return positional_value(name, flags, default)
    what = action.value if isinstance(action, Const) else None
    found = command_line.find(flags, names)
    if found is not None and what in ("store_true", "store_false") and not any(word.text is None for word in found[1]):
        return Const(what == "store_true", (command_line.flag_step(found[0], [], flags),))
    if found is not None and isinstance(action, Symbol) and action.name.endswith("BooleanOptionalAction"):
        return Const(True, (command_line.flag_step(found[0], [], flags),))
    if isinstance(action, Symbol) and action.name.endswith("BooleanOptionalAction"):
        negative = command_line.find(flags, [f"no_{names[0].lstrip('-')}"])
        if negative is not None:
            return Const(False, (command_line.flag_step(negative[0], [], flags),))
    kind_value = call.machine.resolve(spec.attributes["type"])
    kind = command_line.KINDS.get(kind_value.name, "guess") if isinstance(kind_value, Symbol) else "guess"
    if kind_value is NONE or (isinstance(kind_value, Const) and kind_value.value is None):
        kind = "str"
    if kind == "bool" and found is not None:
        # argparse's type=bool makes any non-empty word True
        return Const(bool(found[1] and found[1][0].text), (command_line.flag_step(found[0], found[1], flags),))
    value = command_line.override(flags, names, default, kind)
    return unset(value, name)


def unset(value: Abstract, name: str) -> Abstract:
    return value


def positional_value(name: str, flags: command_line.Flags, default: Abstract) -> Abstract:
    if flags.positional:
        word = flags.positional[0]
        if word.text is not None:
            return Const(word.text, (Step("flag", word.text, location=word.location),))
    return Unknown(f"the argument {name} is given on the command line", uid=f"positional {name}")


@methods("namespace", "getattr")
def namespace_attribute(call: Call) -> Abstract:
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    return Unknown(f"{name} is not a flag that t4lint saw", uid=f"{call.receiver.uid}.{name}")


@calls("argparse.Namespace", "types.SimpleNamespace")
def namespace(call: Call) -> Abstract:
    return Object("namespace", call.name, dict(call.arguments.keywords))
