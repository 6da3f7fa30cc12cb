"""Entry functions: click, typer, fire, absl flags. Their options are flags of the command line."""

from __future__ import annotations

import ast
from typing import Any

from t4lint.interpret.values import (
    NONE,
    Abstract,
    Bound,
    Class,
    Const,
    DictValue,
    Function,
    Object,
    Step,
    Symbol,
    Unknown,
    replace_origins,
)
from t4lint.libraries import flags as command_line
from t4lint.libraries.api import Arguments, Call, attribute, calls, methods

# --- click and typer ---------------------------------------------------------------------------------------------


@calls("click.option", "click.argument", "typer.Option", "typer.Argument")
def option(call: Call) -> Abstract:
    names = [v.value for v in call.arguments.positional if isinstance(v, Const) and isinstance(v.value, str)]
    default = call.arguments.get("default")
    if call.name.startswith("typer.") and call.arguments.positional:
        first = call.machine.resolve(call.arguments.positional[0])
        # under `Annotated[...]` the names come first, else the default
        declared = isinstance(first, Const) and isinstance(first.value, str) and first.value.startswith("-")
        default = default if default is not None or declared else first
        names = [name for name in names if name.startswith("-")]
    if default is None and call.constant("is_flag") is True:
        default = Const(
            False, (call.machine.here("default", f"default of {names[0] if names else 'the flag'} (False)"),)
        )
    if default is None and call.name == "click.option" and call.constant("required") is not True:
        default = Const(None, (call.machine.here("default", f"default of {names[0] if names else 'the flag'} (None)"),))
    kind = call.machine.resolve(call.arguments.get("type") or NONE)
    return Object(
        "option",
        call.name,
        {
            "names": Const(tuple(names)),
            "default": default if default is not None else NONE,
            "type": kind,
            "given": Const(default is not None),
        },
    )


@calls("click.command", "click.group", "typer.Typer", "click.pass_context", "click.version_option")
def command(call: Call) -> Abstract:
    function = call.arguments.get("", 0)
    if isinstance(function, Function):
        return function
    return Object("command", call.name)


@methods("command", "command", "callback", "option")
def subcommand(call: Call) -> Abstract:
    """`@app.command()`: the decorator of a command of this app."""
    function = call.arguments.get("", 0)
    made = Object("command", "click.command", {"$app": call.receiver, "$name": call.arguments.get("name", 0) or NONE})
    if isinstance(function, Function):
        remember(call.machine, made, function)
        return function
    return made


@methods("command", "__call__")
def run_command(call: Call) -> Abstract:
    """`@app.command()` around a function remembers it; `app()` runs what was remembered."""
    function = call.arguments.get("", 0)
    if isinstance(function, Function):
        return function
    return run_commands(call.machine, call.receiver)


def commands_of(m: Any, app: Abstract) -> dict[str, Function]:
    found: dict[str, Function] = m.globals.setdefault(f"commands {getattr(app, 'uid', id(app))}", {})
    return found


def remember(m: Any, decorator: Object, function: Function) -> None:
    """Note the function under its app, so that `app()` finds it."""
    app = decorator.attributes.get("$app")
    if app is not None:
        name = m.resolve(decorator.attributes.get("$name") or NONE)
        word = (
            name.value if isinstance(name, Const) and isinstance(name.value, str) else function.name.replace("_", "-")
        )
        commands_of(m, app)[word] = function


def run_commands(m: Any, app: Abstract) -> Abstract:
    """The command that the command line names; the only one; or, where none is named, each of them."""
    commands = commands_of(m, app)
    if not commands:
        return Unknown("what the command returns")
    flags = command_line.read(m)
    named = next((word.text for word in flags.positional if word.text in commands), None)
    if named is not None:
        flags.positional = [word for word in flags.positional if word.text != named]
        return enter_command(m, commands[named])
    result: Abstract = NONE
    for function in commands.values():
        result = enter_command(m, function)
    return result


