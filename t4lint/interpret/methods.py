"""Attributes and methods of values."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from t4lint.interpret import calls
from t4lint.interpret.operators import unknown_from
from t4lint.interpret.values import (
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
    ProjectModule,
    Symbol,
    Tensor,
    Unknown,
    is_none,
)
from t4lint.libraries import registry
from t4lint.libraries.api import Arguments

if TYPE_CHECKING:
    from t4lint.interpret.machine import Machine


def attribute(m: Machine, receiver: Abstract, name: str) -> Abstract:
    """`receiver.name`, not called."""
    receiver = there(m, receiver)
    if isinstance(receiver, Choice):
        return m.mapped(receiver, lambda leaf: attribute(m, leaf, name))
    if isinstance(receiver, Symbol):
        return registry.symbol_attribute(m, receiver.name, name)
    if name == "__dict__" and isinstance(receiver, (Instance, Object)):
        from t4lint.libraries.classes import namespace_of

        return namespace_of(receiver) or receiver
    if isinstance(receiver, ProjectModule):
        return DictValue(receiver.scope.names) if name == "__dict__" else module_attribute(m, receiver, name)
    if isinstance(receiver, Instance):
        return instance_attribute(m, receiver, name)
    if isinstance(receiver, Class):
        return class_attribute(m, receiver, name)
    if isinstance(receiver, Object):
        if name in receiver.attributes:
            return m.resolve(receiver.attributes[name])
        return registry.object_attribute(m, receiver, name)
    if isinstance(receiver, Tensor):
        return registry.tensor_attribute(m, receiver, name)
    if isinstance(receiver, Const):
        return constant_attribute(receiver, name)
    if isinstance(receiver, Function) and name in ("__name__", "__qualname__"):
        return Const(receiver.name)
    if isinstance(receiver, (ListValue, DictValue, Function, Bound, Partial)):
        return Bound(receiver, name)
    if isinstance(receiver, Unknown):
        return Unknown(receiver.reason, receiver.origins, receiver.varies, f"{receiver.uid}.{name}", receiver.autocast)
    return unknown_from(f"attribute {name}", receiver)


def there(m: Machine, receiver: Abstract) -> Abstract:
    """What an attribute or a method is asked of: where it may be None or an object, the run only goes on with the object."""
    receiver = m.resolve(receiver)
    while isinstance(receiver, Choice):
        yes, no = m.resolve(receiver.yes), m.resolve(receiver.no)
        if is_none(yes) == is_none(no):
            return receiver
        receiver = m.resolve(no if is_none(yes) else yes)
    return receiver


def constant_attribute(value: Const, name: str) -> Abstract:
    """An attribute of a constant: of a path, or the value of a member of an enumeration of strings or numbers."""
    if isinstance(value.value, PurePath):
        from t4lint.libraries.paths import path_attribute

        return path_attribute(value, name) or Bound(value, name)
    return value if name == "value" else Bound(value, name)


def module_attribute(m: Machine, module: ProjectModule, name: str) -> Abstract:
    if name in module.scope.names:
        return m.resolve(module.scope.names[name])
    from t4lint.interpret.imports import submodule

    found = submodule(m, module, name)
    return found or Unknown(f"{name} is not defined in {module.source.path}", uid=f"{module.source.name}.{name}")


def instance_attribute(m: Machine, instance: Instance, name: str) -> Abstract:
    from t4lint.libraries import classes

    if name in instance.attributes:
        return m.resolve(instance.attributes[name])
    if name == "__class__":
        return instance.cls
    found = instance.cls.find(name)
    if isinstance(found, Function):
        if any(isinstance(d, Symbol) and d.name in PROPERTIES for d in found.decorators):
            return calls.enter(m, found, Arguments(), instance)
        return Bound(instance, found)
    if found is not None:
        return m.resolve(found)
    library = registry.instance_attribute(m, instance, name)
    if library is not None:
        return library
    item = classes.item_as_attribute(m, instance, name)
    if item is not None:
        return item
    fallback = instance.cls.find("__getattr__")
    if isinstance(fallback, Function):
        return calls.enter(m, fallback, Arguments((Const(name),)), instance)
    return Unknown(f"{instance.cls.name} has no {name} that t4lint saw", uid=f"{instance.uid}.{name}")


PROPERTIES = ("builtins.property", "functools.cached_property")


def class_attribute(m: Machine, cls: Class, name: str) -> Abstract:
    found = cls.find(name)
    if isinstance(found, Function):
        if any(isinstance(d, Symbol) and d.name == "builtins.classmethod" for d in found.decorators):
            return Bound(cls, found)
        return found
    if found is not None:
        return m.resolve(found)
    if name in ("__name__", "__qualname__"):
        return Const(cls.name)
    enumeration = registry.class_attribute(m, cls, name)
    return enumeration or Unknown(f"{cls.name} has no {name} that t4lint saw", uid=f"class {cls.name}.{name}")


def call_method(m: Machine, receiver: Abstract, name: str, arguments: Arguments) -> Abstract:
    """`receiver.name(...)`."""
    m.tick()
    receiver = there(m, receiver)
    if isinstance(receiver, Choice):
        choice = receiver
        yes, no = m.fork(
            choice.test,
            lambda: call_method(m, choice.yes, name, arguments),
            lambda: call_method(m, choice.no, name, arguments),
        )
        joined: Abstract = m.joined(choice.test, yes, no)
        return joined
    if isinstance(receiver, Object):
        value = receiver.attributes.get(name)
        if isinstance(value, Abstract) and not registry.has_method(receiver, name):
            return m.call(value, arguments)
        return registry.call_method(m, receiver, name, arguments)
    if isinstance(receiver, Tensor):
        return registry.call_tensor_method(m, receiver, name, arguments)
    if isinstance(receiver, Instance):
        return instance_method(m, receiver, name, arguments)
    if isinstance(receiver, (Const, ListValue, DictValue)):
        return registry.call_builtin_method(m, receiver, name, arguments)
    if isinstance(receiver, Unknown):
        return registry.call_unknown_method(m, receiver, name, arguments)
    found = attribute(m, receiver, name)
    if isinstance(found, Bound) and found.receiver is receiver and isinstance(found.method, str):
        if isinstance(receiver, Function) and registry.is_command(receiver):
            return registry.call_function_method(m, receiver, name, arguments)
        # a method of a function or a partial: nothing more is known of it
        return calls.unresolved(m, Unknown(f"{name} of a function"), arguments)
    return m.call(found, arguments)


def instance_method(m: Machine, instance: Instance, name: str, arguments: Arguments) -> Abstract:
    if name in instance.attributes:
        return m.call(instance.attributes[name], arguments)
    found = instance.cls.find(name)
    if isinstance(found, Function):
        return calls.enter(m, found, arguments, instance)
    if found is not None:
        return m.call(found, arguments)
    library = registry.call_instance_method(m, instance, name, arguments)
    if library is not None:
        return library
    return calls.unresolved(m, instance_attribute(m, instance, name), arguments)
