"""Findings and what a run saw: which verdict they get."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from t4lint.findings import Finding, Verdict
from t4lint.record.launch import Outcome
from t4lint.rule import Candidate, Rule
from t4lint.trace import FALSE, NOT_SAID, Event, Loader, Location, Predicate, Trace, Value, unknown
from t4lint.verify import AROUND, AROUND_ONCE, ONLY_IN_FILES, ended, pair


class FakeTarget:
    gpu = "T4"


def place(line: int, last: int | None = None, path: str = "train.py") -> Location:
    return Location(path, line, 1, last or line, 80)


def loader(line: int, pinned: Value, path: str = "train.py") -> Loader:
    return Loader(
        where=place(line, path=path), batch_size=Value(4), workers=Value(0), pin_memory=pinned, evidence="pin_memory=?"
    )


def check_pin(trace: Trace) -> Iterator[Candidate]:
    for event in trace.all(Loader):
        yield Candidate(event, when=event.pin_memory.equals(False))


def broken(trace: Trace) -> Iterator[Candidate]:
    raise RuntimeError("a bug")
    yield


def make(name: str = "pin", check: object = check_pin, verifiable: bool = True) -> Rule:
    return Rule(
        name=name, family="data", severity="warning", summary="", message="", help="", triggers=(), reads=(Loader,),
        check=check, page="", verifiable=verifiable,  # type: ignore[arg-type]
    )  # fmt: skip


def finding(*events: Event, rule: str = "pin") -> Finding:
    where = events[0].where if events else place(1)
    return Finding(rule, "warning", "certain", where, "", "", keys=tuple(event.key for event in events))


def trace(*events: Event) -> Trace:
    return Trace("cpu", FakeTarget(), {}, events)


def verdict(one: Finding, observed: Trace, *rules: Rule, why: str = "") -> Verdict:
    judged, _ = pair([one], rules or [make()], observed, ended=why)
    assert judged[0].verdict is not None
    return judged[0].verdict


PREDICTED = loader(5, Value(False))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([Value(False)], "confirmed"),
        ([Value(True)], "refuted"),
        ([unknown("hidden")], "undecided"),
        ([Value(True), unknown("hidden")], "undecided"),
        ([Value(True), unknown("hidden"), Value(False)], "confirmed"),
        ([], "not exercised"),
    ],
)
def test_verdicts(seen: list[Value], expected: str) -> None:
    found = verdict(finding(PREDICTED), trace(*(loader(5, value) for value in seen)))
    assert (found.verdict, found.basis) == (expected, "cpu")
    if expected == "undecided":
        assert found.reason == "hidden"
    if expected in ("confirmed", "refuted"):
        assert found.confidence == "certain" and found.evidence


def test_what_refutes_is_said_and_not_what_has_nothing_to_do_with_it() -> None:
    def by_context(trace: Trace) -> Iterator[Candidate]:
        for event in trace.all(Loader):
            yield Candidate(event, event.pin_memory.equals(False) & FALSE, blame=event.pin_memory)

    once, thrice = (trace(*[loader(5, Value(False))] * times) for times in (1, 3))
    assert verdict(finding(PREDICTED), once, make(check=by_context)).evidence == AROUND_ONCE
    assert verdict(finding(PREDICTED), thrice, make(check=by_context)).evidence == AROUND.format(3)
    assert verdict(finding(PREDICTED), trace(loader(5, Value(True)))).evidence == "pin_memory=True"
    unsaid = verdict(finding(PREDICTED), trace(loader(5, NOT_SAID)))
    assert unsaid.reason == "a value that it needs is unknown"


def test_any_key_counts() -> None:
    two = finding(PREDICTED, loader(9, Value(False)))
    assert verdict(two, trace(loader(9, Value(False)))).verdict == "confirmed"


def test_likely_facts_lower_the_confidence() -> None:
    assert verdict(finding(PREDICTED), trace(loader(5, Value(False, likely=True)))).confidence == "likely"
    assert verdict(finding(PREDICTED), trace(loader(5, Value(True, likely=True)))).confidence == "likely"


def test_not_exercised_says_why() -> None:
    one = finding(PREDICTED)
    assert verdict(one, trace()).reason == "the statement never ran"
    assert verdict(one, trace(), why="the run ended before: ...").reason == "the run ended before: ..."
    other = Predicate(where=place(4, 6), function="f", result=Value(True))
    assert verdict(one, trace(other), why="x").reason == "the statement ran, but no Loader was seen there"
    assert verdict(one, trace(loader(5, Value(False), path="other.py"))).verdict == "not exercised"
    assert verdict(finding(), trace()).reason == "the finding names no event"


def test_rules_over_files_are_never_exercised() -> None:
    found = verdict(finding(PREDICTED), trace(loader(5, Value(False))), make(verifiable=False))
    assert (found.verdict, found.reason) == ("not exercised", ONLY_IN_FILES)


def test_a_rule_that_fails_does_not_stop_the_others() -> None:
    judged, extra = pair(
        [finding(PREDICTED, rule="bad"), finding(PREDICTED), finding(PREDICTED, rule="gone")],
        [make("bad", broken), make()],
        trace(loader(5, Value(False))),
    )
    assert [one.verdict.verdict for one in judged if one.verdict] == ["not exercised", "confirmed", "not exercised"]
    assert judged[0].verdict is not None and "a bug" in judged[0].verdict.reason
    assert not extra


def test_what_only_the_run_saw() -> None:
    seen = trace(loader(5, Value(False)), loader(7, Value(False)), loader(7, Value(False)), loader(9, Value(True)))
    _, extra = pair([finding(PREDICTED)], [make(), make("files", verifiable=False)], seen)
    assert [(rule.name, candidate.event.where.line) for rule, candidate in extra] == [("pin", 7)]


def test_a_run_that_ended_at_the_very_statement() -> None:
    why = "the run ended before: ValueError: x (train.py:5)"
    for line, said in ((5, "the run ended here: ValueError: x (train.py:5)"), (4, why)):
        (judged,), _ = pair([finding(PREDICTED)], [make()], trace(), ended=why, at=("train.py", line))
        assert judged.verdict is not None and judged.verdict.reason == said


def test_endings() -> None:
    assert ended(Outcome("finished", 0)) == ""
    assert (
        ended(Outcome("stopped", 0, "stopped after 3 optimizer steps"))
        == "not reached: stopped after 3 optimizer steps"
    )
    assert ended(Outcome("exception", 1, "ValueError: x", "a.py", 3)) == "the run ended before: ValueError: x (a.py:3)"
    assert ended(Outcome("killed", -9, "a process was killed")) == "the run ended before: a process was killed"
    assert ended(Outcome("not loaded", 0, "the recorder did not load")) == "the recorder did not load"
