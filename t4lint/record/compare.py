"""Do the two witnesses agree? What the interpreter claims to know of a run, against what the recorder saw of it.

An event that both name is the same event when its key is; each of its fields that both know must agree. The run must be
one of the worlds that were predicted, so that the world with the fewest disagreements counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from t4lint.trace import (
    Attention,
    Autocast,
    Backward,
    Call,
    Copy,
    DataRead,
    Engine,
    Event,
    Forward,
    GradientRead,
    HostSync,
    Keep,
    Key,
    Loader,
    Model,
    Operation,
    Optimizer,
    Predicate,
    ProcessGroup,
    Scaler,
    Step,
    Switch,
    Trace,
    Value,
    Wrap,
    ZeroGrad,
)

# the kinds of which both witnesses tell all
WHOLE: tuple[type[Event], ...] = (
    Autocast, Backward, Engine, GradientRead, Keep, Loader, Optimizer, Predicate, Scaler, Step, Wrap, ZeroGrad,
)  # fmt: skip
# those of which each tells what it can: only what both tell is compared
PARTLY: tuple[type[Event], ...] = (
    Attention, Call, Copy, DataRead, Forward, HostSync, Model, Operation, ProcessGroup, Switch,
)  # fmt: skip
KINDS = WHOLE + PARTLY
_WHOLE = frozenset(kind.__name__ for kind in WHOLE)
# names of objects are each witness's own
OWN = frozenset(
    {
        "subject", "where", "role", "loops", "step", "micro", "phase", "guards", "evidence", "optimizer", "arguments",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many facts (events, and known fields of them) were held against each other, and which do not agree."""

    facts: int
    disagreements: tuple[str, ...]


def compare(worlds: Iterable[Trace], observed: Trace, *, whole: bool = True) -> Comparison:
    """The best of the worlds. `whole`: the run came so far that what it did not do counts against the prediction."""
    found = [_one(world, observed, whole) for world in worlds]
    return min(found, key=lambda it: (len(it.disagreements), -it.facts)) if found else Comparison(0, ())


def _one(predicted: Trace, observed: Trace, whole: bool) -> Comparison:
    claims, seen = by_key(predicted), by_key(observed)
    found: list[str] = []
    facts = 0
    for key, events in claims.items():
        if key.kind in _WHOLE and key not in seen and whole and not any(event.guards for event in events):
            found.append(f"{_named(key)}: predicted, never seen")
            facts += 1
    for key, events in seen.items():
        facts += key in claims or key.kind in _WHOLE
        if key in claims:
            compared, wrong = _fields(key, claims[key], events)
            facts += compared
            found += wrong
        elif key.kind in _WHOLE:
            found.append(f"{_named(key)}: seen, not predicted")
    return Comparison(facts, tuple(found))


def _fields(key: Key, claims: list[Event], seen: list[Event]) -> tuple[int, list[str]]:
    facts, wrong = 0, []
    for item in fields(seen[0]):
        if item.name in OWN:
            continue
        claimed, complete = said(claims, item.name)
        observed, _ = said(seen, item.name)
        if complete and observed:
            facts += 1
            if not observed <= claimed:
                wrong.append(f"{_named(key, item.name)}: predicted {sorted(claimed)}, seen {sorted(observed)}")
    return facts, wrong


def _named(key: Key, name: str = "") -> str:
    return f"{key.kind}{'.' * bool(name)}{name} at {key.path}:{key.first_line}"


def by_key(trace: Trace) -> dict[Key, list[Event]]:
    """The events of a trace that both witnesses speak about. The recorder sees what is kept where a loader gives batches."""
    found: dict[Key, list[Event]] = defaultdict(list)
    for event in trace.events:
        if isinstance(event, KINDS) and not (isinstance(event, Keep) and event.batches.it is not True):
            found[event.key].append(event)
    return found


def said(events: list[Event], name: str) -> tuple[set[str], bool]:
    """What a witness says of a field over all events of one key, and whether it knows it every time."""
    values, complete = set(), True
    for event in events:
        value = getattr(event, name)
        if isinstance(value, Value):
            if not value.known:
                complete = False
                continue
            value = value.it
        values.add(repr(plain(name, value)))
    return values, complete


def plain(name: str, value: Any) -> Any:
    """A field as both witnesses would write it."""
    if name == "math" and isinstance(value, dict):
        return max(value, key=lambda dtype: value[dtype]) if value else None
    if name in ("scaled_by", "through_scaler"):
        return value not in ("none", "", False, None)
    if name in ("options", "work", "implementation"):  # what a sample costs is seen in part: what is decoded
        return None
    if isinstance(value, list):
        return tuple(value)
    return value
