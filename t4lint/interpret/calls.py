"""Calls: entering the project's functions, building its classes, handing the rest to the library models."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from t4lint.interpret import errors, expressions, statements
from t4lint.interpret.operators import tensor_of, unknown_from
from t4lint.interpret.values import (
    NONE,
    PRESUMED,
    Abstract,
    Bound,
    Choice,
    Class,
    DictValue,
    Function,
    Instance,
    ListValue,
    Object,
    Partial,
    Scope,
    Symbol,
    Tensor,
    Unknown,
    with_origin,
)
from t4lint.libraries import registry
from t4lint.libraries.api import Arguments

if TYPE_CHECKING:
    from t4lint.interpret.machine import Machine

NETWORK_BASES = (
    "torch.nn.Module",
    "torch.nn.modules.module.Module",
    "transformers.PreTrainedModel",
    "lightning.pytorch.LightningModule",
    "diffusers.ModelMixin",
)


def call(m: Machine, callee: Abstract, arguments: Arguments) -> Abstract:
    """Call a value."""
    m.tick()
    callee = m.resolve(callee)
    if isinstance(callee, Choice):
        choice = callee
        yes, no = m.fork(choice.test, lambda: call(m, choice.yes, arguments), lambda: call(m, choice.no, arguments))
        joined: Abstract = m.joined(choice.test, yes, no)
        return joined
    if isinstance(callee, Function):
        if not arguments.positional and not arguments.keywords and registry.is_command(callee):
            return registry.enter_command(m, callee)
        return enter(m, callee, arguments)
    if isinstance(callee, Bound):
        if isinstance(callee.method, Function):
            return enter(m, callee.method, arguments, callee.receiver)
        return m.method(callee.receiver, callee.method, arguments)
    if isinstance(callee, Class):
        return instantiate(m, callee, arguments)
    if isinstance(callee, Partial):
        merged = Arguments(
            callee.arguments + arguments.positional, {**callee.keywords, **arguments.keywords}, arguments.open
        )
        return call(m, callee.function, merged)
    if isinstance(callee, Symbol):
        return registry.call_symbol(m, callee.name, arguments)
    if isinstance(callee, Instance):
        return call_instance(m, callee, arguments)
    if isinstance(callee, Object):
        return m.method(callee, "__call__", arguments)
    if isinstance(callee, Tensor):
        return callee
    return unresolved(m, callee, arguments)


def unresolved(m: Machine, callee: Abstract, arguments: Arguments) -> Abstract:
    """A call that cannot be followed: its result is unknown, and it may do anything with what it was given."""
    from t4lint.libraries.torch import hand_over, math_unseen

    reason = callee.reason if isinstance(callee, Unknown) else "the function is not known"
    hand_over(m, reason, arguments)
    if any(isinstance(value, Object) and value.kind == "namespace" for value in arguments.values()):
        m.globals["$namespace handed"] = True
    tensors = [value for value in arguments.values() if isinstance(value, Tensor)]
    if tensors:
        m.globals.setdefault("$handed", set()).update(*(tensor.facts.kept for tensor in tensors))
        facts = tensor_of(*tensors).facts
        if facts.models:  # a loss function, as a rule: it computes on what the model gave
            return Tensor(facts)
        asked = m.autocast_dtype()
        math, why = math_unseen(m, asked)
        facts = facts.but(math=facts.math | {math}, math_origins=facts.math_origins or why)
        around = m.globals.get("$model") if m.in_forward else None
        models = facts.models | {around.uid} if around is not None and math != "?" else facts.models
        return Tensor(facts.but(models=models, autocast=facts.autocast | {asked}, device="", graph=m.grad))
    varies = any(isinstance(value, Unknown) and value.varies for value in arguments.values())
    uid = unknown_from("call", callee, *arguments.values()).uid if not m.loops else ""
    return Unknown(reason, varies=varies or bool(m.loops), uid=uid, autocast=m.autocast_dtype())


# --- functions of the project ------------------------------------------------------------------------------------


def enter(m: Machine, function: Function, arguments: Arguments, receiver: Abstract | None = None) -> Abstract:
    """Enter a function of the project; its result, or unknown beyond the budget."""
    from t4lint.interpret.machine import MAX_DEPTH, MAX_ENTRIES, MAX_SMALL_ENTRIES, Frame

    key = id(function.node)
    m.entered.add(key)
    active = sum(1 for frame in m.frames if frame.function is not None and frame.function.node is function.node)
    often = m.entries.get(key, 0)
    if often >= MAX_ENTRIES and not (often < MAX_SMALL_ENTRIES and is_small(function)):
        often = MAX_SMALL_ENTRIES
    if len(m.frames) >= MAX_DEPTH or active >= 2 or often >= MAX_SMALL_ENTRIES:
        m.notes.append(f"{function.name} was not entered again")
        return beyond(m, function, arguments, receiver)
    m.entries[key] = often + 1
    scope = Scope(function.scope)
    static = any(isinstance(d, Symbol) and d.name == "builtins.staticmethod" for d in function.decorators)
    if receiver is not None and not static:
        positional = (receiver, *arguments.positional)
        arguments = Arguments(positional, arguments.keywords, arguments.open, arguments.uncalled)
    bind_parameters(m, function, arguments, scope)
    path, control, regions, choosing, last = m.path, m.control, len(m.regions), m.choosing, m.last
    m.choosing = ()
    ends = m.last and bool(m.frames) and m.frames[-1].ends
    frame = Frame(function.source, scope, function, receiver, loops=len(m.loops), ends=ends, forks=m.forks)
    m.last = True
    m.frames.append(frame)
    grad = m.grad
    try:
        for decorator in function.decorators:
            region = registry.decorator_region(m, decorator)
            if region is not None:
                m.regions.append(region)
                registry.entered(m, region)
        if isinstance(function.node, ast.Lambda):
            return expressions.evaluate(m, function.node.body)
        completion = statements.run(m, function.node.body)
        return _result(m, frame, completion)
    finally:
        m.frames.pop()
        m.path, m.control, m.grad, m.choosing, m.last = path, control, grad, choosing, last
        del m.regions[regions:]


def is_small(function: Function) -> bool:
    """A few statements without a loop: what registers a class, looks a setting up, or names a rank."""
    if isinstance(function.node, ast.Lambda):
        return True
    nodes = list(ast.walk(function.node))
    if any(isinstance(node, (ast.For, ast.While, ast.AsyncFor)) for node in nodes):
        return False
    return sum(isinstance(node, ast.stmt) for node in nodes) <= MAX_SMALL


MAX_SMALL = 12  # statements


def _result(m: Machine, frame: object, completion: object) -> Abstract:
    pending = frame.pending  # type: ignore[attr-defined]
    yields = frame.yields  # type: ignore[attr-defined]
    if yields:
        streams = frame.streams or bool(pending)  # type: ignore[attr-defined]
        return ListValue(tuple(yields[:4]), "list", complete=not streams and len(yields) <= 4)
    value: Abstract
    if isinstance(completion, statements.Return):
        value = completion.value
    elif completion is statements.DEAD:
        if not pending:
            return errors.result(m, frame.function) or expressions.NEVER  # type: ignore[attr-defined]
        value = pending.pop()[2]
    else:
        value = NONE
    for test, side, early in reversed(pending):
        value = m.joined(test, early, value) if side else m.joined(test, value, early)
    return value


def beyond(m: Machine, function: Function, arguments: Arguments, receiver: Abstract | None) -> Abstract:
    """The result of a call that is not entered: tensors pass through, anything else is unknown."""
    for value in arguments.values():
        if isinstance(value, Tensor):
            return tensor_of(value)
    return Unknown(f"{function.name} is called more deeply or more often than t4lint follows", varies=bool(m.loops))


def bind_parameters(m: Machine, function: Function, arguments: Arguments, scope: Scope) -> None:
    """Bind arguments to parameters; what is missing gets its default, or is unknown."""
    parameters = function.node.args
    names = [parameter.arg for parameter in (*parameters.posonlyargs, *parameters.args)]
    keywords = dict(arguments.keywords)
    for position, name in enumerate(names):
        if position < len(arguments.positional):
            scope.names[name] = arguments.positional[position]
        else:
            scope.names[name] = keywords.pop(name) if name in keywords else missing(m, function, name, arguments)
    for parameter in parameters.kwonlyargs:
        name = parameter.arg
        scope.names[name] = keywords.pop(name) if name in keywords else missing(m, function, name, arguments)
    if parameters.vararg is not None:
        rest = tuple(arguments.positional[len(names) :])
        scope.names[parameters.vararg.arg] = ListValue(rest, "tuple", not arguments.open)
    if parameters.kwarg is not None:
        scope.names[parameters.kwarg.arg] = DictValue(dict(keywords), not arguments.open)


def missing(m: Machine, function: Function, name: str, arguments: Arguments) -> Abstract:
    if function.decorators and (given := registry.provided(m, function, name)) is not None:
        return given
    if arguments.uncalled and name in function.defaults:
        return with_origin(function.defaults[name], PRESUMED)
    if arguments.uncalled:
        return Unknown(f"nothing in the project calls {function.name}", uid=f"parameter {id(function.node)} {name}")
    if arguments.open:
        return Unknown(f"{name} may be given by star-arguments that are not known")
    return function.defaults.get(name) or Unknown(
        f"the parameter {name} of {function.name}", uid=f"parameter {id(function.node)} {name}"
    )


# --- classes of the project --------------------------------------------------------------------------------------


def is_network(cls: Class) -> bool:
    return any(base in NETWORK_BASES or base.startswith("torch.nn.") for base in cls.library_bases())


def instantiate(m: Machine, cls: Class, arguments: Arguments) -> Abstract:
    """Build an object of a class of the project."""
    from t4lint.libraries import classes

    built = registry.instantiate_subclass(m, cls, arguments)
    if built is not None:
        return built
    if classes.is_enumeration(cls):
        return classes.member_of(m, cls, arguments.get("value", 0) or NONE)
    instance = Instance(cls)
    if not arguments.uncalled:
        remember(m, instance)
    if is_network(cls):
        from t4lint.libraries.torch import new_network

        new_network(m, instance)
    initialiser = cls.find("__init__")
    if isinstance(initialiser, Function):
        enter(m, initialiser, arguments, instance)
    elif classes.is_dict(cls):
        classes.fill_dict(m, instance, arguments)
    elif base := registry.extended(cls):
        m.write(instance.attributes, "$part", registry.call_symbol(m, base, arguments))
    elif is_dataclass(cls) or classes.is_record(cls):
        fill_fields(m, instance, cls, arguments)
        after = cls.find("__post_init__")
        if isinstance(after, Function):
            enter(m, after, Arguments(), instance)
    return instance


def remember(m: Machine, instance: Instance) -> None:
    """The program makes one of this class: methods that it does not call are seen on that object (`enter_uncalled`)."""
    for base in instance.cls.lineage():
        if isinstance(base, Class):
            m.entered.add(id(base.node))
            m.globals.setdefault("$made", {}).setdefault(id(base.node), []).append(instance)


def is_dataclass(cls: Class) -> bool:
    return any(isinstance(base, Class) and base.dataclass for base in cls.lineage())


def fill_fields(m: Machine, instance: Instance, cls: Class, arguments: Arguments) -> None:
    from t4lint.libraries import classes

    for position, (name, default) in enumerate(cls.fields.items()):
        value = arguments.get(name, position)
        if value is None:
            value = default if default is not None else Unknown(f"the field {name} of {cls.name} is required")
            if arguments.open:
                value = Unknown(f"{name} may be given by star-arguments that are not known")
        m.write(instance.attributes, name, classes.converted(m, cls, name, value))


def call_instance(m: Machine, instance: Instance, arguments: Arguments) -> Abstract:
    method = instance.cls.find("__call__")
    if isinstance(method, Function):
        return enter(m, method, arguments, instance)
    if is_network(instance.cls):
        from t4lint.libraries.torch import forward

        return forward(m, instance, arguments)
    return unresolved(m, Unknown(f"{instance.cls.name} cannot be called"), arguments)


def enter_uncalled(m: Machine, functions: Sequence[Function]) -> None:
    """Enter functions that nothing called, with unknown arguments: what they say by themselves still counts."""
    for function in functions:
        if id(function.node) in m.entered:
            continue
        receiver: Abstract | None = None
        if function.owner is not None:
            receiver = m.globals.get(f"instance {id(function.owner)}")
            if receiver is None:
                receiver = uncalled_instance(m, function.owner)
                m.globals[f"instance {id(function.owner)}"] = receiver
            if id(function.node) in m.entered:
                continue
        with m.at(function.source, function.node):
            enter(m, function, Arguments(registry.handed(function), open=True, uncalled=True), receiver)


def uncalled_instance(m: Machine, cls: Class) -> Abstract:
    """The object of a method that nothing calls: the only one that the run made, else one as the class makes it.

    Where programs make some, their calls say what it is made with, and its defaults say nothing.
    """
    made = m.globals.get("$made", {}).get(id(cls.node), ())
    if len(made) == 1:
        return made[0]  # type: ignore[no-any-return]
    with m.at(cls.source, cls.node):
        value = instantiate(m, cls, Arguments(open=True, uncalled=id(cls.node) not in m.entered))
    return value if isinstance(value, (Instance, Object)) else Instance(cls)
