"""sacred: the configuration of an experiment, and the functions that take their arguments from it.

Read in 0.8.7: `Ingredient.config`, `add_config` and `capture` (sacred/ingredient.py), `Experiment.main`, `automain`, `run` and
`run_commandline` (sacred/experiment.py), `ConfigScope` (sacred/config/config_scope.py).
"""

from __future__ import annotations

import ast
from typing import Any

from t4lint.interpret.values import NONE, Abstract, Const, DictValue, Function, Object, Scope, Unknown
from t4lint.libraries.api import Arguments, Call, calls, methods

GIVEN = frozenset({"_run", "_log", "_seed", "_rnd"})  # what sacred hands to functions that ask for it
DECORATORS = ("config", "named_config", "capture", "main", "automain", "command", "pre_run_hook", "post_run_hook")


@calls("sacred.Experiment", "sacred.Ingredient")
def experiment(call: Call) -> Abstract:
    made = Object("experiment", call.name)
    made.attributes.update({"$parts": [], "$main": None})
    return made


@methods("experiment", "getattr")
def member(call: Call) -> Abstract:
    """`@ex.config` and the other decorators; what else an experiment has is not looked into."""
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    if name in DECORATORS:
        return Object("experiment decorator", f"sacred.{name}", {"$experiment": call.receiver, "$how": Const(name)})
    return Unknown(f"{name} of the experiment")


def decorated(call: Call) -> Abstract:
    """`@ex.capture(prefix="data")`, or `ex.main(function)`."""
    decorator = member(
        Call(call.machine, call.name, Arguments((Const(call.name.rpartition(".")[2]),)), None, call.receiver)
    )
    function = call.arguments.get("function", 0)
    if isinstance(function, Function):
        function.decorators = (decorator, *function.decorators)
        decorate(Call(call.machine, "decorate", Arguments((function,)), None, decorator))
        return function
    return decorator


@methods("experiment decorator", "decorate")
def decorate(call: Call) -> Abstract:
    m, owner = call.machine, call.receiver.attributes["$experiment"]
    function, how = call.arguments.positional[0], call.receiver.attributes["$how"].value
    if how == "config":
        owner.attributes["$parts"].append(function)
    if how in ("main", "automain"):
        owner.attributes["$main"] = function
    if how == "automain" and len(m.frames) == 1:
        start(m, owner)
    return NONE


@methods("experiment", "add_config")
def add_config(call: Call) -> Abstract:
    """A dict, a file, or names with values."""
    from t4lint.libraries.configs import load_file

    m, first = call.machine, call.arguments.get("cfg_or_file", 0)
    value = m.resolve(first) if first is not None else DictValue(dict(call.arguments.keywords))
    if isinstance(value, Const) and isinstance(value.value, str):
        value = load_file(m, value.value) or Unknown("the configuration file")
    call.receiver.attributes["$parts"].append(value)
    return NONE


@methods("experiment", "run", "run_commandline")
def run(call: Call) -> Abstract:
    return start(call.machine, call.receiver)


@methods("experiment", "*")
def other(call: Call) -> Abstract:
    return decorated(call) if call.name.rpartition(".")[2] in DECORATORS else NONE


def start(m: Any, owner: Object) -> Abstract:
    """Run the main function with what the configuration and the command line give."""
    main = owner.attributes["$main"]
    return m.call(main, Arguments()) if isinstance(main, Function) else NONE


def configuration(m: Any, owner: Object) -> DictValue:
    """All parts in their order, and what the words behind `with` say."""
    from t4lint.libraries.configs import overrides

    parts = tuple(owner.attributes["$parts"])
    if "$config" in owner.attributes and owner.attributes["$of"] == len(parts):
        return owner.attributes["$config"]  # type: ignore[no-any-return]
    result = DictValue()
    owner.attributes.update({"$config": result, "$of": len(parts)})
    for part in parts:
        value = named_in(m, part, result) if isinstance(part, Function) else part
        if isinstance(value, DictValue):
            result.items.update(value.items)
            result.state["complete"] = result.complete and value.complete
        else:
            result.state["complete"] = False
    texts = [word.text for word in m.arguments]
    if "with" in texts:
        overrides(m, result, m.arguments[texts.index("with") + 1 :])
    return result


def named_in(m: Any, function: Function, before: DictValue) -> DictValue:
    """The names that a `@ex.config` function gives values to."""
    from t4lint.interpret import calls as entering
    from t4lint.interpret import statements
    from t4lint.interpret.machine import Frame

    scope, node = Scope(function.scope), function.node
    if isinstance(node, ast.Lambda):
        return DictValue()
    names = {argument.arg for argument in node.args.args}
    given = {name: before.items[name] for name in names if name in before.items}
    entering.bind_parameters(m, function, Arguments(keywords=given), scope)
    m.entered.add(id(node))
    m.frames.append(Frame(function.source, scope, function, loops=len(m.loops), forks=m.forks))
    try:
        statements.run(m, node.body)
    finally:
        m.frames.pop()
    return DictValue({name: value for name, value in scope.names.items() if not name.startswith("_")})


def provided(m: Any, function: Function, name: str) -> Abstract | None:
    """What a captured function gets for an argument that its caller does not give."""
    for decorator in function.decorators:
        if isinstance(decorator, Object) and decorator.kind == "experiment decorator":
            found = configuration(m, decorator.attributes["$experiment"])
            if name == "_config":
                return found
            if name in GIVEN:
                return Unknown(f"{name} of sacred")
            if name in found.items:
                value: Abstract = m.resolve(found.items[name])
                return value
    return None
