"""Classes of the project whose base or decorator decides how they are built: enumerations, records, dicts."""

from __future__ import annotations

from typing import Any

from t4lint.interpret.expressions import hashable, iterate
from t4lint.interpret.operators import unknown_from
from t4lint.interpret.values import (
    Abstract,
    Class,
    Const,
    DictValue,
    Function,
    Instance,
    ListValue,
    Object,
    Unknown,
)
from t4lint.libraries.api import Arguments, Call, calls, methods

# --- enumerations --------------------------------------------------------------------------------------------------

ENUMS = frozenset(
    {"enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag", "enum.IntFlag", "transformers.utils.ExplicitEnum"}
)
PLAIN = frozenset({"builtins.str", "builtins.int", "enum.IntEnum", "enum.StrEnum", "enum.IntFlag"})


def is_enumeration(cls: Class) -> bool:
    return not ENUMS.isdisjoint(cls.library_bases())


def define_members(m: Any, cls: Class) -> None:
    """The members of an enumeration: those of one of strings or numbers are these, others are objects of the class."""
    if not is_enumeration(cls):
        return
    plain = not PLAIN.isdisjoint(cls.library_bases())
    for number, (name, value) in enumerate(list(cls.members.items()), 1):
        value = m.resolve(value)
        if name.startswith("_") or not isinstance(value, (Const, Object, ListValue)):
            continue
        if isinstance(value, Object):
            if value.name != "enum.auto":
                continue
            value = Const(name.lower() if "enum.StrEnum" in cls.library_bases() else number)
        if plain:
            cls.members[name] = value
            continue
        member = Instance(cls, value.origins)
        member.attributes = {"value": value, "name": Const(name), "_value_": value}
        cls.members[name] = member


def members(cls: Class) -> list[Abstract]:
    return [v for name, v in cls.members.items() if not name.startswith("_") and not isinstance(v, Function)]


def member_of(m: Any, cls: Class, wanted: Abstract) -> Abstract:
    """`Precision("bf16")`."""
    wanted = m.resolve(wanted)
    if wanted in members(cls):
        return wanted
    if isinstance(wanted, Const):
        for member in members(cls):
            value = member.attributes["value"] if isinstance(member, Instance) else member
            if isinstance(value, Const) and value.value == wanted.value:
                return wanted if isinstance(member, Const) else chosen(member, wanted)
    return unknown_from(cls.name, wanted)


def chosen(member: Abstract, by: Abstract) -> Abstract:
    if isinstance(member, Instance) and by.origins:
        member.origins = by.origins
    return member


@calls("enum.auto")
def auto(call: Call) -> Abstract:
    return Object("enumeration number", "enum.auto")


# --- records ---------------------------------------------------------------------------------------------------------

RECORDS = frozenset({
    "typing.NamedTuple", "pydantic.BaseModel", "pydantic_settings.BaseSettings", "pydantic.BaseSettings", "msgspec.Struct",
    "typing.TypedDict", "typing_extensions.TypedDict", "sqlmodel.SQLModel",
})  # fmt: skip
DATACLASS_DECORATORS = frozenset({
    "attr.s", "attr.attrs", "attr.define", "attr.frozen", "attr.mutable", "attr.dataclass", "attrs.define", "attrs.frozen",
    "attrs.mutable", "pydantic.dataclasses.dataclass", "chex.dataclass", "flax.struct.dataclass", "draccus.dataclass",
})  # fmt: skip


def is_record(cls: Class) -> bool:
    return not RECORDS.isdisjoint(cls.library_bases())


def makes_dataclass(decorator: Abstract) -> bool:
    name = getattr(decorator, "name", "")
    return name in DATACLASS_DECORATORS or (name.startswith("dataclasses.") and not isinstance(decorator, Function))


@calls(*DATACLASS_DECORATORS)
def dataclass_decorator(call: Call) -> Abstract:
    return Object("dataclass decorator", call.name)


def converted(m: Any, cls: Class, name: str, value: Abstract) -> Abstract:
    """pydantic builds nested models from dicts."""
    if not isinstance(value, DictValue) or "pydantic.BaseModel" not in cls.library_bases():
        return value
    kind = cls.types.get(name)
    if isinstance(kind, Class):
        keywords = {str(key): item for key, item in value.items.items()}
        return m.call(kind, Arguments((), keywords, not value.complete))  # type: ignore[no-any-return]
    return value


@calls("collections.namedtuple")
def namedtuple(call: Call) -> Abstract:
    names = call.argument("field_names", 1)
    if isinstance(names, Const) and isinstance(names.value, str):
        fields = names.value.replace(",", " ").split()
    elif isinstance(names, ListValue) and all(isinstance(item, Const) for item in names.items):
        fields = [str(item.value) for item in names.items if isinstance(item, Const)]
    else:
        return unknown_from("namedtuple", names)
    defaults = call.arguments.get("defaults")
    given = defaults.items if isinstance(defaults, ListValue) else ()
    made = Object("record type", "collections.namedtuple")
    made.attributes.update({"$fields": tuple(fields), "$defaults": tuple(given)})
    return made


