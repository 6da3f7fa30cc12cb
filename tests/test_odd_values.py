"""No rule fails on a value of an unexpected kind: programs pass None, texts and numbers where libraries expect others."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from t4lint.devices import find_target
from t4lint.engine import rules
from t4lint.findings import Problem
from t4lint.interpret.project import Project, find_root
from t4lint.interpret.run import interpret
from t4lint.interpret.worlds import Worlds
from t4lint.rule import Rule
from t4lint.trace import Backward, Call, Event, Step, Trace, Value

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
OWN = (Backward, Step)  # what t4lint itself makes: bands, shares and counts
OWN_FIELDS = ("accepts", "name", "parameters", "work")
ODD = (None, "auto", -1, 0, 1.5, 10**12, True, (), {}, ("a", None))


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.name)
def test_odd_values(rule: Rule) -> None:
    """Each value of each kind of event in turn, in the trace of a program that the rule reports."""
    for trace in traces(rule):
        for changed in with_odd_values(trace):
            for candidate in rule.check(changed, *([rule.options()] if rule.options else [])):
                rule.message.format(**candidate.words)


def traces(rule: Rule) -> Iterator[Trace]:
    for path in sorted((FIXTURES / rule.name).glob("bad_*"))[:3]:
        script = path if path.is_file() else next((p for p in sorted(path.rglob("*.py"))), None)
        if script is None or script.suffix not in (".py", ".ipynb"):
            continue
        result = interpret(Project(find_root(script), path.parent), script, find_target("t4"), {})
        assert not isinstance(result, Problem)
        for segment in result.segments[:1]:
            yield next(iter(Worlds(result.machine, segment, {}, launched=False).traces(rule.reads)))


def with_odd_values(trace: Trace) -> Iterator[Trace]:
    seen = set()
    for place, event in enumerate(trace.events):
        for name in [field.name for field in dataclasses.fields(event)]:
            value = getattr(event, name)
            if isinstance(event, OWN) or name in OWN_FIELDS or (type(event), event.role, name) in seen:
                continue
            if isinstance(value, Value):
                seen.add((type(event), event.role, name))
                for odd in ODD:
                    yield swapped(trace, place, dataclasses.replace(event, **{name: Value(odd)}))
            elif isinstance(event, Call) and name == "arguments":
                for key in value:
                    for odd in ODD:
                        yield swapped(trace, place, dataclasses.replace(event, arguments={**value, key: Value(odd)}))


def swapped(trace: Trace, place: int, event: Event) -> Trace:
    return dataclasses.replace(trace, events=(*trace.events[:place], event, *trace.events[place + 1 :]))