@methods("function", "command", "group")
def command_of_group(call: Call) -> Abstract:
    """`@cli.command()` where `cli` is a function under `@click.group()`."""
    return Object("command", "click.command", {"$app": call.receiver, "$name": call.arguments.get("name", 0) or NONE})


def is_group(function: Function) -> bool:
    return any(getattr(d, "name", "") == "click.group" for d in function.decorators)


def is_command(function: Function) -> bool:
    """Is a function the entry of a click program: called without arguments, it reads the command line?"""
    return any(
        (isinstance(d, Object) and d.kind == "command" and d.name.startswith("click"))
        or (isinstance(d, Symbol) and d.name in ("click.command", "click.group"))
        for d in function.decorators
    )


@calls("fire.Fire")
def fire(call: Call) -> Abstract:
    """The words of the command line name a way through objects, and give the arguments of what is called on it."""
    m = call.machine
    target = m.resolve(call.arguments.get("component", 0) or NONE)
    if isinstance(target, Const) and target.value is None:
        scope = list(m.frames[-1].scope.chain())[-1]
        names: dict[Any, Abstract] = {k: v for k, v in scope.names.items() if isinstance(v, (Function, Class))}
        target = DictValue(names)
    words = [word for word in command_line.read(m).positional if word.text is not None]
    if isinstance(target, DictValue) and not words:
        # without a word the program only lists what it can do: whoever runs it gives one
        named = [it for name, it in target.items.items() if len(target.items) == 1 or name in TRAINING_COMMANDS]
        target = m.resolve(named[0]) if named else target
    for _ in range(MAX_FIRE):
        if isinstance(target, Class):
            target = m.call(target, Arguments(keywords=parameter_flags(m, target)))
        if isinstance(target, (Function, Bound)) or not words:
            break
        name = words.pop(0).text.replace("-", "_")
        target = (
            m.resolve(target.items.get(name) or NONE) if isinstance(target, DictValue) else m.attribute(target, name)
        )
    return run_target(m, target, words)


TRAINING_COMMANDS = frozenset({"train", "training", "run", "main", "fit"})
MAX_FIRE = 4  # words that name a way


def run_target(m: Any, target: Abstract, words: Any) -> Abstract:
    """Call what was found with the flags; what is left of the words fills its first parameters."""
    from t4lint.interpret.calls import enter

    function = target.method if isinstance(target, Bound) else target
    if not isinstance(function, Function):
        return target
    receiver = target.receiver if isinstance(target, Bound) else None
    keywords = flags_for(m, function, skip=receiver is not None)
    for name, word in zip(parameters_of(function)[1 if receiver is not None else 0 :], words, strict=False):
        keywords[name] = command_line.converted([word], "guess", Step("flag", str(word.text), location=word.location))
    return enter(m, function, Arguments(keywords=keywords), receiver)


def parameter_flags(m: Any, cls: Class) -> dict[str, Abstract]:
    """What the command line gives the constructor of a class."""
    initialiser = cls.find("__init__")
    if not isinstance(initialiser, Function):
        return class_flags(m, cls)
    return flags_for(m, initialiser, skip=True)


@calls("typer.run", "jsonargparse.CLI", "jsonargparse.auto_cli", "tyro.cli", "absl.app.run")
def run_function(call: Call) -> Abstract:
    target = call.machine.resolve(call.arguments.get("", 0) or NONE)
    if isinstance(target, Function):
        return enter_command(call.machine, target)
    if isinstance(target, Class):
        from t4lint.interpret.calls import instantiate

        return instantiate(call.machine, target, Arguments(keywords=class_flags(call.machine, target)))
    if isinstance(target, Bound):
        return call.machine.call(target, Arguments())  # type: ignore[no-any-return]
    return Unknown("what the entry function returns")


