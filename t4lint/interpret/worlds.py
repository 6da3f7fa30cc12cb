"""From drafts to traces: undecided tests become worlds, abstract values become values with provenance.

A rule sees one consistent world at a time: an assignment of a side to each undecided test that matters to the kinds of
event that it reads. Beyond eight worlds the remaining tests stay open: their values are unknown there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import chain, product
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

from t4lint.interpret.machine import Draft, GapDraft, Machine
from t4lint.interpret.values import (
    PRESUMED,
    Abstract,
    Choice,
    Class,
    Const,
    DictValue,
    Function,
    Instance,
    ListValue,
    Object,
    Provenance,
    Symbol,
    Unknown,
)
from t4lint.libraries.api import plain
from t4lint.trace import (
    NOT_SAID,
    Autocast,
    Call,
    Compile,
    Engine,
    Event,
    Gap,
    Launch,
    Loader,
    Location,
    Model,
    Optimizer,
    Origin,
    ProcessGroup,
    Trace,
    Value,
    Wrap,
)
from t4lint.trace import Step as OptimizerStep

MAX_TESTS = 3  # eight worlds
# what the quantities of a step are computed from
QUANTIFIED: frozenset[type[Event]] = frozenset(
    {Model, Optimizer, Engine, Loader, Launch, ProcessGroup, Wrap, Call, Autocast, Compile, OptimizerStep}
)


@cache
def plain_fields(kind: Any) -> frozenset[str]:
    """The fields of a kind of event that are text, not values."""
    return frozenset(item.name for item in fields(kind) if item.type == "str")


@dataclass(slots=True)
class Segment:
    """A part of an interpretation that is judged on its own: the run, or a function that nothing called."""

    drafts: list[Draft]
    gaps: list[GapDraft]
    uncalled: bool = False


class Worlds:
    """Builds the traces of one segment for one rule at a time; events are built once and shared."""

    def __init__(
        self,
        machine: Machine,
        segment: Segment,
        versions: Mapping[str, Value],
        launched: bool,
        presumed: Mapping[str, Value] = MappingProxyType({}),
    ) -> None:
        self.machine = machine
        self.segment = segment
        self.versions = versions
        self.presumed = presumed
        self.launched = launched
        self.imported = frozenset(machine.imported)
        self._events: dict[tuple[int, tuple[tuple[str, bool | None], ...]], Event] = {}
        self._tests: dict[int, tuple[str, ...]] = {}
        self._kinds: dict[type[Event], list[int]] = {}  # of the drafts, with their places in the segment
        for number, draft in enumerate(segment.drafts):
            self._kinds.setdefault(draft.kind, []).append(number)

    def traces(self, kinds: tuple[type[Event], ...]) -> list[Trace]:
        """One trace a world for a rule that reads these kinds."""
        read = self.drafts([kind for kind in self._kinds if issubclass(kind, kinds)])
        wanted = frozenset(kinds) | (QUANTIFIED if OptimizerStep in kinds else frozenset())
        drafts = read if wanted == frozenset(kinds) else self.drafts([kind for kind in self._kinds if kind in wanted])
        counts: Counter[str] = Counter()
        for draft in read:
            counts.update(self.tests_of(draft))
        tests = [test for test, _ in counts.most_common(MAX_TESTS)]
        worlds = [dict(zip(tests, sides, strict=True)) for sides in product((True, False), repeat=len(tests))]
        return [self.trace(drafts, world, wanted) for world in worlds]

    def drafts(self, kinds: Iterable[type[Event]]) -> list[Draft]:
        """The drafts of some kinds, in their order."""
        places = sorted(chain.from_iterable(self._kinds[kind] for kind in kinds))
        return [self.segment.drafts[place] for place in places]

    def tests_of(self, draft: Draft) -> tuple[str, ...]:
        """The tests that a draft depends on, in the order in which they are met: a set's would change from run to run."""
        if id(draft) not in self._tests:
            found = dict.fromkeys(draft.guards)
            for value in draft.fields.values():
                _collect(value, found)
            self._tests[id(draft)] = tuple(found)
        return self._tests[id(draft)]

    def trace(
        self, drafts: Iterable[Draft], world: Mapping[str, bool], kinds: frozenset[type[Event]] | None = None
    ) -> Trace:
        events = tuple(event for event in (self.event(draft, world) for draft in drafts) if event is not None)
        gaps = tuple(
            Gap(gap.kinds, gap.why, gap.outside)
            for gap in self.segment.gaps
            if all(world.get(test, side) is side for test, side in gap.guards.items())
        )
        return Trace("predicted", self.machine.target, self.versions, events, gaps, self.imported, kinds, self.presumed)

    def event(self, draft: Draft, world: Mapping[str, bool]) -> Event | None:
        if draft.guards and any(world.get(test, side) is not side for test, side in draft.guards.items()):
            return None
        tests = self.tests_of(draft)
        key = (id(draft), tuple([(test, world.get(test)) for test in tests]) if tests else ())
        if key not in self._events:
            self._events[key] = self.build(draft, world)
        return self._events[key]

    def build(self, draft: Draft, world: Mapping[str, bool]) -> Event:
        open_guards = frozenset((test, side) for test, side in draft.guards.items() if test not in world)
        kind: Any = draft.kind
        texts = plain_fields(kind)
        values = {name: value if name in texts else self.value(value, world) for name, value in draft.fields.items()}
        values.update({name: number(value) for name, value in values.items() if name in QUANTITIES})
        return draft.kind(
            where=self.where(draft), role=draft.role, subject=draft.subject, loops=draft.loops, phase=draft.phase,
            guards=open_guards, **values,
        )  # fmt: skip

    def where(self, draft: Draft) -> Location:
        """The person's own statement around the node."""
        source = draft.source
        if not source.document.text:  # a launch: its place is that of the command
            return source.location(draft.node)
        return source.statement(draft.node)

    # --- values ---

    def value(self, value: Any, world: Mapping[str, bool]) -> Any:
        if value is None:
            return NOT_SAID
        if isinstance(value, Value):
            return replace(value, origins=tuple(map(self.placed, value.origins))) if self.machine.moved else value
        if isinstance(value, dict):
            return {str(key): self.value(item, world) for key, item in value.items()}
        if not isinstance(value, Abstract):
            return Value(value)
        value = _settled(value, world)
        origins, likely = self.origins(value.origins)
        if isinstance(value, Choice):
            return Value(unknown="it depends on a test that is not decided", origins=origins)
        if isinstance(value, Const):
            plain_value = str(value.value) if isinstance(value.value, PurePath) else value.value
            return Value(plain_value, origins, likely=likely)
        if isinstance(value, Symbol):
            name = value.name.removeprefix("torch.") if value.name.count(".") == 1 else value.name
            return Value(name, origins, likely=likely)
        if isinstance(value, Unknown):
            return Value(unknown=value.reason, origins=origins)
        if isinstance(value, Object) and value.kind == "device":
            return self.value(value.attributes["type"], world)
        if isinstance(value, (ListValue, DictValue)):
            try:
                return Value(plain(value), origins, likely=likely)
            except ValueError:
                return Value(unknown="not all of its parts are known", origins=origins)
        if isinstance(value, Object):
            return Value(value.name, origins)
        if isinstance(value, Instance):
            return Value(value.cls.name, origins)
        if isinstance(value, (Function, Class)):
            return Value(value.name, origins)
        return Value(unknown="it is computed while the program runs", origins=origins)

    def placed(self, origin: Origin) -> Origin:
        """An origin in a launch that is like this one, with its place in this one."""
        location = self.machine.moved.get(origin.location) if origin.location is not None else None
        return origin if location is None else replace(origin, location=location)

    def origins(self, steps: Provenance) -> tuple[tuple[Origin, ...], bool]:
        """Provenance with places; and whether it rests on a presumption: a flag's default without a launch in sight."""
        origins = []
        likely = False
        for step in steps:
            if step is PRESUMED:
                likely = True
                continue
            if step.how == "default" and step.note.startswith("default of -") and not self.launched:
                likely = True
            location = self.machine.moved.get(step.location, step.location) if step.location else None
            if location is None and step.node is not None and step.source is not None:
                location = step.source.location(step.node)
            origins.append(Origin(step.how, step.note, location))
        return tuple(origins), likely


