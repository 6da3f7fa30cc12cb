"""The abstract domain: what an expression may stand for while a program is interpreted.

Mutable things (`ListValue`, `DictValue`, `Instance`, `Object`, `Scope`) keep their state in dicts that are only written
through the machine's trail, so that a branch can be rolled back and merged.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from t4lint.trace import OF_LOCAL_RANK, OF_PROCESS, OF_RANK, How, Location

_serial = count()


@dataclass(frozen=True, slots=True)
class Step:
    """One step of provenance, before positions are known: a note and the node that it points at.

    A step in a file that is not Python (a launch line, a config key) has its `location` already.
    """

    how: How
    note: str
    source: Any = None  # the SourceModule that holds the node
    node: ast.AST | None = None
    location: Location | None = None


Provenance = tuple[Step, ...]

# Marks a value that holds for most programs of its kind but was not read from this one: its facts are only likely.
PRESUMED = Step("derived", "presumed")

# Mark a value that differs between the processes of a run (see `ranks`): the number of a process in the whole run, its
# number on its node, and what is computed from one.
RANK = Step("derived", OF_RANK)
LOCAL_RANK = Step("derived", OF_LOCAL_RANK)
PER_PROCESS = Step("derived", OF_PROCESS)


class Abstract:
    """Base of the domain. `origins` run from where a person would edit the value to where it is used."""

    __slots__ = ("origins",)
    origins: Provenance

    def __init__(self, origins: Provenance = ()) -> None:
        self.origins = origins


class Const(Abstract):
    """A known Python constant. `varies`: it is the value in this iteration of a loop, not in every one."""

    __slots__ = ("value", "varies")

    def __init__(self, value: Any, origins: Provenance = (), varies: bool = False) -> None:
        super().__init__(origins)
        self.value = value
        self.varies = varies

    def __repr__(self) -> str:
        return f"Const({self.value!r})"


class Unknown(Abstract):
    """A value that cannot be told, and why. Two equal `uid`s are the same unknown, so a test on it is one test.

    `varies` marks what changes from one iteration of a loop to the next. `autocast` is the autocast dtype in force where
    an unresolved call made it ("none" outside a region).
    """

    __slots__ = ("autocast", "reason", "uid", "varies")

    def __init__(
        self, reason: str, origins: Provenance = (), varies: bool = False, uid: str = "", autocast: str = ""
    ) -> None:
        super().__init__(origins)
        self.reason = reason
        self.varies = varies
        self.uid = uid or f"u{next(_serial)}"
        self.autocast = autocast

    def __repr__(self) -> str:
        return f"Unknown({self.reason!r})"


class Returned(Unknown):
    """What a library without a model returned. It turns out to be a network when its parameters are asked for.

    `placed` and `cast` are what it was moved and cast to before, `network` is the module from then on.
    """

    __slots__ = ("cast", "function", "network", "placed")

    def __init__(self, function: str, reason: str, varies: bool = False, uid: str = "", autocast: str = "") -> None:
        super().__init__(reason, (), varies, uid, autocast)
        self.function = function
        self.placed: Abstract | None = None
        self.cast: Abstract | None = None
        self.network: Object | None = None


class Symbol(Abstract):
    """Something of a library, by its dotted name: `torch.float16`, `torch.nn`, `transformers.Trainer`."""

    __slots__ = ("name",)

    def __init__(self, name: str, origins: Provenance = ()) -> None:
        super().__init__(origins)
        self.name = name

    def __repr__(self) -> str:
        return f"Symbol({self.name})"


class Choice(Abstract):
    """One value if an undecided test holds, another if not."""

    __slots__ = ("no", "test", "yes")

    def __init__(self, test: str, yes: Abstract, no: Abstract) -> None:
        super().__init__(yes.origins or no.origins)
        self.test = test
        self.yes = yes
        self.no = no

    def __repr__(self) -> str:
        return f"Choice({self.test}: {self.yes!r} | {self.no!r})"


class ListValue(Abstract):
    """A list, tuple or set. `complete`: all its elements are known. `maybe`: those that are given stand for what a
    comprehension may find, and it may find nothing."""

    __slots__ = ("kind", "state")

    def __init__(
        self, items: tuple[Abstract, ...], kind: str = "list", complete: bool = True, origins: Provenance = ()
    ) -> None:
        super().__init__(origins)
        self.kind = kind
        self.state: dict[str, Any] = {"items": items, "complete": complete}

    @property
    def items(self) -> tuple[Abstract, ...]:
        items: tuple[Abstract, ...] = self.state["items"]
        return items

    @property
    def complete(self) -> bool:
        return bool(self.state["complete"])

    @property
    def maybe(self) -> bool:
        return bool(self.state.get("maybe"))


class DictValue(Abstract):
    """A dict with known keys; not `complete` when there may be others."""

    __slots__ = ("items", "state")

    def __init__(
        self, items: dict[Any, Abstract] | None = None, complete: bool = True, origins: Provenance = ()
    ) -> None:
        super().__init__(origins)
        self.items: dict[Any, Abstract] = items if items is not None else {}
        self.state: dict[str, Any] = {"complete": complete}

    @property
    def complete(self) -> bool:
        return bool(self.state["complete"])


class Scope(Abstract):
    """Names and their values; `parent` is the enclosing scope for look-up."""

    __slots__ = ("globals_", "names", "nonlocals", "parent")

    def __init__(self, parent: Scope | None = None) -> None:
        super().__init__()
        self.names: dict[str, Abstract] = {}
        self.parent = parent
        self.globals_: set[str] = set()
        self.nonlocals: set[str] = set()

    def chain(self) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent


FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Function(Abstract):
    """A function or lambda of the project. `owner` is the class that defines it, for `super()`."""

    __slots__ = ("decorators", "defaults", "name", "node", "owner", "scope", "source")

    def __init__(self, name: str, node: FunctionNode, source: Any, scope: Scope, defaults: dict[str, Abstract]) -> None:
        super().__init__()
        self.name = name
        self.node = node
        self.source = source
        self.scope = scope
        self.defaults = defaults
        self.owner: Class | None = None
        self.decorators: tuple[Abstract, ...] = ()


class Class(Abstract):
    """A class of the project. `fields` are those of a dataclass, in order, with their defaults (None: required)."""

    __slots__ = ("bases", "dataclass", "fields", "members", "name", "node", "source", "types")

    def __init__(self, name: str, node: ast.ClassDef, source: Any, bases: tuple[Abstract, ...]) -> None:
        super().__init__()
        self.name = name
        self.node = node
        self.source = source
        self.bases = bases
        self.members: dict[str, Abstract] = {}
        self.dataclass = False
        self.fields: dict[str, Abstract | None] = {}
        self.types: dict[str, Abstract] = {}  # of fields, where an annotation names a class

    def lineage(self) -> Iterator[Abstract]:
        """The class and its ancestors, depth first: classes of the project and `Symbol`s of libraries."""
        yield self
        for base in self.bases:
            if isinstance(base, Class):
                yield from base.lineage()
            else:
                yield base

    def library_bases(self) -> tuple[str, ...]:
        return tuple(base.name for base in self.lineage() if isinstance(base, Symbol))

    def find(self, name: str) -> Abstract | None:
        for base in self.lineage():
            if isinstance(base, Class) and name in base.members:
                return base.members[name]
        return None


class Instance(Abstract):
    """An object of a class of the project."""

    __slots__ = ("attributes", "cls", "uid")

    def __init__(self, cls: Class, origins: Provenance = ()) -> None:
        super().__init__(origins)
        self.cls = cls
        self.attributes: dict[str, Abstract] = {}
        self.uid = f"{cls.name}#{next(_serial)}"


class Object(Abstract):
    """An object of a library. `kind` is what the models call it ("module", "loader", "scaler"); `name` its dotted class."""

    __slots__ = ("attributes", "kind", "name", "uid")

    def __init__(
        self, kind: str, name: str, attributes: dict[str, Abstract] | None = None, origins: Provenance = ()
    ) -> None:
        super().__init__(origins)
        self.kind = kind
        self.name = name
        self.attributes: dict[str, Any] = attributes if attributes is not None else {}
        self.uid = f"{kind}#{next(_serial)}"


class Bound(Abstract):
    """A method with its object: `method` is a `Function`, or the name of a library method."""

    __slots__ = ("method", "receiver")

    def __init__(self, receiver: Abstract, method: Function | str) -> None:
        super().__init__(receiver.origins)
        self.receiver = receiver
        self.method = method


class Partial(Abstract):
    """`functools.partial`."""

    __slots__ = ("arguments", "function", "keywords")

    def __init__(self, function: Abstract, arguments: tuple[Abstract, ...], keywords: dict[str, Abstract]) -> None:
        super().__init__(function.origins)
        self.function = function
        self.arguments = arguments
        self.keywords = keywords


class ProjectModule(Abstract):
    """A module of the project; its scope holds its names."""

    __slots__ = ("scope", "source")

    def __init__(self, source: Any, scope: Scope) -> None:
        super().__init__()
        self.source = source
        self.scope = scope


@dataclass(frozen=True)
class TensorFacts:
    """What matters about a tensor.

    `math`: dtypes of the matmuls that made it ("?" where one is unknown); `autocast`: the autocast dtypes in force there
    ("none" outside a region); `models`: uids of the modules that it went through; `scaled_by`: uid of the scaler;
    `math_origins`: why the math has that dtype. `reduced`: what made one number of it ("mean", "sum", "?"), and `divisor`
    the product of the plain numbers that it was divided by since, None where one of them is not known. `kept`: places
    that carry it over the iterations of a loop. `copies`: copies to the host, started without waiting, that it is made of.
    `pinned`: who put it into page-locked memory, "loader" or "call". `squares`: squares that it is made of, which are inf where
    they overflow, each with its sign (0: not known).
    """

    dtype: str = ""
    device: str = ""
    math: frozenset[str] = frozenset()
    autocast: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()
    scaled_by: str = ""
    engine: str = ""
    graph: bool = False
    loader: str = ""  # uid of the loader whose batch it is
    math_origins: Provenance = field(default=(), compare=False)
    reduced: str = ""
    divisor: float | None = 1.0
    divisor_origins: Provenance = field(default=(), compare=False)
    kept: frozenset[str] = frozenset()
    copies: frozenset[str] = frozenset()
    pinned: str = ""
    squares: frozenset[tuple[str, int]] = frozenset()
    parameter: bool = False  # made by nn.Parameter; nothing that is computed from it is one

    def but(self, **changes: Any) -> TensorFacts:
        """New facts that differ in these fields: `dataclasses.replace` takes five times as long, and tensors are everywhere."""
        facts = object.__new__(TensorFacts)
        facts.__dict__.update(self.__dict__, **changes)
        return facts

    def joined(self, other: TensorFacts) -> TensorFacts:
        """The facts of a tensor computed from two; data that went through no model has no say in the arithmetic."""
        if bool(self.models) is not bool(other.models):
            lead, data = (self, other) if self.models else (other, self)
            return lead.but(
                # data on the CPU does not say where a model is that was moved to a device that is not known
                device=lead.device or (data.device if data.device != "cpu" else ""),
                scaled_by=lead.scaled_by or data.scaled_by,
                graph=lead.graph or data.graph,
                kept=lead.kept | data.kept,
                copies=lead.copies | data.copies,
                squares=lead.squares | data.squares,
            )
        reduced, divisor, divisor_origins = self.scale_with(other)
        return TensorFacts(
            dtype=self.dtype if self.dtype == other.dtype else "",
            device=self.device or other.device,
            math=self.math | other.math,
            autocast=self.autocast | other.autocast,
            models=self.models | other.models,
            scaled_by=self.scaled_by or other.scaled_by,
            engine=self.engine or other.engine,
            graph=self.graph or other.graph,
            loader=self.loader or other.loader,
            math_origins=_plainer(self.math_origins, other.math_origins),
            reduced=reduced,
            divisor=divisor,
            divisor_origins=divisor_origins,
            kept=self.kept | other.kept,
            copies=self.copies | other.copies,
            pinned=self.pinned if self.pinned == other.pinned else "",
            squares=self.squares | other.squares,
        )

    def scale_with(self, other: TensorFacts) -> tuple[str, float | None, Provenance]:
        """How a sum with another tensor is reduced and divided: by nothing where one of its parts is not divided at all."""
        if bool(self.reduced) is not bool(other.reduced):
            lead = self if self.reduced else other
            return lead.reduced, lead.divisor, lead.divisor_origins
        reduced = self.reduced if self.reduced == other.reduced else "?"
        for part in (self, other):
            if part.divisor == 1.0:
                return reduced, 1.0, ()
        if self.divisor == other.divisor:
            return reduced, self.divisor, self.divisor_origins
        return reduced, None, ()


def _plainer(one: Provenance, other: Provenance) -> Provenance:
    """Of two reasons for a dtype, the one that names a setting; else the first. A presumption in either stays one."""
    derived = bool(one) and one[0].how == "derived"
    plainer = other if other and (not one or (derived and other[0].how != "derived")) else one
    presumed = PRESUMED not in plainer and (PRESUMED in one or PRESUMED in other)
    return (*plainer, PRESUMED) if presumed else plainer


class Tensor(Abstract):
    """A tensor, or a nest of tensors that a model returns."""

    __slots__ = ("facts",)

    def __init__(self, facts: TensorFacts = TensorFacts(), origins: Provenance = ()) -> None:
        super().__init__(origins)
        self.facts = facts


NONE = Const(None)


def with_origin(value: Abstract, *steps: Step) -> Abstract:
    """The same value with further steps at the end of its provenance. Objects keep their identity and stay as they are."""
    if isinstance(value, Choice):
        return Choice(value.test, with_origin(value.yes, *steps), with_origin(value.no, *steps))
    return replace_origins(value, value.origins + tuple(step for step in steps if step not in value.origins))


def replace_origins(value: Abstract, origins: Provenance) -> Abstract:
    """A constant, symbol or unknown with this provenance instead of its own."""
    if isinstance(value, Const):
        return Const(value.value, origins, value.varies)
    if isinstance(value, Symbol):
        return Symbol(value.name, origins)
    if isinstance(value, Unknown) and not isinstance(value, Returned):
        return Unknown(value.reason, origins, value.varies, value.uid, value.autocast)
    return value


def is_none(value: Abstract) -> bool:
    return isinstance(value, Const) and value.value is None


def by_iteration(*values: Abstract) -> Abstract:
    """One of these values in one iteration, another in the next. An object that may be missing stays an object: whoever calls
    its methods has it."""
    unknown = Unknown("changes from one iteration to the next", varies=True)
    objects = [value for value in values if isinstance(value, (Object, Instance))]
    if len(values) == 2 and len(objects) == 1 and any(is_none(value) for value in values):
        return Choice(unknown.uid, objects[0], Const(None))
    return _alike(*values) or unknown if len(values) == 2 else unknown


def _alike(one: Abstract, other: Abstract) -> Abstract | None:
    """Two tensors, or containers with the same places, are known as far as both are; None where they differ in kind."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return Tensor(one.facts.joined(other.facts), one.origins)
    if (
        isinstance(one, DictValue)
        and isinstance(other, DictValue)
        and one.items
        and one.items.keys() == other.items.keys()
    ):
        return DictValue({key: by_iteration(one.items[key], other.items[key]) for key in one.items}, one.complete)
    if isinstance(one, ListValue) and isinstance(other, ListValue) and len(one.items) == len(other.items) > 0:
        pairs = zip(one.items, other.items, strict=True)
        return ListValue(tuple(by_iteration(*pair) for pair in pairs), one.kind, one.complete and other.complete)
    return None


def leaves(value: Abstract) -> Iterator[Abstract]:
    """The possible values of a value."""
    if isinstance(value, Choice):
        yield from leaves(value.yes)
        yield from leaves(value.no)
    else:
        yield value