def class_flags(m: Any, cls: Class) -> dict[str, Abstract]:
    flags = command_line.read(m)
    keywords: dict[str, Abstract] = {}
    for name, default in cls.fields.items():
        off = command_line.find(flags, [f"no_{name}"])
        if off is not None and command_line.find(flags, [name]) is None:
            keywords[name] = Const(False, (command_line.flag_step(off[0], [], flags),))
            continue
        value = command_line.override(flags, [name], default or NONE, "guess")
        if default is not None or command_line.find(flags, [name]) is not None:
            keywords[name] = presumed(value, name, flags)
    return keywords


def enter_command(m: Any, function: Function) -> Abstract:
    """Call a function with what the command line gives its parameters, else with their defaults."""
    from t4lint.interpret.calls import enter

    result = enter(m, function, Arguments(keywords=flags_for(m, function)))
    return run_commands(m, function) if is_group(function) else result


def flags_for(m: Any, function: Function, skip: bool = False) -> dict[str, Abstract]:
    """The arguments of an entry function by name; `skip` leaves its first parameter to the method's object."""
    flags = command_line.read(m)
    options = {name: spec for spec in function.decorators for name in option_names(spec)}
    keywords: dict[str, Abstract] = {}
    for parameter in [*parameters_of(function)[1 if skip else 0 :], *gathered(function)]:
        default = function.defaults.get(parameter)
        spec = options.get(parameter) or annotated_option(m, function, parameter)
        if isinstance(default, Object) and default.kind == "option":
            spec, default = default, default.attributes["default"]
        elif isinstance(spec, Object):
            default = spec.attributes["default"] if spec.attributes["given"].value else default
        words = spec.attributes["names"].value if isinstance(spec, Object) else ()
        names = [parameter, *(name.partition("/")[0] for name in words)]
        off = [f"no_{parameter}", *(name.partition("/")[2] for name in words if "/" in name)]
        kind = kind_of(function, parameter, spec)
        found = command_line.find(flags, off)
        if found is not None and command_line.find(flags, names) is None:
            keywords[parameter] = Const(False, (command_line.flag_step(found[0], [], flags),))
        elif default is None and command_line.find(flags, names) is None:
            keywords[parameter] = Unknown(f"--{parameter} is given on the command line", uid=f"flag {parameter}")
        else:
            value = command_line.override(flags, names, m.resolve(default or NONE), kind)
            keywords[parameter] = presumed(value, parameter, flags)
    return keywords


def gathered(function: Function) -> list[str]:
    """The options that `def main(**settings)` takes."""
    if function.node.args.kwarg is None:
        return []
    names = [declared_name(spec) for spec in function.decorators if option_names(spec)]
    return [name for name in names if name and name not in parameters_of(function)]


def declared_name(spec: Abstract) -> str:
    """The parameter of an option: the name without dashes that it declares, else its first long flag (click 8, `parser`)."""
    words = spec.attributes["names"].value if isinstance(spec, Object) else ()
    plain = [word for word in words if not word.startswith("-")]
    long = [word for word in words if word.startswith("--")]
    chosen = next(iter([*plain, *long, *words]), "")
    return str(chosen).partition("/")[0].lstrip("-").replace("-", "_")


def annotated_option(m: Any, function: Function, parameter: str) -> Abstract | None:
    """`Annotated[bool, typer.Option("--half")]`"""
    from t4lint.interpret.expressions import dotted, evaluate

    for item in parameter_nodes(function):
        annotation = item.annotation
        if item.arg != parameter or not isinstance(annotation, ast.Subscript):
            continue
        if dotted(annotation.value).rpartition(".")[2] != "Annotated" or not isinstance(annotation.slice, ast.Tuple):
            continue
        for element in annotation.slice.elts[1:]:
            if isinstance(element, ast.Call):
                value = evaluate(m, element)
                if isinstance(value, Object) and value.kind == "option":
                    return value
    return None


def presumed(value: Abstract, name: str, flags: command_line.Flags) -> Abstract:
    """A default that a command line may change says so in its provenance."""
    if isinstance(value, Const) and value.origins and value.origins[0].how in ("literal", "default"):
        step = value.origins[0]
        note = f"default of --{name} ({value.value!r})"
        return replace_origins(
            value, (Step("default", note, step.source, step.node, step.location), *value.origins[1:])
        )
    return value


