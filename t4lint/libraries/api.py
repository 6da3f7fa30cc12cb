"""What a library's model sees of the interpreter, and the registry that it enters its functions in.

A model is one file per library. It says what a call returns and which events it causes:

    @calls("torch.utils.data.DataLoader")
    def data_loader(call: Call) -> Abstract:
        ...
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from t4lint.interpret.values import NONE, Abstract, Const, DictValue, Step, Unknown
from t4lint.libraries import signatures
from t4lint.trace import Event


@dataclass(slots=True)
class Arguments:
    """The evaluated arguments of a call. `open`: a star-argument of unknown content may add more."""

    positional: tuple[Abstract, ...] = ()
    keywords: dict[str, Abstract] = field(default_factory=dict)
    open: bool = False
    uncalled: bool = False  # nothing calls it: defaults are what it would take

    def get(self, name: str, position: int | None = None) -> Abstract | None:
        """The argument given by keyword or at a position; None when it is not given."""
        if name in self.keywords:
            return self.keywords[name]
        if position is not None and position < len(self.positional):
            return self.positional[position]
        return None

    def values(self) -> Iterable[Abstract]:
        yield from self.positional
        yield from self.keywords.values()


class MachineApi(Protocol):
    """The part of the interpreter that library models use."""

    target: Any
    path: dict[str, bool]
    regions: list[Any]
    arguments: Any
    environment: dict[str, Abstract]
    in_forward: int
    imported: set[str]

    def emit(self, kind: type[Event], role: str = "", subject: str = "", **fields: Any) -> None: ...
    def gap(self, kinds: Iterable[type[Event]], why: str) -> None: ...
    def write(self, mapping: Any, key: Any, value: Any) -> None: ...
    def call(self, callee: Abstract, arguments: Arguments) -> Abstract: ...
    def method(self, receiver: Abstract, name: str, arguments: Arguments) -> Abstract: ...
    def attribute(self, receiver: Abstract, name: str) -> Abstract: ...
    def version(self, library: str) -> str | None: ...
    def at_least(self, library: str, version: str) -> bool: ...
    def here(self, how: Any, note: str) -> Step: ...
    def truth(self, value: Abstract) -> bool | None: ...
    def resolve(self, value: Abstract) -> Abstract: ...
    def autocast_dtype(self) -> str: ...


@dataclass(slots=True)
class Call:
    """One call of a library function or method. `receiver` is the object of a method call."""

    machine: Any
    name: str
    arguments: Arguments
    node: ast.AST | None
    receiver: Any = None

    def argument(self, name: str, position: int | None = None, default: Abstract | None = None) -> Abstract:
        """An argument, or its default; unknown when star-arguments of unknown content may give it."""
        value = self.arguments.get(name, position)
        if value is not None:
            resolved: Abstract = self.machine.resolve(value)
            return resolved
        if self.arguments.open:
            return Unknown(f"{name} may be among arguments that are not known", uid=f"open.{self.name}.{name}")
        default = self.harvested(name, default)
        if default is None:
            return NONE
        if not default.origins:
            short = self.name.rpartition(".")[2]
            # a library's own default stands nowhere in the program: findings on it land on the call
            shown = default.value if isinstance(default, Const) else "?"
            return with_default(default, Step("default", f"default of {short}({name}={shown!r})"))
        return default

    def harvested(self, name: str, default: Abstract | None) -> Abstract | None:
        """The default of a parameter in the version that runs, where it was harvested; else what the model says."""
        if self.name not in signatures.ASKED or (default is not None and default.origins):
            return default
        found = signatures.default(self.name, name, self.machine.versions)
        return default if found is None or (default is None and found[0] is None) else Const(found[0])

    def given(self, name: str, position: int | None = None) -> bool:
        return self.arguments.get(name, position) is not None

    def constant(self, name: str, position: int | None = None, default: Any = None) -> Any:
        """The plain value of an argument if it is a known constant, else the default."""
        value = self.arguments.get(name, position)
        return value.value if isinstance(value, Const) else default


def with_default(value: Abstract, step: Step) -> Abstract:
    if isinstance(value, Const):
        return Const(value.value, (step,))
    value.origins = (step,)
    return value


Handler = Callable[[Call], Abstract]
Reader = Callable[[Any, Any], Abstract]

CALLS: dict[str, Handler] = {}
METHODS: dict[tuple[str, str], Handler] = {}
ATTRIBUTES: dict[str, Callable[[Any], Abstract]] = {}
ALIASES: dict[str, str] = {}


def calls(*names: str) -> Callable[[Handler], Handler]:
    """Enter a model of one or more library functions or classes."""

    def enter(handler: Handler) -> Handler:
        for name in names:
            if name in CALLS:  # which of two models counts would depend on what was imported first
                raise ValueError(f"{name} has two models: {CALLS[name].__qualname__} and {handler.__qualname__}")
            CALLS[name] = handler
        return handler

    return enter


def methods(kind: str, *names: str) -> Callable[[Handler], Handler]:
    """Enter a model of methods of a kind of library object; the name `*` stands for all others."""

    def enter(handler: Handler) -> Handler:
        for name in names:
            METHODS[kind, name] = handler
        return handler

    return enter


def attribute(*names: str) -> Callable[[Callable[[Any], Abstract]], Callable[[Any], Abstract]]:
    """Enter a model of a library attribute that is no plain symbol."""

    def enter(reader: Callable[[Any], Abstract]) -> Callable[[Any], Abstract]:
        for name in names:
            ATTRIBUTES[name] = reader
        return reader

    return enter


def aliases(table: Mapping[str, str]) -> None:
    """Other names under which a library offers the same thing; a prefix stands for all below it."""
    ALIASES.update(table)


MAX_PLAIN = 8  # nested containers: a list may hold itself


def plain(value: Abstract, depth: int = 0) -> Any:
    """A Python value from constants, lists and dicts of constants; raises ValueError for anything unknown."""
    from t4lint.interpret.values import ListValue

    if isinstance(value, Const):
        return value.value
    if depth > MAX_PLAIN:
        raise ValueError("nested too deeply")
    if isinstance(value, ListValue) and value.complete:
        items = [plain(item, depth + 1) for item in value.items]
        return tuple(items) if value.kind == "tuple" else items
    if isinstance(value, DictValue) and value.complete:
        return {key: plain(item, depth + 1) for key, item in value.items.items()}
    raise ValueError("not a plain value")
