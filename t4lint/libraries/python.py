"""Builtins and the standard library, as far as training programs use them to decide their settings."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from t4lint.devices import find_target
from t4lint.interpret.expressions import Elements, chosen_by, element_of, hashable, iterate, set_of, varying
from t4lint.interpret.keeping import appended, grows
from t4lint.interpret.operators import origins_of, tensor_of, unknown_from
from t4lint.interpret.values import (
    LOCAL_RANK,
    NONE,
    PER_PROCESS,
    RANK,
    Abstract,
    Bound,
    Choice,
    Class,
    Const,
    DictValue,
    Function,
    Instance,
    ListValue,
    Object,
    Partial,
    Step,
    Symbol,
    Tensor,
    Unknown,
)
from t4lint.libraries.api import Arguments, Call, attribute, calls, methods
from t4lint.libraries.classes import contents, is_dict, namespace_of, pairs
from t4lint.libraries.paths import path_method
from t4lint.sources.gpus import shows_none
from t4lint.trace import EnvironmentVariable, Exit, Predicate

# --- conversions -------------------------------------------------------------------------------------------------

CONVERSIONS = {"int": int, "float": float, "str": str, "bool": bool, "abs": abs, "round": round, "tuple": tuple}


@calls("builtins.int", "builtins.float", "builtins.str", "builtins.abs", "builtins.round")
def convert(call: Call) -> Abstract:
    function = CONVERSIONS[call.name.rpartition(".")[2]]

    def apply(value: Abstract) -> Abstract:
        if isinstance(value, Const):
            try:
                rest = [v.value for v in call.arguments.positional[1:] if isinstance(v, Const)]
                return Const(function(value.value, *rest), value.origins, value.varies)  # type: ignore[operator]
            except Exception:
                return unknown_from(call.name, value)
        if isinstance(value, Tensor):
            if call.name in ("builtins.int", "builtins.float"):
                from t4lint.libraries.torch import read_on_host

                read_on_host(call.machine, call.name.rpartition(".")[2], value.facts)
            return Unknown("a number from a tensor", varies=True)
        return unknown_from(call.name, value)

    if not call.arguments.positional:
        return Const(function())  # type: ignore[operator]
    result: Abstract = call.machine.mapped(call.arguments.positional[0], apply)
    return result


@calls("builtins.bool")
def convert_bool(call: Call) -> Abstract:
    value = call.argument("x", 0)
    decided = call.machine.truth(value)
    return Const(decided, value.origins) if decided is not None else value


@calls("builtins.len")
def length(call: Call) -> Abstract:
    value = call.argument("obj", 0)
    if isinstance(value, Const) and isinstance(value.value, (str, tuple, range)):
        return Const(len(value.value), value.origins)
    if isinstance(value, ListValue) and value.complete:
        return Const(len(value.items))
    if isinstance(value, DictValue) and value.complete:
        return Const(len(value.items))
    return Unknown("a length", uid=f"len {id(value)}")


@calls("builtins.range")
def range_(call: Call) -> Abstract:
    numbers = [call.machine.resolve(value) for value in call.arguments.positional]
    if all(isinstance(number, Const) and isinstance(number.value, int) for number in numbers) and numbers:
        try:
            return Const(range(*(number.value for number in numbers)), origins_of(*numbers))
        except (TypeError, ValueError):
            return Unknown("a range")
    return Object("range", "builtins.range")


@methods("range", "iter")
def range_elements(call: Call) -> Abstract:
    return with_elements(counted(varying("a number of a range"), None))


def counted(any_number: Abstract, count: int | None) -> Elements:
    return Elements(
        None, any_number, stream=True, count=count, number=lambda n: Const(n, varies=True), any_number=any_number
    )


class _Iterable(Unknown):
    """Carries the elements of a library iterable to the loop that asked for them."""

    __slots__ = ("elements",)

    def __init__(self, elements: Elements) -> None:
        super().__init__("elements")
        self.elements = elements


def with_elements(elements: Elements) -> Abstract:
    return _Iterable(elements)


@calls("builtins.enumerate")
def enumerate_(call: Call) -> Abstract:
    start = call.argument("start", 1, Const(0))
    first = start.value if isinstance(start, Const) and isinstance(start.value, int) else 0
    return Object(
        "enumeration", "builtins.enumerate", {"iterable": call.argument("iterable", 0), "start": Const(first)}
    )


@methods("enumeration", "iter")
def enumeration(call: Call) -> Abstract:
    inner = iterate(call.machine, call.receiver.attributes["iterable"])
    first = call.receiver.attributes["start"].value
    if inner.known is not None and not inner.stream:
        pairs = [ListValue((Const(first + n), value), "tuple") for n, value in enumerate(inner.known)]
        return with_elements(
            Elements(pairs, ListValue((varying("an index"), inner.any_element), "tuple"), count=len(pairs))
        )
    return with_elements(
        Elements(
            None,
            ListValue((varying("an index"), inner.any_element), "tuple"),
            stream=True,
            count=inner.count,
            number=lambda n: ListValue((Const(first + n, varies=True), inner.at(n)), "tuple"),
            any_number=ListValue((varying("an index"), inner.later()), "tuple"),
        )
    )


@calls("builtins.zip", "itertools.zip_longest")
def zip_(call: Call) -> Abstract:
    return Object("zip", "builtins.zip", {"parts": ListValue(call.arguments.positional)})


@methods("zip", "iter")
def zipped(call: Call) -> Abstract:
    parts = [iterate(call.machine, part) for part in call.receiver.attributes["parts"].items]
    if parts and all(part.known is not None and not part.stream for part in parts):
        rows = [ListValue(row, "tuple") for row in zip(*[part.known or [] for part in parts], strict=False)]
        return with_elements(Elements(rows, Unknown("a row", varies=True), count=len(rows)))
    row = ListValue(tuple(part.any_element for part in parts), "tuple")
    return with_elements(
        Elements(
            None,
            row,
            stream=True,
            number=lambda n: ListValue(tuple(part.at(n) for part in parts), "tuple"),
            any_number=ListValue(tuple(part.later() for part in parts), "tuple"),
        )
    )


MAX_CYCLE = 64  # elements


@calls("itertools.cycle")
def cycle(call: Call) -> Abstract:
    """Numbers over and over, beside the batches of a loader: where in an accumulation window the iteration is."""
    value: Abstract = call.machine.resolve(call.argument("iterable", 0))
    elements = iterate(call.machine, value)
    items = [item for item in elements.known or () if isinstance(item, Const)]
    if elements.known is None or elements.stream or not 0 < len(items) <= MAX_CYCLE or len(items) < len(elements.known):
        return value
    return Object("cycle", call.name, {"items": ListValue(tuple(items))})


@methods("cycle", "iter")
def cycled(call: Call) -> Abstract:
    items = call.receiver.attributes["items"].items
    some = varying("an element of a cycle")
    number = lambda n: Const(items[n % len(items)].value, varies=True)  # noqa: E731
    return with_elements(Elements(None, some, stream=True, number=number, any_number=some))


@calls(
    "tqdm.*",
    "tqdm",
    "rich.progress.track",
    "fastprogress.progress_bar",
    "builtins.iter",
    "builtins.reversed",
    "builtins.sorted",
)
def transparent(call: Call) -> Abstract:
    """Progress bars and iterators: the loop runs over what they were given."""
    value = call.arguments.get("iterable", 0)
    if call.name == "tqdm.trange" or call.name.endswith(".trange"):
        return range_(call)
    if value is None:
        return Object("progress bar", call.name)
    value = call.machine.resolve(value)
    if call.name == "builtins.sorted":
        return ordered(call, value)
    if isinstance(value, ListValue):
        items = value.items[::-1] if call.name == "builtins.reversed" else value.items
        return ListValue(items, value.kind, value.complete)
    given: Abstract = value
    return given


def ordered(call: Call, value: Abstract) -> Abstract:
    """`sorted(...)` of constants that can be compared; of anything else the elements in some order."""
    elements = iterate(call.machine, value)
    if elements.known is None or elements.stream:
        return value
    items = list(elements.known)
    descending = call.machine.truth(call.arguments.get("reverse") or Const(False))
    if (
        "key" not in call.arguments.keywords
        and all(isinstance(part, Const) for part in items)
        and descending is not None
    ):
        try:
            return ListValue(tuple(sorted(items, key=lambda part: part.value, reverse=descending)))  # type: ignore[attr-defined]
        except TypeError:
            pass
    if len(items) <= 1:
        return ListValue(tuple(items))
    return ListValue((Unknown("an element of a sorted list", varies=True),), complete=False)


@methods("progress bar", "*")
def progress(call: Call) -> Abstract:
    return NONE


@calls("builtins.next")
def next_(call: Call) -> Abstract:
    value = call.argument("iterator", 0)
    elements: Elements = iterate(call.machine, value)
    if isinstance(value, ListValue) and elements.known is not None and not call.machine.loops:
        taken: int = value.state.get("taken", 0)
        call.machine.write(value.state, "taken", taken + 1)
        if taken < len(elements.known):
            return elements.known[taken]
        return call.argument("default", 1) if call.given("default", 1) else elements.any_element
    return elements.any_element


MAX_NUMBERS = 16  # of a range that is made a list of, such as the GPUs of a machine


@calls("builtins.list", "builtins.tuple", "builtins.set", "builtins.frozenset")
def sequence(call: Call) -> Abstract:
    kind = call.name.rpartition(".")[2].replace("frozen", "")
    if not call.arguments.positional:
        result = ListValue((), kind)
        if call.machine.loops:
            result.state["loop"] = call.machine.loops[-1].identity
        return result
    numbers = call.machine.resolve(call.arguments.positional[0])
    if isinstance(numbers, Const) and isinstance(numbers.value, range) and len(numbers.value) <= MAX_NUMBERS:
        return ListValue(tuple(Const(number, numbers.origins) for number in numbers.value), kind)
    elements = iterate(call.machine, numbers)
    if elements.known is not None and not elements.stream:
        return set_of(elements.known) if kind == "set" else ListValue(tuple(elements.known), kind)
    return ListValue((elements.any_element,), kind, complete=False)


@calls("builtins.dict", "collections.OrderedDict", "collections.defaultdict")
def dict_(call: Call) -> Abstract:
    result = DictValue(dict(call.arguments.keywords), not call.arguments.open)
    first = call.arguments.get("", 0)
    if first is not None and call.name != "collections.defaultdict":
        value = call.machine.resolve(first)
        if isinstance(value, DictValue):
            result.items = {**value.items, **result.items}
            result.state["complete"] = result.complete and value.complete
        elif isinstance(value, Object) and value.kind == "namespace":
            result.items = {**{k: v for k, v in value.attributes.items() if isinstance(v, Abstract)}, **result.items}
        elif isinstance(value, Instance) and is_dict(value.cls):
            result.items = {**contents(call.machine, value).items, **result.items}
        elif (found := pairs(call.machine, value)) is not None:
            result.items = {**found.items, **result.items}
        else:
            result.state["complete"] = False
    return result


@calls("builtins.min", "builtins.max", "builtins.sum", "builtins.pow", "builtins.divmod")
def extreme(call: Call) -> Abstract:
    values = [call.machine.resolve(value) for value in call.arguments.positional]
    if len(values) == 1 and isinstance(values[0], ListValue) and values[0].complete:
        values = [call.machine.resolve(value) for value in values[0].items]
    function: Any = {"min": min, "max": max, "sum": lambda *v: sum(v), "pow": lambda a, b: a**b, "divmod": divmod}[
        call.name.rpartition(".")[2]
    ]
    parts = [part for value in values for part in (value.items if isinstance(value, ListValue) else (value,))]
    tensors = [part for part in parts if isinstance(part, Tensor)]
    if tensors:
        return tensor_of(*tensors)
    if (
        any(isinstance(value, Const) and isinstance(value.value, (range, str, bytes)) for value in values)
        and len(values) == 1
    ):
        return unknown_from(call.name, *values)
    small = all(
        isinstance(value, Const) and isinstance(value.value, (int, float)) and abs(value.value) < 10**6
        for value in values
    )
    if (
        values
        and (small or call.name in ("builtins.min", "builtins.max"))
        and all(isinstance(v, Const) for v in values)
    ):
        try:
            return Const(function(*(value.value for value in values)), origins_of(*values))
        except Exception:
            return unknown_from(call.name, *values)
    if any(isinstance(value, Choice) for value in values) and len(values) == 2:
        m = call.machine

        def pick(a: Abstract, b: Abstract) -> Abstract:
            if isinstance(a, Const) and isinstance(b, Const):
                try:
                    return Const(function(a.value, b.value), origins_of(a, b))
                except Exception:
                    return unknown_from(call.name, a, b)
            return unknown_from(call.name, a, b)

        result: Abstract = m.mapped(values[0], lambda a: m.mapped(values[1], lambda b: pick(a, b)))
        return result
    return unknown_from(call.name, *values)


@calls("builtins.any", "builtins.all")
def any_all(call: Call) -> Abstract:
    value = call.argument("iterable", 0)
    if isinstance(value, ListValue):
        verdicts = [call.machine.truth(item) for item in value.items]
        wanted = call.name == "builtins.any"
        if wanted in verdicts and not value.maybe:
            return Const(wanted, value.items[verdicts.index(wanted)].origins)
        if value.complete and None not in verdicts:
            return Const(not wanted, origins_of(*value.items))
    return unknown_from(call.name, value)


@calls("builtins.isinstance", "builtins.issubclass")
def is_instance(call: Call) -> Abstract:
    value = call.argument("object", 0)
    types = call.argument("types", 1)
    options = types.items if isinstance(types, ListValue) else (types,)
    verdicts = [_is_a(value, option) for option in options]
    if True in verdicts:
        return Const(True)
    return Const(False) if None not in verdicts else unknown_from("isinstance", value, *options)


BUILTIN_TYPES = frozenset({"list", "tuple", "set", "dict", "str", "int", "float", "bool", "bytes"})
# kinds of library objects that are none of these, whatever they hold
NO_BUILTIN = frozenset({"namespace", "parser", "module", "model", "optimizer", "loader", "scaler"})
PYTHON_TYPES = {"str": str, "int": int, "float": float, "bool": bool, "bytes": bytes}


def _is_a(value: Abstract, option: Abstract) -> bool | None:
    if isinstance(option, Class):
        if isinstance(value, Instance):
            return option in tuple(value.cls.lineage())
        return False if isinstance(value, (Const, ListValue, DictValue, Tensor)) else None
    name = option.name if isinstance(option, Symbol) else ""
    short = name.removeprefix("builtins.")
    if isinstance(value, (Const, ListValue, DictValue)) and name.rpartition(".")[2] in ("Mapping", "MutableMapping"):
        return isinstance(value, DictValue)
    if isinstance(value, Const) and name:
        return isinstance(value.value, PYTHON_TYPES[short]) if short in PYTHON_TYPES else name == "builtins.object"
    if isinstance(value, ListValue) and short in ("list", "tuple", "set", "dict", "str", "int", "float"):
        return value.kind == short
    if isinstance(value, DictValue) and short in ("list", "tuple", "set", "dict", "str", "int", "float"):
        return short == "dict"
    if isinstance(value, Object) and name:
        if short in BUILTIN_TYPES and value.kind in NO_BUILTIN:
            return False
        return True if value.name == name else None
    return None


@calls("builtins.callable")
def is_callable(call: Call) -> Abstract:
    value = call.argument("object", 0)
    if isinstance(value, (Function, Class, Bound, Partial)) or getattr(value, "name", "").startswith("builtins."):
        return Const(True)
    if isinstance(value, (Const, ListValue, DictValue)):
        return Const(False)
    return unknown_from("callable", value)


@calls("builtins.hasattr")
def has_attribute(call: Call) -> Abstract:
    value, name = call.argument("object", 0), call.argument("name", 1)
    if isinstance(name, Const) and isinstance(value, (Instance, Object)):
        if name.value in value.attributes:
            return Const(True)
        if isinstance(value, Instance):
            if value.cls.find(name.value) is not None:
                return Const(True)
            if not value.cls.library_bases():
                return Const(False)
    if isinstance(name, Const) and isinstance(value, Symbol):
        there = call.machine.has(f"{value.name}.{name.value}")
        if there is not None:
            return Const(there, (call.machine.here("version", f"{value.name}.{name.value}"),))
    if isinstance(name, Const) and isinstance(value, Bound) and name.value in ("__func__", "__self__"):
        return Const(True)
    return unknown_from("hasattr", value, name)


@calls("builtins.getattr")
def get_attribute(call: Call) -> Abstract:
    value, name = call.argument("object", 0), call.argument("name", 1)
    if isinstance(name, Const) and isinstance(name.value, str):
        if call.given("default", 2) and isinstance(value, Object) and value.kind == "namespace":
            if name.value not in value.attributes and not value.attributes.get("$open"):
                return call.argument("default", 2)
        if call.given("default", 2) and isinstance(value, Instance) and not value.cls.library_bases():
            if name.value not in value.attributes and value.cls.find(name.value) is None:
                return call.argument("default", 2)
        result: Abstract = call.machine.attribute(value, name.value)
        return chosen_by(name, result, written=True) if isinstance(value, Symbol) and name.origins else result
    return unknown_from("getattr", value, name)


@calls("builtins.setattr")
def set_attribute_(call: Call) -> Abstract:
    from t4lint.interpret.statements import set_attribute

    name = call.argument("name", 1)
    if isinstance(name, Const) and isinstance(name.value, str):
        set_attribute(call.machine, call.argument("object", 0), name.value, call.argument("value", 2))
    return NONE


@calls("builtins.vars", "copy.copy", "copy.deepcopy", "typing.cast")
def same_thing(call: Call) -> Abstract:
    value = call.argument("object", 1 if call.name == "typing.cast" else 0)
    if call.name == "builtins.vars":
        names = namespace_of(value)
        if isinstance(names, DictValue) and isinstance(value, Object) and value.kind == "namespace":
            call.machine.write(names.state, "settings", True)
        return names or value
    if isinstance(value, (Instance, Object)) and call.name.startswith("copy."):
        if not call.machine.is_module(value):
            return copied(value)
        return network_copied(call.machine, value, {}) if call.name == "copy.deepcopy" else value
    if isinstance(value, DictValue):
        return DictValue(dict(value.items), value.complete)
    if isinstance(value, ListValue):
        return ListValue(value.items, value.kind, value.complete)
    return value


def copied(value: Abstract) -> Abstract:
    """A copy of an object that only holds settings; what a library made keeps its identity."""
    if isinstance(value, Object):
        return Object(value.kind, value.name, dict(value.attributes)) if value.kind == "namespace" else value
    if isinstance(value, Instance):
        result = Instance(value.cls, value.origins)
        result.attributes = dict(value.attributes)
        return result
    return value


def network_copied(m: Any, value: Abstract, done: dict[int, Abstract]) -> Abstract:
    """A copy of a network with all of its parts, which has a mode and a place of its own: an average of the weights, a teacher."""
    value = m.resolve(value)
    if id(value) in done:
        return done[id(value)]
    if isinstance(value, ListValue):
        return ListValue(tuple(network_copied(m, it, done) for it in value.items), value.kind, value.complete)
    if isinstance(value, DictValue):
        return DictValue({key: network_copied(m, it, done) for key, it in value.items.items()}, value.complete)
    if not isinstance(value, (Instance, Object)) or not m.is_module(value):
        return value
    result = Instance(value.cls) if isinstance(value, Instance) else Object(value.kind, value.name)
    result.origins = value.origins
    done[id(value)] = result
    for name, part in value.attributes.items():
        result.attributes[name] = network_copied(m, part, done) if isinstance(part, Abstract) else part
    return result


@calls("builtins.super")
def super_(call: Call) -> Abstract:
    frame = call.machine.frames[-1]
    receiver = frame.receiver
    owner = frame.function.owner if frame.function is not None else None
    if receiver is None or owner is None:
        return Unknown("super() outside a method")
    return Object("super", "builtins.super", {"$receiver": receiver, "$owner": owner})


@methods("super", "*")
def super_method(call: Call) -> Abstract:
    receiver, owner = call.receiver.attributes["$receiver"], call.receiver.attributes["$owner"]
    name = call.name.rpartition(".")[2]
    lineage = list(receiver.cls.lineage()) if isinstance(receiver, Instance) else list(owner.lineage())
    after = lineage[lineage.index(owner) + 1 :] if owner in lineage else []
    for base in after:
        if isinstance(base, Class) and name in base.members:
            found = base.members[name]
            return call.machine.call(Bound(receiver, found) if isinstance(found, Function) else found, call.arguments)  # type: ignore[no-any-return]
    from t4lint.libraries import registry

    criterion = next((base.name for base in after if isinstance(base, Symbol) and base.name.endswith("Loss")), None)
    if criterion is not None and name in ("forward", "__call__"):  # torch's own loss, which the program's class adds to
        own: Abstract = call.machine.call(Symbol(criterion), Arguments())
        return call.machine.method(own, "__call__", call.arguments)  # type: ignore[no-any-return]
    builds = isinstance(receiver, Instance) and (is_dict(receiver.cls) or registry.extended(receiver.cls))
    if isinstance(receiver, Instance) and (name != "__init__" or builds):
        result = registry.call_instance_method(call.machine, receiver, name, call.arguments)
        if result is not None:
            return result
    if isinstance(receiver, Object) and name not in ("__init__", "__post_init__"):
        return registry.call_method(call.machine, receiver, name, call.arguments)
    return NONE


@methods("super", "getattr")
def super_attribute(call: Call) -> Abstract:
    return Bound(call.receiver, call.arguments.positional[0].value)  # type: ignore[attr-defined]


def read_by(m: Any, function: str, value: Abstract) -> None:
    """A function that reads the value of a tensor, without saying so."""
    from t4lint.libraries.torch import read_on_host

    if isinstance(value, Tensor) and value.facts.device == "cuda":
        read_on_host(m, function, value.facts)


@methods("unknown", "add_scalar", "add_scalars")
def add_scalar(call: Call) -> Abstract:
    """Of a TensorBoard writer, which ends in `.detach().cpu()` (torch 2.13, utils/tensorboard/_convert_np.py)."""
    from t4lint.interpret.calls import unresolved

    for value in call.arguments.values():
        read_by(call.machine, "add_scalar", value)
    name = call.name.rpartition(".")[2]
    return unresolved(call.machine, call.machine.attribute(call.receiver, name), call.arguments)


@calls("builtins.print", "builtins.exit", "builtins.quit", "sys.exit", "os._exit", "os.abort")
def print_or_exit(call: Call) -> Abstract:
    from t4lint.interpret.expressions import NEVER

    if call.name == "builtins.print":
        for value in call.arguments.positional:
            read_by(call.machine, "print", value)
        return NONE
    m = call.machine
    because = tuple(step for step in m.control if step.how == "target")
    if because and not m.catching and not m.uncalled:
        m.emit(Exit, reason=Const("the target", because))
    m.ended = "target" if because else "exit"
    return NEVER


@calls("builtins.type")
def type_(call: Call) -> Abstract:
    value = call.argument("object", 0)
    if isinstance(value, Instance):
        return value.cls
    if isinstance(value, Object):
        return Symbol(value.name)
    return unknown_from("type", value)


@calls("builtins.map", "builtins.filter")
def map_(call: Call) -> Abstract:
    function, iterable = call.argument("function", 0), call.argument("iterable", 1)
    elements = iterate(call.machine, iterable)
    if call.name == "builtins.map" and elements.known is not None and len(elements.known) <= 32:
        return ListValue(tuple(call.machine.call(function, Arguments((value,))) for value in elements.known))
    return ListValue((elements.any_element,), complete=False)


# --- strings, lists, dicts ---------------------------------------------------------------------------------------

PURE_STRING = {
    "lower", "upper", "strip", "lstrip", "rstrip", "startswith", "endswith", "replace", "removeprefix", "removesuffix",
    "title", "capitalize", "isdigit", "count", "find", "rfind", "index", "split", "rsplit", "partition", "rpartition", "join",
    "format", "zfill", "encode",
}  # fmt: skip


@methods("constant", "*")
def string_method(call: Call) -> Abstract:
    name = call.name.rpartition(".")[2]
    receiver: Const = call.receiver
    if isinstance(receiver.value, PurePath):
        return path_method(call)
    values = [call.machine.resolve(value) for value in call.arguments.positional]
    if name == "get" and not isinstance(receiver.value, str):
        return unknown_from(name, receiver, *values)
    named = {key: call.machine.resolve(value) for key, value in call.arguments.keywords.items()}
    if name in PURE_STRING and isinstance(receiver.value, str) and all(isinstance(v, Const) for v in named.values()):
        from t4lint.interpret.expressions import comparable

        plain = [comparable(value) for value in values]
        if (name == "format" and ":" in receiver.value) or name == "zfill":
            return unknown_from(name, receiver, *values)  # a width may ask for any number of characters
        if all(part is not None for part in plain) and len(receiver.value) < 10_000:
            try:
                keywords = {key: value.value for key, value in named.items() if isinstance(value, Const)}
                result = getattr(receiver.value, name)(*[part[0] for part in plain if part is not None], **keywords)
            except Exception:
                return unknown_from(name, receiver, *values)
            if isinstance(result, (list, tuple)):
                items = tuple(Const(item, receiver.origins) for item in result)
                return ListValue(items, "list" if isinstance(result, list) else "tuple")
            return Const(result, origins_of(receiver, *values))
    return unknown_from(name, receiver, *values)


def together(receiver: ListValue, *more: Abstract) -> tuple[Abstract, ...]:
    """The elements of a list or set after more of them were added."""
    items = (*receiver.items, *more)
    return set_of(items).items if receiver.kind == "set" else items


@methods(
    "list", "append", "add", "extend", "insert", "remove", "pop", "sort", "reverse", "clear", "index", "copy", "update"
)
def list_method(call: Call) -> Abstract:
    name = call.name.rpartition(".")[2]
    receiver: ListValue = call.receiver
    m = call.machine
    first = call.arguments.get("", 0)
    if name in ("append", "add") and first is not None:
        first = appended(m, receiver, first)
        if m.loops and len(receiver.items) >= 8:
            m.write(receiver.state, "complete", False)
        else:
            m.write(receiver.state, "items", together(receiver, first))
        return NONE
    if name in ("extend", "update") and first is not None:
        grows(m, receiver)
        elements = iterate(m, first)
        if elements.known is not None and not elements.stream:
            m.write(receiver.state, "items", together(receiver, *elements.known))
        else:
            m.write(receiver.state, "complete", False)
        return NONE
    if name == "insert" and len(call.arguments.positional) == 2:
        index = call.argument("index", 0)
        if isinstance(index, Const) and isinstance(index.value, int) and receiver.complete:
            items = list(receiver.items)
            items.insert(index.value, call.arguments.positional[1])
            m.write(receiver.state, "items", tuple(items))
            return NONE
    if name == "pop" and receiver.complete and receiver.items and not m.loops:
        index = call.argument("index", 0, Const(-1))
        if (
            isinstance(index, Const)
            and isinstance(index.value, int)
            and -len(receiver.items) <= index.value < len(receiver.items)
        ):
            items = list(receiver.items)
            taken = items.pop(index.value)
            m.write(receiver.state, "items", tuple(items))
            return taken
    if name == "copy":
        return ListValue(receiver.items, receiver.kind, receiver.complete)
    if name == "index":
        return place_in(m, receiver, m.resolve(first) if first is not None else NONE)
    if (
        name in ("sort", "reverse")
        and receiver.complete
        and not call.arguments.keywords
        and (ordered := in_order(m, receiver, name)) is not None
    ):
        m.write(receiver.state, "items", ordered)
        return NONE
    if name == "clear":
        m.write(receiver.state, "items", ())
        return NONE
    m.write(receiver.state, "complete", False)
    return element_of(m, receiver)


def place_in(m: Any, receiver: ListValue, wanted: Abstract) -> Abstract:
    """`names.index(name)`"""
    items = [m.resolve(item) for item in receiver.items]
    if isinstance(wanted, Const) and receiver.complete and all(isinstance(item, Const) for item in items):
        values = [item.value for item in items if isinstance(item, Const)]
        if wanted.value in values:
            return Const(values.index(wanted.value), wanted.origins)
    return unknown_from("index", receiver, wanted)


def in_order(m: Any, receiver: ListValue, how: str) -> tuple[Abstract, ...] | None:
    """The elements after `sort()` or `reverse()`; None where their order is not known."""
    if how == "reverse":
        return tuple(reversed(receiver.items))
    items = [item for item in map(m.resolve, receiver.items) if isinstance(item, Const)]
    if len(items) != len(receiver.items) or len({type(item.value) for item in items}) > 1:
        return None
    try:
        return tuple(sorted(items, key=lambda item: item.value))
    except TypeError:
        return None


@methods("dict", "get", "setdefault", "pop")
def dict_get(call: Call) -> Abstract:
    receiver: DictValue = call.receiver
    key = call.argument("key", 0)
    if isinstance(key, Const) and hashable(key.value):
        if key.value in receiver.items:
            found = receiver.items[key.value]
            if call.name.endswith("pop"):
                call.machine.erase(receiver.items, key.value)
            return found
        if receiver.complete:
            default = call.argument("default", 1)
            if call.name.endswith("setdefault"):
                call.machine.write(receiver.items, key.value, default)
            return default
    return unknown_from("get", receiver, key)


@methods("dict", "update")
def dict_update(call: Call) -> Abstract:
    receiver: DictValue = call.receiver
    m = call.machine
    for key, value in call.arguments.keywords.items():
        m.write(receiver.items, key, value)
    first = call.arguments.get("", 0)
    if first is not None:
        other = m.resolve(first)
        if isinstance(other, DictValue):
            for key, value in other.items.items():
                m.write(receiver.items, key, value)
            if not other.complete:
                m.write(receiver.state, "complete", False)
        else:
            m.write(receiver.state, "complete", False)
    return NONE


@methods("dict", "items", "keys", "values", "copy")
def dict_views(call: Call) -> Abstract:
    receiver: DictValue = call.receiver
    name = call.name.rpartition(".")[2]
    if name == "copy":
        return DictValue(dict(receiver.items), receiver.complete)
    if name == "items":
        rows: tuple[Abstract, ...] = tuple(ListValue((Const(k), v), "tuple") for k, v in receiver.items.items())
    elif name == "keys":
        rows = tuple(Const(key) for key in receiver.items)
    else:
        rows = tuple(receiver.items.values())
    return ListValue(rows, "list", receiver.complete)


# --- functools, contextlib, dataclasses --------------------------------------------------------------------------


@calls("functools.partial")
def partial(call: Call) -> Abstract:
    if not call.arguments.positional:
        return Unknown("partial of nothing")
    return Partial(call.arguments.positional[0], call.arguments.positional[1:], dict(call.arguments.keywords))


@calls("contextlib.nullcontext", "contextlib.suppress", "contextlib.ExitStack", "contextlib.redirect_stdout")
def null_context(call: Call) -> Abstract:
    result = Object("null context", call.name)
    given = call.arguments.get("enter_result", 0) if call.name.endswith("nullcontext") else None
    result.attributes["value"] = given or (result if call.name.endswith("ExitStack") else NONE)
    return result


@methods("null context", "enter")
def null_context_value(call: Call) -> Abstract:
    value: Abstract = call.receiver.attributes["value"]
    return value


@methods("null context", "enter_context")
def enter_context(call: Call) -> Abstract:
    """`ExitStack.enter_context`: the region lasts until the stack is left."""
    from t4lint.interpret.statements import enter_region

    value = call.arguments.get("cm", 0)
    return enter_region(call.machine, value, call.machine.sites[-1][1]) if value is not None else NONE


@methods("null context", "push", "callback", "close", "pop_all", "__enter__", "__exit__")
def stack_method(call: Call) -> Abstract:
    return call.receiver  # type: ignore[no-any-return]


@methods("null context", "__call__")
def null_context_call(call: Call) -> Abstract:
    return call.receiver  # type: ignore[no-any-return]


@calls("dataclasses.dataclass")
def dataclass_(call: Call) -> Abstract:
    return Object("dataclass decorator", "dataclasses.dataclass")


@calls(
    "dataclasses.field", "pydantic.Field", "simple_parsing.field", "simple_parsing.helpers.field", "attr.ib", "attr.attrib",
    "attr.field", "attrs.field", "draccus.field", "simple_parsing.choice", "pydantic.fields.Field",
)  # fmt: skip
def field_(call: Call) -> Abstract:
    attributes = dict(call.arguments.keywords)
    positional = call.arguments.positional
    if positional and call.name.rpartition(".")[2] in ("Field", "ib", "attrib", "field"):
        attributes.setdefault("default", positional[0])
    if "factory" in attributes:
        attributes["default_factory"] = attributes.pop("factory")
    return Object("dataclass field", "dataclasses.field", attributes)


def dataclass_field(m: Any, value: Object) -> Abstract | None:
    """The default that `field(default=..., default_factory=...)` gives; None for a required field."""
    if "default" in value.attributes:
        return m.resolve(value.attributes["default"])  # type: ignore[no-any-return]
    if "default_factory" in value.attributes:
        return m.call(value.attributes["default_factory"], Arguments())  # type: ignore[no-any-return]
    return None


@calls("dataclasses.asdict", "dataclasses.replace")
def as_dict(call: Call) -> Abstract:
    value = call.argument("obj", 0)
    if isinstance(value, Instance) and call.name == "dataclasses.replace":
        result = copied(value)
        for key, item in call.arguments.keywords.items():
            result.attributes[key] = item  # type: ignore[attr-defined]
        return result
    if isinstance(value, (Instance, Object)) and call.name == "dataclasses.asdict":
        return DictValue({k: v for k, v in value.attributes.items() if isinstance(v, Abstract)})
    return unknown_from(call.name, value)


# --- os, sys, paths ----------------------------------------------------------------------------------------------


def environment_value(m: Any, name: str) -> Abstract | None:
    """An environment variable as the launch or the program set it; None when nothing did."""
    value = m.environment.get(name)
    return m.resolve(value) if value is not None else None


@calls("os.environ.__getitem__")
def environment_item(call: Call) -> Abstract:
    """As `get`; but a program that reads the number of its process so is made for a launcher that sets it."""
    name = call.argument("key", 0)
    if isinstance(name, Const) and name.value in NUMBERS and environment_value(call.machine, str(name.value)) is None:
        return Const("0", (NUMBERS[name.value],))
    return environment_get(Call(call.machine, "os.environ.get", call.arguments, None))


@calls("os.environ.get", "os.getenv")
def environment_get(call: Call) -> Abstract:
    name = call.argument("key", 0)
    if not isinstance(name, Const):
        return unknown_from("environ", name)
    value = environment_value(call.machine, str(name.value))
    if value is not None:
        return value
    if str(name.value) in LAUNCHED:
        given = launched_value(call.machine, str(name.value))
        if given is not None:
            return given
        if call.name == "os.environ.get" and not call.given("default", 1) and len(call.arguments.positional) == 1:
            # read as `os.environ[...]`: some launcher that is not in sight must set it
            return Unknown(f"a launcher sets {name.value}", uid=f"environment {name.value}")
    if call.name == "os.environ.get" and not call.given("default", 1) and str(name.value) not in LAUNCHED:
        # `os.environ[...]` comes here too: it must be set, to something that is not known
        if call.node is None and len(call.arguments.positional) == 1 and not call.arguments.keywords:
            return Choice(
                f"environment {name.value} is set",
                Unknown(f"the environment variable {name.value}", uid=f"environment {name.value}"),
                NONE,
            )
    return call.argument("default", 1)


# What torchrun, accelerate and deepspeed give every process.
LAUNCHED = frozenset(
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "GROUP_RANK"}
)
RANKS = frozenset({"RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK"})


def launched_value(m: Any, name: str) -> Abstract | None:
    """A variable that the launcher gives every process, as rank 0 sees it; None where the launch sets none."""
    from t4lint.libraries.torch_distributed import world_size

    launch = m.launch
    if launch is None or launch.launcher == "python":
        return None
    unknown = Unknown(f"the launcher sets {name}", uid=f"environment {name}")
    if launch.launcher == "accelerate":
        processes = world_size(m)
        if not isinstance(processes, Const):
            return unknown
        if processes.value == 1:
            return None  # accelerate 1.15 starts a single process without these (commands/launch.py, simple_launcher)
    step = Step("environment", f"{name} of rank 0", location=launch.where)
    if name in RANKS:
        return Const("0", (NUMBERS.get(name, PER_PROCESS),))
    count = world_size(m) if name == "WORLD_SIZE" else None
    if isinstance(count, Const):
        return Const(str(count.value), (step,))
    if name == "LOCAL_WORLD_SIZE" and launch.processes_per_node.known:
        return Const(str(launch.processes_per_node.it), (step,))
    return unknown


def is_in_environment(m: Any, name: str) -> bool | None:
    """Is a variable set where the program runs? None when that is not known."""
    if environment_value(m, name) is not None:
        return True
    if name in LAUNCHED:
        given = launched_value(m, name)
        if given is None:
            return False
        return True if isinstance(given, Const) or m.launch.launcher != "accelerate" else None
    under_slurm = m.launch is not None and "srun" in m.launch.text
    if name.startswith(("SLURM_", "OMPI_", "PMI_")):
        return None if under_slurm else False
    return None


# The number of a process, as launchers, Slurm and MPI give it.
NUMBERS = {
    "RANK": RANK, "SLURM_PROCID": RANK, "OMPI_COMM_WORLD_RANK": RANK, "PMI_RANK": RANK,
    "LOCAL_RANK": LOCAL_RANK, "SLURM_LOCALID": LOCAL_RANK, "OMPI_COMM_WORLD_LOCAL_RANK": LOCAL_RANK,
}  # fmt: skip

# Libraries that load torch when they are imported.
IMPORT_TORCH = frozenset({
    "torch", "torchvision", "torchaudio", "accelerate", "peft", "trl", "bitsandbytes", "timm", "lightning",
    "pytorch_lightning", "unsloth", "deepspeed", "xformers", "flash_attn",
})  # fmt: skip


def set_environment(m: Any, name: str, value: Abstract) -> None:
    m.write(m.environment, name, value)
    loaded = Const(not IMPORT_TORCH.isdisjoint(m.imported))
    m.emit(EnvironmentVariable, name, name=name, value=value, set_in="program", after_torch=loaded)
    value = m.resolve(value)
    if name == "CUDA_VISIBLE_DEVICES" and isinstance(value, Const) and shows_none(str(value.value)):
        hide_gpus(m)


def hide_gpus(m: Any) -> None:
    """From here on CUDA shows the program no device, unless it was asked before: then it is too late."""
    asked = any(
        draft.kind is Predicate and draft.fields.get("function", "").startswith("torch.cuda") for draft in m.drafts
    )
    if not m.logs and not m.globals.get("$cuda") and not asked:
        m.target = find_target("cpu")


@calls("os.environ.setdefault", "os.putenv")
def environment_set(call: Call) -> Abstract:
    name = call.argument("key", 0)
    if isinstance(name, Const):
        current = environment_value(call.machine, str(name.value))
        if current is not None and call.name.endswith("setdefault"):
            return current
        set_environment(call.machine, str(name.value), call.argument("value", 1))
    return call.argument("value", 1)


@calls("os.environ.update")
def environment_update(call: Call) -> Abstract:
    value = call.argument("other", 0)
    if isinstance(value, DictValue):
        for key, item in value.items.items():
            set_environment(call.machine, str(key), item)
    for key, item in call.arguments.keywords.items():
        set_environment(call.machine, key, item)
    return NONE


@calls("os.cpu_count", "multiprocessing.cpu_count", "os.process_cpu_count", "psutil.cpu_count")
def cpu_count(call: Call) -> Abstract:
    count = getattr(call.machine.target, "vcpus", None)
    if count is not None:
        return Const(count, (call.machine.here("target", f"{count} vCPUs on {call.machine.target.name}"),))
    return Unknown("how many CPUs the machine has", uid="cpu count")


@calls("os.sched_getaffinity")
def affinity(call: Call) -> Abstract:
    count = getattr(call.machine.target, "vcpus", None)
    if count is not None:
        return Const(range(count), (call.machine.here("target", f"{count} vCPUs on {call.machine.target.name}"),))
    return Unknown("how many CPUs the machine has", uid="cpu count")


@attribute("sys.argv")
def argv(m: Any) -> Abstract:
    """The script and its arguments as launched; without a launch in sight, the script alone, and that is a presumption."""
    if "sys.argv" not in m.globals:
        m.globals["sys.argv"] = command_words(m, m.arguments, Const("script"))
    value: Abstract = m.globals["sys.argv"]
    return value


def command_words(m: Any, words: Any, *first: Abstract) -> ListValue:
    """Words of the command line as a list that remembers it."""
    known = [word for word in words if word.text is not None]
    items = tuple(Const(word.text, (Step("flag", word.text, location=word.location),)) for word in known)
    result = ListValue((*first, *items), "list", complete=len(known) == len(words))
    result.state["command line"] = True
    return result


@attribute("sys.path")
def search_path(m: Any) -> Abstract:
    """Only what the program adds to it: the rest is the environment's."""
    if "sys.path" not in m.globals:
        m.globals["sys.path"] = ListValue(())
    value: Abstract = m.globals["sys.path"]
    return value