# fields that count something: anything but a number there is a fault of another kind, and no quantity
QUANTITIES = frozenset({
    "micro_batch", "eval_micro_batch", "batch_size", "accumulation", "sequence_length", "workers", "prefetch_factor",
    "parameters", "trainable", "backwards", "length", "head_dim",
})  # fmt: skip


def number(value: Any) -> Any:
    """A quantity as a number, or unknown: `--bs` without `type=int` is text."""
    if not isinstance(value, Value) or not value.known or value.it is None:
        return value
    if isinstance(value.it, (int, float)) and not isinstance(value.it, bool):
        return value
    return replace(value, it=None, unknown=f"it is no number: {str(value.it)[:40]!r}")


MAX_DEPTH = 6  # of nested containers in a field: a dict may hold itself


def _collect(value: Any, found: dict[str, None], depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, Choice):
        found.setdefault(value.test)
        _collect(value.yes, found, depth + 1)
        _collect(value.no, found, depth + 1)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, found, depth + 1)
    elif isinstance(value, DictValue):
        for item in value.items.values():
            _collect(item, found, depth + 1)


def _settled(value: Abstract, world: Mapping[str, bool]) -> Abstract:
    while isinstance(value, Choice) and value.test in world:
        value = value.yes if world[value.test] else value.no
    return value


def with_presumption(trace: Trace) -> Trace:
    """A trace of a function that nothing called: what surrounds it is not known, so every absence is unknown."""
    everything = frozenset(kind for kind in Event.__subclasses__())
    return replace(trace, gaps=(*trace.gaps, Gap(everything, "nothing in the project calls this function")))


def segments(machine: Machine, cut: int) -> Iterator[Segment]:
    """The run itself."""
    yield Segment(machine.drafts[:cut], machine.gaps)
