"""The strongest test there is: what the interpreter claims to know of a program must be what the recorder saw.

Every fixture that runs on a CPU is interpreted for the target `cpu`, with the installed versions, and recorded there. An
event that both witnesses name is the same event when its key is; each of its fields that both know must agree.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import sys
from collections import defaultdict
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from t4lint.devices import find_target
from t4lint.interpret.project import Project
from t4lint.interpret.run import interpret
from t4lint.interpret.worlds import Worlds
from t4lint.trace import (
    Autocast,
    Backward,
    Engine,
    Event,
    GradientRead,
    Key,
    Loader,
    Optimizer,
    Predicate,
    Scaler,
    Step,
    Trace,
    Value,
    Wrap,
    ZeroGrad,
)

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
PROGRAMS = sorted(
    path
    for path in FIXTURES.glob("*/*.py")
    if path.read_text(encoding="utf-8").startswith("# runs: python")
    and path.name.startswith(("bad_", "good_"))
    and ".fixed" not in path.name
)
# the kinds that both witnesses speak about
KINDS: tuple[type[Event], ...] = (
    Autocast, Backward, Engine, GradientRead, Loader, Optimizer, Predicate, Scaler, Step, Wrap, ZeroGrad,
)  # fmt: skip
# names of objects are each witness's own
OWN = frozenset({"subject", "where", "role", "loops", "step", "micro", "phase", "guards", "evidence", "optimizer"})


def predicted(program: Path) -> list[Trace]:
    """The worlds that the interpreter sees; the run must be one of them."""
    versions = {name: importlib.metadata.version(name) for name in ("torch", "transformers", "trl", "accelerate")}
    result = interpret(Project(program.parent, program.parent), program, find_target("cpu"), versions)
    assert not hasattr(result, "message"), result
    return Worlds(result.machine, result.segments[0], {}, launched=True).traces(KINDS)  # type: ignore[union-attr]


def observed(program: Path) -> Trace:
    from t4lint.record.launch import record
    from t4lint.record.observe import trace_of

    recording = record([sys.executable, program.name], cwd=program.parent, steps=3, timeout=120)
    assert recording.outcome.how in ("finished", "stopped"), (recording.outcome, recording.stderr)
    return trace_of(recording, find_target("cpu"))


def by_key(trace: Trace) -> dict[Key, list[Event]]:
    found: dict[Key, list[Event]] = defaultdict(list)
    for event in trace.events:
        if isinstance(event, KINDS):
            found[event.key].append(event)
    return found


def plain(name: str, value: Any) -> Any:
    """A field as both witnesses would write it."""
    if name == "math" and isinstance(value, dict):
        return max(value, key=lambda dtype: value[dtype]) if value else None
    if name in ("scaled_by", "through_scaler"):
        return value not in ("none", "", False, None)
    if name == "options":
        return None
    if isinstance(value, list):
        return tuple(value)
    return value


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


def disagreements(program: Path, one: Trace, other: Trace) -> list[str]:
    claims, facts = by_key(one), by_key(other)
    found = [
        f"{key.kind} at line {key.first_line}: predicted, never seen"
        for key in claims
        if key not in facts and not any(event.guards for event in claims[key])
    ]
    for key, events in facts.items():
        if key not in claims:
            found.append(f"{key.kind} at line {key.first_line}: seen, not predicted")
            continue
        for item in fields(events[0]):
            if item.name in OWN:
                continue
            claimed, complete = said(claims[key], item.name)
            seen, _ = said(events, item.name)
            if complete and seen and not seen <= claimed:
                what = f"{key.kind}.{item.name} at line {key.first_line}"
                found.append(f"{what}: predicted {sorted(claimed)}, seen {sorted(seen)}")
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_two_witnesses_agree(program: Path, tmp_path: Path) -> None:
    copy = tmp_path / program.name
    shutil.copy(program, copy)
    run = observed(copy)
    found = min((disagreements(copy, world, run) for world in predicted(copy)), key=len)
    if found:
        pytest.fail("\n".join([str(program.relative_to(FIXTURES)), *found]), pytrace=False)