@methods("record type", "__call__")
def new_record(call: Call) -> Abstract:
    fields, defaults = call.receiver.attributes["$fields"], call.receiver.attributes["$defaults"]
    late = dict(zip(reversed(fields), reversed(defaults), strict=False))
    values: dict[str, Abstract] = {}
    for position, name in enumerate(fields):
        given = call.arguments.get(name, position)
        values[name] = given or late.get(name) or Unknown(f"the field {name} is not given")
    record = Object("record", "collections.namedtuple", values)
    record.attributes["$order"] = tuple(fields)
    return record


@methods("record", "iter")
def record_elements(call: Call) -> Abstract:
    from t4lint.interpret.expressions import Elements
    from t4lint.libraries.python import with_elements

    values = [call.receiver.attributes[name] for name in call.receiver.attributes["$order"]]
    return with_elements(Elements(values, Unknown("a field", varies=True), count=len(values)))


@methods("record", "getitem")
def record_item(call: Call) -> Abstract:
    index = call.arguments.positional[0]
    order = call.receiver.attributes["$order"]
    if isinstance(index, Const) and isinstance(index.value, int) and -len(order) <= index.value < len(order):
        return call.receiver.attributes[order[index.value]]  # type: ignore[no-any-return]
    return unknown_from("item", index)


@methods("record", "_asdict")
def record_dict(call: Call) -> Abstract:
    return DictValue({name: call.receiver.attributes[name] for name in call.receiver.attributes["$order"]})


@methods("record", "_replace")
def record_replace(call: Call) -> Abstract:
    return Object("record", call.receiver.name, {**call.receiver.attributes, **call.arguments.keywords})


# --- dicts -----------------------------------------------------------------------------------------------------------

DICTS = frozenset(
    {"builtins.dict", "collections.OrderedDict", "collections.UserDict", "collections.defaultdict", "typing.Dict"}
)


def is_dict(cls: Class) -> bool:
    return not DICTS.isdisjoint(cls.library_bases())


def fill_dict(m: Any, instance: Instance, arguments: Arguments) -> None:
    """What `dict.__init__` does for an instance of a subclass."""
    from t4lint.interpret.values import Symbol

    content = m.call(Symbol("builtins.dict"), arguments)
    held = contents(m, instance)
    for key, value in content.items.items():
        m.write(held.items, key, value)
    if not content.complete:
        m.write(held.state, "complete", False)


def contents(m: Any, instance: Instance) -> DictValue:
    """The items of an instance of a subclass of dict."""
    if "$items" not in instance.attributes:
        m.write(instance.attributes, "$items", DictValue())
    found = instance.attributes["$items"]
    return found if isinstance(found, DictValue) else DictValue(complete=False)


ACCESSORS = frozenset(f"{base}.{name}" for base in DICTS for name in ("get", "__getitem__", "__setitem__"))


def item_as_attribute(m: Any, instance: Instance, name: str) -> Abstract | None:
    """`settings.name` of a class whose `__getattr__` reads the items: None where it is none, or has no such item."""
    if not is_dict(instance.cls) or name.startswith("__") or "$items" not in instance.attributes:
        return None
    reads = instance.cls.find("__getattr__")
    held = contents(m, instance)
    if name in held.items and (isinstance(reads, Function) or getattr(reads, "name", "") in ACCESSORS):
        return m.resolve(held.items[name])  # type: ignore[no-any-return]
    return None


def set_as_item(m: Any, instance: Instance, name: str, value: Abstract) -> bool:
    """`settings.name = value` of a class whose `__setattr__` writes an item."""
    if not is_dict(instance.cls) or name.startswith("__"):
        return False
    writes = instance.cls.find("__setattr__")
    if isinstance(writes, Function):
        text = writes.source.code(writes.node)
        if "__dict__" in text or "object.__setattr__" in text:
            return False
        m.method(instance, "__setattr__", Arguments((Const(name), value)))
        return True
    if getattr(writes, "name", "") in ACCESSORS:
        m.write(contents(m, instance).items, name, value)
        return True
    return False


def namespace_of(value: Abstract) -> DictValue | None:
    """`vars(x)`, `x.__dict__`: its attributes as a dict that shares them."""
    if isinstance(value, (Instance, Object)):
        complete = isinstance(value, Instance) or (value.kind == "namespace" and "$open" not in value.attributes)
        return DictValue(value.attributes, complete)
    if isinstance(value, Class):
        return DictValue(value.members, True)
    return None


def pairs(m: Any, value: Abstract) -> DictValue | None:
    """A dict from an iterable of pairs; None when it is none."""
    elements = iterate(m, value)
    if elements.known is None or elements.stream:
        return None
    result = DictValue()
    for element in elements.known:
        parts = iterate(m, element).known
        if parts is None or len(parts) != 2:
            return None
        key = m.resolve(parts[0])
        if not isinstance(key, Const) or not hashable(key.value):
            return None
        result.items[key.value] = parts[1]
    return result
