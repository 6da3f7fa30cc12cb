"""The state of one interpretation: scopes, the trail, the path, what was emitted, and how calls are made.

A machine interprets one run: one script, its arguments and environment, for one target.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from t4lint.findings import Problem
from t4lint.interpret import calls, expressions, methods, statements
from t4lint.interpret.project import Project
from t4lint.interpret.source import SourceModule
from t4lint.interpret.values import (
    Abstract,
    Bound,
    Choice,
    Class,
    Const,
    Function,
    Instance,
    Object,
    Returned,
    Scope,
    Step,
    Symbol,
    Tensor,
    Unknown,
    leaves,
    with_origin,
)
from t4lint.libraries.api import Arguments
from t4lint.libraries.registry import newest_version
from t4lint.trace import Backward, Event, Location, release
from t4lint.trace import Step as OptimizerStep

MISSING: Any = object()

MAX_HEARD = 20_000  # library calls that are kept for who asks
MAX_STEPS = 400_000  # expressions and statements in one run
MAX_DEPTH = 40  # nested calls into project functions
MAX_ENTRIES = 40  # entries into one function
MAX_SMALL_ENTRIES = 300  # entries into one of a few statements
MAX_LEAVES = 8  # possible values of one value
MAX_EVENTS = 20_000


class Exhausted(Exception):  # noqa: N818 - no error: what is known so far stands
    """The budget of this interpretation is used up; what is known so far stands."""


@dataclass(slots=True)
class Draft:
    """An event before positions and worlds: its fields are values of the abstract domain."""

    kind: type[Event]
    source: SourceModule
    node: ast.AST
    guards: dict[str, bool]
    loops: tuple[str, ...]
    role: str
    subject: str
    phase: str
    fields: dict[str, Any]


@dataclass(slots=True)
class GapDraft:
    kinds: frozenset[type[Event]]
    why: str
    guards: dict[str, bool]
    outside: bool = False


@dataclass(slots=True)
class Loop:
    """A loop that is being run. `by_index`: a test in it was decided by the value of this iteration; `batches`: it runs over
    what a loader gives; `grown`: sequences that it appends to; `whole`: all of its iterations were followed."""

    identity: str
    node: Any
    frame: Frame
    by_index: bool = False
    batches: bool = False
    grown: list[Any] = field(default_factory=list)
    whole: bool = False


@dataclass(slots=True)
class Frame:
    """One entry into a function or module. `pending` are returns under undecided tests."""

    source: SourceModule
    scope: Scope
    function: Function | None = None
    receiver: Abstract | None = None
    pending: list[tuple[str, bool, Abstract]] = field(default_factory=list)
    apart: list[ast.If] = field(default_factory=list)  # branches around here that only some processes take
    yields: list[Abstract] = field(default_factory=list)
    streams: bool = False  # a `yield` in a loop or under a test: how many there are is not known
    loops: int = 0  # that were open at entry
    ends: bool = False  # a return from it ends the program
    forks: int = 0  # undecided tests around its entry


class Heard(NamedTuple):
    """A library call with its evaluated arguments, and the node that makes it."""

    function: str
    arguments: Any
    source: SourceModule
    node: ast.AST


class Site:
    """Context manager of `Machine.at`: a class, which costs a third of a generator."""

    __slots__ = ("sites", "what")

    def __init__(self, sites: list[tuple[SourceModule, ast.AST]], source: SourceModule, node: ast.AST) -> None:
        self.sites = sites
        self.what = (source, node)

    def __enter__(self) -> None:
        self.sites.append(self.what)

    def __exit__(self, *exception: object) -> None:
        self.sites.pop()


class Machine:
    """Interprets one run. Library models see it through `libraries.api.MachineApi`."""

    def __init__(
        self,
        project: Project,
        target: Any,
        versions: Mapping[str, str],
        arguments: Any = (),
        environment: Mapping[str, Abstract] | None = None,
        launch: Any = None,
    ) -> None:
        self.project = project
        self.target = target
        self.versions = versions
        self.presumed: frozenset[str] = (
            frozenset()
        )  # the libraries whose version no file pins, but that one is presumed of
        self.arguments = arguments
        self.environment: dict[str, Abstract] = dict(environment or {})
        self.launch = launch
        self.moved: dict[Location, Location] = {}  # places in a launch like this one → places in this one
        self.drafts: list[Draft] = []
        self.gaps: list[GapDraft] = []
        self.notes: list[str] = []
        self.unread: list[Problem] = []  # configurations that cannot be read
        self.given_up: list[str] = []  # why parts of the program were not followed
        self.logs: list[list[tuple[Any, Any, Any]]] = []
        self.path: dict[str, bool] = {}
        self.tests: dict[str, tuple[SourceModule, ast.AST]] = {}  # where undecided tests are written, by their names
        self.stopping: set[str] = set()  # tests whose other side ends the program before it does anything
        self.last = True  # does the program end after the statement that is run?
        self.regions: list[Any] = []
        self.loops: list[Loop] = []
        self.backward_in: set[str] = set()  # loops with a backward directly inside
        self.stepped_in: set[str] = set()  # loops with an optimizer step somewhere inside
        self.surely_stepped_in: set[str] = set()  # those of whose step it is known how many backwards it takes
        self.frames: list[Frame] = []
        self.control: tuple[Step, ...] = ()
        self.because: tuple[Step, ...] = ()
        self.choosing: tuple[Step, ...] = ()
        self.sites: list[tuple[SourceModule, ast.AST]] = []
        self.entries: dict[int, int] = {}
        self.entered: set[int] = set()
        self.defined: list[Function] = []
        self.heard: list[Heard] | None = None  # the library calls so far, where somebody wants to know them
        self.steps = 0
        self.most_steps = MAX_STEPS
        self.spent = 0  # steps before those that are being counted
        self.in_forward = 0
        self.later = False  # an iteration that stands for all later ones is being run
        self.numbered = 0  # tests around that the number of the iteration decided
        self.sometimes = 0  # tests around that are decided anew in each iteration, and not known
        self.phase = "setup"
        self.grad = True
        self.forks = 0  # undecided tests around what runs
        self.ended = ""  # why the last path that ended did so: "target", "error", "exit"
        self.died: Any = None  # the block of the branch in which it did
        self.chained: Any = None  # the `elif` of the branch that is run
        self.catching = 0  # `try` blocks with handlers around what runs
        self.uncalled = False  # is what runs a function that nothing calls
        self.imported: set[str] = set()
        self.versions_asked: set[str] = set()
        self.flags: dict[str, Any] = {}
        self.globals: dict[str, Any] = {}

    # --- budget ---

    def tick(self) -> None:
        self.steps += 1
        if self.steps > self.most_steps:
            self.exhausted()

    def exhausted(self) -> NoReturn:
        raise Exhausted(f"the program needs more than {self.most_steps} steps to interpret")

    # --- state that branches can roll back ---

    def write(self, mapping: Any, key: Any, value: Any) -> None:
        if self.logs:
            self.logs[-1].append((mapping, key, mapping.get(key, MISSING)))
        mapping[key] = value

    def erase(self, mapping: Any, key: Any) -> None:
        if key in mapping:
            if self.logs:
                self.logs[-1].append((mapping, key, mapping[key]))
            del mapping[key]

    def captured(self, run: Callable[[], Any]) -> tuple[Any, dict[tuple[int, Any], tuple[Any, Any]]]:
        """Run something, roll its writes back, and return its result with the final state of what it wrote."""
        self.logs.append([])
        try:
            result = run()
        finally:
            log = self.logs.pop()
        final = {(id(mapping), key): (mapping, mapping.get(key, MISSING)) for mapping, key, _ in log}
        for mapping, key, old in reversed(log):
            if old is MISSING:
                mapping.pop(key, None)
            else:
                mapping[key] = old
        return result, final

    @contextmanager
    def assuming(self, test: str, side: bool) -> Iterator[None]:
        """Everything inside happens only in the worlds where the test has this side."""
        before = self.path
        self.path = {**before, test: side}
        try:
            yield
        finally:
            self.path = before

    def fork(self, test: str, yes: Callable[[], Any], no: Callable[[], Any]) -> tuple[Any, Any]:
        """Run both sides of an undecided test from the same state, and merge what they wrote."""
        if test in self.path:
            taken = self.path[test]
            result = yes() if taken else no()
            return (result, result)
        self.forks += 1
        try:
            with self.assuming(test, True):
                first, first_writes = self.captured(yes)
            with self.assuming(test, False):
                second, second_writes = self.captured(no)
        finally:
            self.forks -= 1
        ends = statements.ends
        if ends(first) and not ends(second):
            self.apply(second_writes)
        elif ends(second) and not ends(first):
            self.apply(first_writes)
        else:
            self.merge(test, first_writes, second_writes)
        return first, second

    def apply(self, writes: dict[tuple[int, Any], tuple[Any, Any]]) -> None:
        for (_, key), (mapping, value) in writes.items():
            if value is not MISSING:
                self.write(mapping, key, value)
            else:
                self.erase(mapping, key)

    def merge(self, test: str, yes: Mapping[Any, Any], no: Mapping[Any, Any]) -> None:
        for slot in [*yes, *(slot for slot in no if slot not in yes)]:
            mapping, key = (yes.get(slot) or no[slot])[0], slot[1]
            current = mapping.get(key, MISSING)
            first = yes[slot][1] if slot in yes else current
            second = no[slot][1] if slot in no else current
            value = self.joined(test, first, second)
            if value is not MISSING:
                self.write(mapping, key, value)

    def joined(self, test: str, yes: Any, no: Any) -> Any:
        """The value of a slot after a fork."""
        if yes is MISSING or no is MISSING:
            return no if yes is MISSING else yes
        if yes is no:
            return yes
        if not isinstance(yes, Abstract) or not isinstance(no, Abstract):
            return yes if isinstance(yes, (int, str, tuple, bool)) and yes == no else self.joined_plain(yes, no)
        if isinstance(yes, Const) and isinstance(no, Const) and same(yes, no):
            return yes
        if isinstance(yes, Tensor) and isinstance(no, Tensor):
            return Tensor(yes.facts.joined(no.facts), yes.origins)
        if sum(1 for _ in leaves(yes)) + sum(1 for _ in leaves(no)) > MAX_LEAVES:
            return Unknown("too many possibilities")
        return Choice(test, yes, no)

    @staticmethod
    def joined_plain(yes: Any, no: Any) -> Any:
        """Plain state of containers: the longer tuple of items is the upper bound; a flag stays set only if both set it."""
        if isinstance(yes, tuple) and isinstance(no, tuple):
            return yes if len(yes) >= len(no) else no
        if isinstance(yes, bool) and isinstance(no, bool):
            return yes and no
        return yes

    def resolve(self, value: Abstract) -> Abstract:
        """A choice whose test is decided on this path becomes the chosen side."""
        while isinstance(value, Choice) and value.test in self.path:
            value = value.yes if self.path[value.test] else value.no
        if isinstance(value, Returned) and value.network is not None:
            return value.network
        return value

    def mapped(self, value: Abstract, function: Callable[[Abstract], Abstract]) -> Abstract:
        """Apply a pure function to each possible value."""
        if not isinstance(value, Choice):
            return function(value)
        value = self.resolve(value)
        if not isinstance(value, Choice):
            return function(value)
        yes, no = self.mapped(value.yes, function), self.mapped(value.no, function)
        joined: Abstract = self.joined(value.test, yes, no)
        return joined

    def note_test(self, test: Abstract, node: ast.AST) -> None:
        """Where an undecided test is written, for people who ask why."""
        if isinstance(test, (Unknown, Choice)):
            name, _ = expressions.test_name(self, test)
            self.tests.setdefault(name, (self.frames[-1].source, node))

    # --- what is said ---

    def emit(self, kind: type[Event], role: str = "", subject: str = "", **fields: Any) -> None:
        """Say that an event happens at the call that is being evaluated."""
        if len(self.drafts) >= MAX_EVENTS:
            raise Exhausted(f"the program causes more than {MAX_EVENTS} events")
        source, node = self.sites[-1] if self.sites else (self.frames[-1].source, self.frames[-1].source.tree)
        if self.control:
            fields = {name: self.controlled(value) for name, value in fields.items()}
        loops = tuple(loop.identity for loop in self.loops)
        if loops and kind is Backward:
            self.backward_in.add(loops[-1])
        elif loops and kind is OptimizerStep:
            self.stepped_in.update(loops)
            if isinstance(fields.get("backwards"), Const):
                self.surely_stepped_in.update(loops)
        self.drafts.append(Draft(kind, source, node, self.guards(), loops, role, subject, self.phase, fields))

    def guards(self) -> dict[str, bool]:
        """The undecided tests that what happens now depends on. A run that stops before it trains is none to speak of."""
        if not self.stopping or self.stopping.isdisjoint(self.path):
            return self.path
        return {test: side for test, side in self.path.items() if test not in self.stopping}

    def controlled(self, value: Any) -> Any:
        """A value that was chosen in a branch which the target decided says so; a library's default was chosen by nobody."""
        if not isinstance(value, (Const, Symbol, Choice)) or not value.origins:
            return value
        first = value.origins[0]
        by_library = first.how == "default" and first.node is None and first.location is None
        return value if by_library else with_origin(value, *self.control)

    def now_and_then(self) -> bool:
        """Is what happens here under a test that the last backward was not under, and that each iteration decides anew?"""
        sometimes = self.globals.get("$backward sometimes", self.sometimes)
        numbered = self.globals.get("$backward numbered", self.numbered)
        return bool(self.sometimes > sometimes or self.numbered > numbered)

    def gap(self, kinds: Iterable[type[Event]], why: str, outside: bool = False) -> None:
        self.gaps.append(GapDraft(frozenset(kinds), why, self.guards(), outside))

    def here(self, how: Any, note: str) -> Step:
        """A provenance step that points at the call that is being evaluated."""
        if not self.sites:
            return Step(how, note)
        source, node = self.sites[-1]
        return Step(how, note, source, node)

    def at(self, source: SourceModule, node: ast.AST) -> Site:
        """Inside, what is said is said of a node."""
        return Site(self.sites, source, node)

    def hear(self, function: str, arguments: Any) -> None:
        """A library function is about to be called."""
        if self.heard is not None and self.sites and len(self.heard) < MAX_HEARD:
            self.heard.append(Heard(function, arguments, *self.sites[-1]))

    # --- versions ---

    def version(self, library: str) -> str | None:
        """The version of a library as pinned by the project or the settings; None when the newest is assumed."""
        self.versions_asked.add(library)
        return self.versions.get(library)

    def at_least(self, library: str, version: str) -> bool:
        """Is the library, pinned or the newest known, at least this version?"""
        return release(self.version(library) or newest_version(library)) >= release(version)

    def has(self, name: str) -> bool | None:
        """Does a library offer a name in the version that runs? None when that is not known."""
        from t4lint.libraries.torch_cuda import SINCE

        return self.at_least("torch", SINCE[name]) if name in SINCE else None

    # --- semantics, in modules of their own ---

    def truth(self, value: Abstract) -> bool | None:
        return expressions.truth(self, value)

    def evaluate(self, node: ast.expr) -> Abstract:
        return expressions.evaluate(self, node)

    def call(self, callee: Abstract, arguments: Arguments) -> Abstract:
        return calls.call(self, callee, arguments)

    def method(self, receiver: Abstract, name: str, arguments: Arguments) -> Abstract:
        return methods.call_method(self, receiver, name, arguments)

    def attribute(self, receiver: Abstract, name: str) -> Abstract:
        return methods.attribute(self, receiver, name)

    def autocast_dtype(self) -> str:
        """The dtype of the innermost enabled autocast region: "none" outside one, "?" where it is not known."""
        from t4lint.libraries.torch_autocast import active_dtype

        return active_dtype(self)

    def is_module(self, value: Abstract) -> bool:
        """Is it a neural network: a library's, or an instance of the project's own class?"""
        if isinstance(value, Object):
            return value.kind in ("module", "model")
        return isinstance(value, Instance) and calls.is_network(value.cls)

    def bound(self, receiver: Abstract, method: Function | str) -> Bound:
        return Bound(receiver, method)

    def class_of(self, value: Abstract) -> Class | None:
        return value.cls if isinstance(value, Instance) else None


def same(a: Const, b: Const) -> bool:
    try:
        return type(a.value) is type(b.value) and bool(a.value == b.value)
    except Exception:
        return False