@calls("site.addsitedir")
def add_folder(call: Call) -> Abstract:
    m = call.machine
    added = m.attribute(Symbol("sys"), "path")
    m.write(added.state, "items", (*added.items, call.argument("sitedir", 0)))
    return NONE


@attribute("sys.version_info")
def version_info(m: Any) -> Abstract:
    return ListValue((Const(3), Const(11), Const(0)), "tuple")


@attribute("sys.platform", "os.name")
def platform(m: Any) -> Abstract:
    return Const("linux")


@calls("platform.system")
def system(call: Call) -> Abstract:
    return Const("Linux")


@calls("math.*")
def mathematics(call: Call) -> Abstract:
    import math

    function = getattr(math, call.name.rpartition(".")[2], None)
    values = [call.machine.resolve(value) for value in call.arguments.positional]
    numbers = [value.value for value in values if isinstance(value, Const)]
    if (
        function is not None
        and len(numbers) == len(values)
        and all(isinstance(n, (int, float)) and abs(n) < 10**9 for n in numbers)
    ):
        if call.name in ("math.factorial", "math.comb", "math.perm"):
            return unknown_from(call.name, *values)
        try:
            return Const(function(*numbers), origins_of(*values))
        except Exception:
            return unknown_from(call.name, *values)
    return unknown_from(call.name, *values)


@calls(
    "packaging.version.parse",
    "packaging.version.Version",
    "distutils.version.LooseVersion",
    "pkg_resources.parse_version",
)
def parse_version(call: Call) -> Abstract:
    value = call.argument("version", 0)
    if isinstance(value, Const) and isinstance(value.value, str):
        from t4lint.trace import release

        return Const(release(value.value), value.origins)
    return unknown_from("version", value)


def step_of(value: Abstract) -> Step | None:
    return value.origins[0] if value.origins else None
