"""A trace: what one run does, in one consistent world."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from t4lint.trace.events import Event, Predicate
from t4lint.trace.values import Fact, Value

E = TypeVar("E", bound=Event)
Basis = Literal["predicted", "t4", "gpu", "phantom", "cpu"]


@dataclass(frozen=True, slots=True)
class Gap:
    """What the trace may have missed.

    `could` are the kinds of event that may have happened unseen: an unknown call, a stop after N steps. `outside` marks
    what no program text could show (a launch on another machine): it lowers confidence instead of blocking. `later`: only
    what would have come after the last event can be missing, since a run was watched until then.
    """

    could: frozenset[type[Event]]
    why: str
    outside: bool = False
    later: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """The events of one run in order, for one target.

    `target` is a `t4lint.devices.Target`. `versions` maps a library to its version (a string, unknown when the newest
    is assumed). `basis` says where it comes from: "predicted" from source, or the machine that it was observed on.
    """

    basis: Basis
    target: Any
    versions: Mapping[str, Value]
    events: tuple[Event, ...]
    gaps: tuple[Gap, ...] = ()
    imported: frozenset[str] = field(default=frozenset())  # top-level libraries that the run imports
    kinds: frozenset[type[Event]] | None = None  # the kinds that it was built for; None: all
    # versions that nothing pins, presumed since the program gives arguments that later ones refuse
    presumed: Mapping[str, Value] = field(default_factory=dict)
    _of_kind: dict[type[Event], tuple[Event, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def all(self, kind: type[E]) -> Iterator[E]:
        """The events of a kind, in order. Raises LookupError for a kind that the rule does not declare to read."""
        if self.kinds is not None and kind not in self.kinds and kind is not Event:
            raise LookupError(f"the rule reads {kind.__name__} without declaring it")
        found = self._of_kind.get(kind)
        if found is None:
            found = self._of_kind[kind] = tuple(event for event in self.events if isinstance(event, kind))
        return iter(found)  # type: ignore[arg-type]

    def ever(self, kind: type[E], where: Callable[[E], Fact] = lambda event: Fact(True)) -> Fact:
        """Does an event of this kind happen for which `where` holds? Unknown where the trace has gaps."""
        return ~self.never(kind, where)

    def never(self, kind: type[E], where: Callable[[E], Fact] = lambda event: Fact(True)) -> Fact:
        """Absence, honest about gaps: a gap inside the program makes it unknown, one outside makes it only likely."""
        judged = [where(event) for event in self.all(kind)]
        for fact in judged:
            if fact.holds:
                return ~fact
        undecided = tuple(value for fact in judged if fact.holds is None for value in fact.rests_on)
        if any(fact.holds is None for fact in judged):
            return Fact(None, undecided)
        gaps = [gap for gap in self.gaps if kind in gap.could]
        inside = tuple(Value(unknown=gap.why) for gap in gaps if not gap.outside)
        if inside:
            return Fact(None, inside)
        return Fact(True, tuple(Value(gap.why, likely=True) for gap in gaps))

    def unbroken(self, kind: type[E]) -> Fact:
        """Are all events of this kind up to the last one here, so that their order can be judged?"""
        inside = [gap for gap in self.gaps if kind in gap.could and not gap.outside and not gap.later]
        return Fact(None, tuple(Value(unknown=gap.why) for gap in inside)) if inside else Fact(True)

    def led_to(self, predicate: Predicate, value: Value) -> Fact:
        """Did the answer of `predicate` decide `value`? In an observed trace any later value may have been."""
        if self.basis != "predicted":
            return Fact(True, (Value(True, likely=True),))
        asked = {origin.location for origin in predicate.result.origins if origin.location is not None}
        return Fact(any(origin.how == "target" and origin.location in asked for origin in value.origins))

    def version_at_least(self, library: str, version: str) -> Fact:
        """Is the library at least this version? Without any knowledge, the newest is assumed, and that is only likely."""
        value = self.versions.get(library) or self.presumed.get(library, Value(unknown="no version is pinned"))
        return value.test(lambda it: release(it) >= release(version), if_unknown=True)


def release(version: str) -> tuple[int, ...]:
    """`"2.13.0+cpu"` → `(2, 13, 0)`; what is not a number ends it."""
    numbers: list[int] = []
    for part in version.split("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)
