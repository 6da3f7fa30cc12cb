"""Entry functions: click, typer, fire, absl flags. Their options are flags of the command line."""

from __future__ import annotations

from typing import Any

import libcst as cst

from t4lint.interpret.values import (
    NONE,
    Abstract,
    Bound,
    Class,
    Const,
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
        default = default or first
        names = [name for name in names if name.startswith("-")]
    if default is None and call.constant("is_flag") is True:
        default = Const(
            False, (call.machine.here("default", f"default of {names[0] if names else 'the flag'} (False)"),)
        )
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
    return Object("command", "click.command", {"$app": call.receiver})


@methods("command", "__call__")
def run_command(call: Call) -> Abstract:
    """`@app.command()` around a function remembers it; `app()` runs what was remembered."""
    function = call.arguments.get("", 0)
    if isinstance(function, Function):
        return function
    registered = call.machine.globals.get(f"command {call.receiver.uid}")
    if isinstance(registered, Function):
        return enter_command(call.machine, registered)
    return Unknown("what the command returns")


def remember(m: Any, decorator: Object, function: Function) -> None:
    """Note the function under its typer app, so that `app()` finds it."""
    app = decorator.attributes.get("$app")
    if isinstance(app, Object):
        m.globals[f"command {app.uid}"] = function


def is_command(function: Function) -> bool:
    """Is a function the entry of a click program: called without arguments, it reads the command line?"""
    return any(
        (isinstance(d, Object) and d.kind == "command" and d.name.startswith("click"))
        or (isinstance(d, Symbol) and d.name in ("click.command", "click.group"))
        for d in function.decorators
    )


@calls("typer.run", "fire.Fire", "jsonargparse.CLI", "tyro.cli", "absl.app.run")
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
    keywords = {}
    for name, default in cls.fields.items():
        value = command_line.override(flags, [name], default or NONE, "guess")
        if default is not None or command_line.find(flags, [name]) is not None:
            keywords[name] = presumed(value, name, flags)
    return keywords


def enter_command(m: Any, function: Function) -> Abstract:
    """Call a function with what the command line gives its parameters, else with their defaults."""
    from t4lint.interpret.calls import enter

    flags = command_line.read(m)
    options = {name: spec for spec in function.decorators for name in option_names(spec)}
    keywords: dict[str, Abstract] = {}
    for parameter in parameters_of(function):
        default = function.defaults.get(parameter)
        spec = options.get(parameter)
        if isinstance(default, Object) and default.kind == "option":
            spec, default = default, default.attributes["default"]
        elif isinstance(spec, Object):
            default = spec.attributes["default"] if spec.attributes["given"].value else default
        names = [parameter, *(spec.attributes["names"].value if isinstance(spec, Object) else ())]
        if default is None and command_line.find(flags, names) is None:
            keywords[parameter] = Unknown(f"--{parameter} is given on the command line", uid=f"flag {parameter}")
            continue
        value = command_line.override(flags, names, m.resolve(default or NONE), kind_of(function, parameter, spec))
        keywords[parameter] = presumed(value, parameter, flags)
    return enter(m, function, Arguments(keywords=keywords))


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


def parameters_of(function: Function) -> list[str]:
    node = function.node.params
    return [parameter.name.value for parameter in (*node.posonly_params, *node.params, *node.kwonly_params)]


def kind_of(function: Function, parameter: str, spec: Abstract | None) -> str:
    """The type of a flag: as declared by the option, or by the parameter's annotation."""
    if isinstance(spec, Object):
        kind = spec.attributes["type"]
        if isinstance(kind, Symbol):
            return command_line.KINDS.get(kind.name, "guess")
    node = function.node.params
    for item in (*node.posonly_params, *node.params, *node.kwonly_params):
        if item.name.value == parameter and isinstance(item.annotation, cst.Annotation):
            annotation = item.annotation.annotation
            if isinstance(annotation, cst.Name):
                return {"int": "int", "float": "float", "bool": "bool", "str": "str"}.get(annotation.value, "guess")
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


@calls("simple_parsing.parse", "simple_parsing.ArgumentParser")
def simple_parsing(call: Call) -> Abstract:
    cls = call.machine.resolve(call.arguments.get("config_class", 0) or NONE)
    if isinstance(cls, Class):
        from t4lint.interpret.calls import instantiate

        return instantiate(call.machine, cls, Arguments(keywords=class_flags(call.machine, cls)))
    from t4lint.libraries.arguments import parser

    return parser(call)
