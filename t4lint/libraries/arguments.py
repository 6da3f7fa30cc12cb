"""argparse: parsers, and the namespace that a run's command line gives."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from t4lint.findings import Problem
from t4lint.interpret.values import (
    LOCAL_RANK,
    NONE,
    Abstract,
    Class,
    Const,
    DictValue,
    Function,
    ListValue,
    Object,
    Partial,
    Step,
    Symbol,
    Unknown,
    replace_origins,
    with_origin,
)
from t4lint.libraries import flags as command_line
from t4lint.libraries.api import Arguments, Call, calls, methods
from t4lint.trace import Call as CallEvent
from t4lint.trace import Setting


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


@methods("parser", "add_subparsers")
def subparsers(call: Call) -> Abstract:
    """The commands of a parser, each with a parser of its own."""
    commands = Object(
        "subparsers", "argparse._SubParsersAction", {"$parsers": DictValue(), "$dest": call.argument("dest")}
    )
    call.machine.write(call.receiver.attributes, "$commands", commands)
    return commands


@methods("subparsers", "add_parser")
def add_parser(call: Call) -> Abstract:
    name = call.argument("name", 0)
    result = parser(call)
    if isinstance(name, Const):
        call.machine.write(call.receiver.attributes["$parsers"].items, name.value, result)
    return result


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
            "names": ListValue(tuple(value for value in call.arguments.positional if isinstance(value, Const))),
            "default": default_of(call, long, action),
            "type": call.arguments.get("type") or NONE,
            "action": action,
            "positional": Const(not names[0].startswith("-")),
            "nargs": call.arguments.get("nargs") or NONE,
            "const": call.arguments.get("const") or NONE,
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
    words, launched = command_line.words_of_run(m), m.launch is not None
    unknown = ""
    if isinstance(given, ListValue):
        words = words_of(given)
        launched = launched or not given.state.get("command line")
        unknown = "" if given.complete else "a part of the command line is not known"
    elif not (isinstance(given, Const) and given.value is None):
        words, unknown = [], "the words that are parsed are not known"
    namespace = Object("namespace", "argparse.Namespace")
    if "$open" in call.receiver.attributes:  # it takes flags that are not known
        namespace.attributes["$open"] = Const(True)
    parse_into(call, call.receiver, namespace, words, launched, unknown)
    if not call.given("args"):
        say_local_rank(call)
    if call.name.endswith("parse_known_args"):
        return ListValue((namespace, rest_of(call, words)), "tuple")
    return namespace


def say_local_rank(call: Call) -> None:
    """What a parser makes of the `--local-rank=N` that the old launcher hands over: "takes", "refuses" or "leaves" it.

    `old` is the text of its own `--local_rank`, which torch below 2.0 handed over instead.
    """
    m = call.machine
    if m.launch is None or m.launch.launcher != "torch.distributed.launch" or "use_env" in m.launch.launcher_flags:
        return
    specs = call.receiver.attributes["$specs"].items
    names = [name for spec in specs.values() if isinstance(spec, Object) for name in spec.attributes["names"].items]
    spelled = {str(name.value): name for name in names if isinstance(name, Const)}
    makes: Abstract = Const("takes" if "--local-rank" in spelled else "refuses")
    if call.name.endswith("parse_known_args"):
        makes = Const("leaves")
    elif "$commands" in call.receiver.attributes or not all(
        isinstance(m.resolve(spec), Object) for spec in specs.values()
    ):
        makes = Unknown("what the parser takes is not known")
    said = {"makes": makes, "old": spelled.get("--local_rank", NONE)}
    m.emit(CallEvent, "parse_args", function="argparse.ArgumentParser.parse_args", arguments=said)


def parse_into(call: Call, parser: Object, namespace: Object, words: Any, launched: bool, unknown: str) -> None:
    """Fill a namespace with what words give to a parser, and then to the parser of the command that they name."""
    m = call.machine
    specs = {name: m.resolve(spec) for name, spec in parser.attributes["$specs"].items.items()}
    commands = m.resolve(parser.attributes.get("$commands") or NONE)
    flags = command_line.parse(words, launched, takes_of(specs, commands))
    if unknown:
        flags.open, flags.why = True, unknown
    places = list(flags.positional)
    for name, spec in specs.items():
        if isinstance(spec, Object) and spec.kind == "argument" and spec.attributes["positional"].value:
            namespace.attributes[name] = positional_value(call, name, spec, places, flags)
        else:
            namespace.attributes[name] = argument_value(call, name, spec, flags)
    say_settings(m, specs, namespace)
    for name, value in parser.attributes["$defaults"].items.items():
        if command_line.find(flags, [name]) is None:
            namespace.attributes[name] = m.resolve(value)
    if isinstance(commands, Object):
        run_command(call, commands, namespace, words, (launched, unknown), places)


def say_settings(m: Any, specs: dict[str, Any], namespace: Object) -> None:
    """The flags that a program offers; who reads them is known once all of it was seen (`counted`)."""
    for name, spec in specs.items():
        value = namespace.attributes.get(name)
        if isinstance(spec, Object) and spec.kind == "argument" and isinstance(value, Abstract):
            m.emit(Setting, name, name=name, given=value)
            m.globals.setdefault("$settings", []).append((name, m.drafts[-1]))


def counted(m: Any) -> None:
    """How many places of the project name each flag, besides the one that offers it."""
    made = m.globals.pop("$settings", [])
    if not made:
        return
    texts = [module.document.text for module in m.project.modules.values() if not isinstance(module, Problem)]
    texts += [document.text for document in m.project.documents.values()]
    for name, draft in made:
        if m.globals.get("$namespace handed") or m.given_up:
            draft.fields["reads"] = Unknown("the parsed flags go as a whole into code that is not known")
            continue
        draft.fields["reads"] = Const(sum(times_named(text, name) for text in texts))


def times_named(text: str, name: str) -> int:
    """How often a text names something; `--name` and `x-name` do not count."""
    return words_in(text)[name] if name.isidentifier() else len(re.findall(rf"(?<![-\w]){re.escape(name)}\b", text))


@lru_cache(maxsize=1024)
def words_in(text: str) -> Counter[str]:
    """How often a text has each word that no dash stands before."""
    return Counter(re.findall(r"(?<![-\w])\w+", text))


def takes_of(specs: dict[str, Any], commands: Abstract) -> dict[str, int | None]:
    """How many words each flag takes."""
    takes: dict[str, int | None] = {}
    for spec in specs.values():
        if not isinstance(spec, Object) or spec.kind != "argument" or spec.attributes["positional"].value:
            takes |= dict.fromkeys(fields_of(spec), 1)
            continue
        action, nargs = spec.attributes["action"], spec.attributes["nargs"]
        count: int | None = 1
        if isinstance(action, Symbol) or str(getattr(action, "value", "")) in SWITCHES:
            count = 0
        elif isinstance(nargs, Const) and nargs.value is not None:
            count = nargs.value if isinstance(nargs.value, int) else 1 if nargs.value == "?" else None
        for item in spec.attributes["names"].items:
            takes[str(item.value).lstrip("-").replace("-", "_")] = count
    if isinstance(commands, Object):
        for parser in commands.attributes["$parsers"].items.values():
            takes = {**takes_of(parser.attributes["$specs"].items, NONE), **takes}
    return takes


def fields_of(spec: Any) -> list[str]:
    """The flags that a dataclass brings (simple_parsing)."""
    cls = spec.attributes.get("$class") if isinstance(spec, Object) else None
    return list(cls.fields) if isinstance(cls, Class) else []


SWITCHES = frozenset({"store_true", "store_false", "store_const", "append_const", "count", "version", "help"})


def run_command(
    call: Call, commands: Object, namespace: Object, words: Any, how: tuple[bool, str], places: list[Any]
) -> None:
    """The parser of the command that the words name; of the only one there is, or of any where none is named."""
    parsers = commands.attributes["$parsers"].items
    named = next((word.text for word in places if word.text in parsers), None)
    launched, unknown = how
    dest = call.machine.resolve(commands.attributes["$dest"])
    if named is None and len(parsers) > 1:
        for parser in parsers.values():
            parse_into(call, parser, namespace, [], launched, unknown or "which command is run is not known")
        chosen: Abstract = Unknown("which command is run is not known", uid=f"command {commands.uid}")
        for name in {key for parser in parsers.values() for key in parser.attributes["$defaults"].items}:
            namespace.attributes[name] = Unknown(
                "which command is run is not known", uid=f"command {commands.uid} {name}"
            )
    else:
        name = named if named is not None else next(iter(parsers), None)
        place = next((word for word in places if word.text == name), None)
        inner = [word for word in words if word is not place]
        if name is not None:
            parse_into(call, parsers[name], namespace, inner, launched, unknown)
        chosen = Const(name, (Step("flag", str(name), location=getattr(place, "location", None)),))
    if isinstance(dest, Const) and isinstance(dest.value, str):
        namespace.attributes[dest.value] = chosen


def words_of(given: ListValue) -> list[Any]:
    """The words in a list: at their place on the command line, or where the program writes them."""
    words = []
    for item in given.items:
        step = next((step for step in item.origins if step.location is not None or step.node is not None), None)
        words.append(_Word(str(item.value) if isinstance(item, Const) else None, step))
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
    __slots__ = ("location", "step", "text", "why")

    def __init__(self, text: str | None, step: Step | None) -> None:
        self.text = text
        self.location = step.location if step is not None else None
        self.step = step if step is not None and step.location is None else None
        self.why = "given by code"


def argument_value(call: Call, name: str, spec: Any, flags: command_line.Flags) -> Abstract:
    value = flag_value(call, name, spec, flags)
    return local_rank(call.machine, value) if name == "local_rank" else value


def flag_value(call: Call, name: str, spec: Any, flags: command_line.Flags) -> Abstract:
    if not isinstance(spec, Object):
        return Unknown(f"the flag {name} is added in some runs only", uid=f"flag {name}")
    if spec.kind == "dataclass spec":
        from t4lint.libraries.entry import class_flags

        cls = spec.attributes["$class"]
        built: Abstract = call.machine.call(cls, Arguments((), class_flags(call.machine, cls)))
        return built
    default: Abstract = spec.attributes["default"]
    action, nargs = spec.attributes["action"], spec.attributes["nargs"]
    names = [item.value for item in spec.attributes["names"].items]
    what = action.value if isinstance(action, Const) else None
    found = command_line.find(flags, names)
    boolean = isinstance(action, Symbol) and action.name.endswith("BooleanOptionalAction")
    if found is not None:
        step = command_line.flag_step(found[0], [], flags)
        if what in ("store_true", "store_false"):
            return Const(what == "store_true", (step,))
        if what in ("store_const", "append_const"):
            const = call.machine.resolve(spec.attributes["const"])
            return const if what == "store_const" else ListValue((const,))
        if boolean:
            return Const(True, (step,))
        if not found[1] and isinstance(nargs, Const) and nargs.value == "?":
            return replace_origins(call.machine.resolve(spec.attributes["const"]), (step,))
        several = isinstance(nargs, Const) and (nargs.value in ("+", "*") or isinstance(nargs.value, int))
        return given_value(call, spec, found[1], flags, found[0], several or what == "append")
    if boolean:
        negative = command_line.find(flags, [f"no_{name.lstrip('-')}" for name in names])
        if negative is not None:
            return Const(False, (command_line.flag_step(negative[0], [], flags),))
    return command_line.override(flags, names, default, "guess")


def given_value(call: Call, spec: Object, words: Any, flags: command_line.Flags, name: str, several: bool) -> Abstract:
    """The words of a flag as its type makes them."""
    m = call.machine
    kind_value = m.resolve(spec.attributes["type"])
    step = command_line.flag_step(name, words, flags)
    if several:
        parts = [given_value(call, spec, [word], flags, name, False) for word in words]
        return ListValue(tuple(parts), origins=(step,))
    if isinstance(kind_value, (Function, Partial)) and words and words[0].text is not None:
        made: Abstract = m.resolve(m.call(kind_value, Arguments((Const(words[0].text, (step,)),))))
        if isinstance(made, Const):
            return made if step in made.origins else replace_origins(made, (step, *made.origins))
        if not isinstance(made, Unknown):
            return made
    kind = command_line.KINDS.get(kind_value.name, "guess") if isinstance(kind_value, Symbol) else "guess"
    if isinstance(kind_value, Const) and kind_value.value is None:
        kind = "str"
    if isinstance(kind_value, Symbol) and kind_value.name in TEXT_TYPES:
        kind = "str"
        if kind_value.name.startswith("pathlib.") and words and words[0].text is not None:
            return Const(PurePosixPath(words[0].text), (step,))
    if kind == "bool":
        # argparse's type=bool makes any non-empty word True
        return Const(bool(words and words[0].text), (step,))
    return command_line.converted(words[:1], kind, step)


TEXT_TYPES = frozenset({"pathlib.Path", "os.path.abspath", "os.path.expanduser", "pathlib.PosixPath"})


def local_rank(m: Any, value: Abstract) -> Abstract:
    """`--local_rank` is what the old launcher and DeepSpeed's hand to each process."""
    launch = m.launch
    old = (
        launch is not None and launch.launcher == "torch.distributed.launch" and "use_env" not in launch.launcher_flags
    )
    if old or (launch is not None and launch.launcher == "deepspeed" and "no_local_rank" not in launch.launcher_flags):
        return Const(0, (LOCAL_RANK,))
    return with_origin(value, LOCAL_RANK) if isinstance(value, (Const, Unknown)) else value


def positional_value(call: Call, name: str, spec: Object, places: list[Any], flags: command_line.Flags) -> Abstract:
    """The next words that stand by themselves; they are taken from `places`."""
    nargs = spec.attributes["nargs"]
    wanted = nargs.value if isinstance(nargs, Const) else None
    if not places:
        if wanted in ("?", "*") and not flags.open:
            default: Abstract = spec.attributes["default"]
            return default
        return Unknown(f"the argument {name} is given on the command line", uid=f"positional {name}")
    several = wanted in ("+", "*") or isinstance(wanted, int)
    count = len(places) if wanted in ("+", "*") else wanted if isinstance(wanted, int) else 1
    taken = [places.pop(0) for _ in range(min(count, len(places)))]
    return given_value(call, spec, taken, flags, name, several)


@methods("namespace", "getattr")
def namespace_attribute(call: Call) -> Abstract:
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    return Unknown(f"{name} is not a flag that t4lint saw", uid=f"{call.receiver.uid}.{name}")


@calls("argparse.Namespace", "types.SimpleNamespace")
def namespace(call: Call) -> Abstract:
    opened = {"$open": Const(True)} if call.arguments.open else {}
    return Object("namespace", call.name, {**call.arguments.keywords, **opened})