def option_names(spec: Abstract) -> tuple[str, ...]:
    """The parameter names that a click option fills: its long flags without dashes."""
    if not (isinstance(spec, Object) and spec.kind == "option"):
        return ()
    names = [name.partition("/")[0].lstrip("-").replace("-", "_") for name in spec.attributes["names"].value]
    return tuple(sorted(names, key=len, reverse=True))


def parameter_nodes(function: Function) -> list[ast.arg]:
    node = function.node.args
    return [*node.posonlyargs, *node.args, *node.kwonlyargs]


def parameters_of(function: Function) -> list[str]:
    return [parameter.arg for parameter in parameter_nodes(function)]


def kind_of(function: Function, parameter: str, spec: Abstract | None) -> str:
    """The type of a flag: as declared by the option, or by the parameter's annotation."""
    if isinstance(spec, Object):
        kind = spec.attributes["type"]
        if isinstance(kind, Symbol):
            return command_line.KINDS.get(kind.name, "guess")
    for item in parameter_nodes(function):
        if item.arg == parameter:
            annotation = item.annotation
            if isinstance(annotation, ast.Subscript):  # Annotated[bool, ...], Optional[bool]
                inside = annotation.slice
                annotation = inside.elts[0] if isinstance(inside, ast.Tuple) and inside.elts else inside
            if isinstance(annotation, ast.Name):
                return {"int": "int", "float": "float", "bool": "bool", "str": "str"}.get(annotation.id, "guess")
    return "guess"


# --- absl flags --------------------------------------------------------------------------------------------------


@attribute("absl.flags.FLAGS")
def absl_flags(m: Any) -> Abstract:
    if "absl flags" not in m.globals:
        m.globals["absl flags"] = Object("namespace", "absl.flags.FLAGS")
    value: Abstract = m.globals["absl flags"]
    return value


@calls(
    "absl.flags.DEFINE_bool", "absl.flags.DEFINE_boolean", "absl.flags.DEFINE_integer", "absl.flags.DEFINE_float",
    "absl.flags.DEFINE_string", "absl.flags.DEFINE_enum",
)  # fmt: skip
def define_flag(call: Call) -> Abstract:
    name = call.argument("name", 0)
    if isinstance(name, Const):
        default = call.argument("default", 1)
        flags = command_line.read(call.machine)
        kind = {"bool": "bool", "boolean": "bool", "integer": "int", "float": "float"}.get(
            call.name.rpartition("_")[2], "str"
        )
        value = presumed(command_line.override(flags, [name.value], default, kind), name.value, flags)
        holder = absl_flags(call.machine)
        call.machine.write(holder.attributes, str(name.value), value)  # type: ignore[attr-defined]
        return Object("namespace", "absl.flags.FlagHolder", {"value": value})
    return NONE


# --- classes that parse themselves ---------------------------------------------------------------------------------


@methods("parser", "add_arguments")
def add_dataclass(call: Call) -> Abstract:
    """simple_parsing: the flags of a dataclass, which `args.DEST` holds."""
    cls, dest = call.argument("dataclass", 0), call.argument("dest", 1)
    if isinstance(cls, Class) and isinstance(dest, Const):
        spec = Object("dataclass spec", "simple_parsing.add_arguments", {"$class": cls})
        call.machine.write(call.receiver.attributes["$specs"].items, dest.value, spec)
    return NONE


@calls("simple_parsing.parse", "simple_parsing.ArgumentParser")
def simple_parsing(call: Call) -> Abstract:
    cls = call.machine.resolve(call.arguments.get("config_class", 0) or NONE)
    if isinstance(cls, Class):
        from t4lint.interpret.calls import instantiate

        return instantiate(call.machine, cls, Arguments(keywords=class_flags(call.machine, cls)))
    from t4lint.libraries.arguments import parser

    return parser(call)
