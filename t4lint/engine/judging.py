"""Rules over the traces of a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t4lint.engine.finding import finding_from, merged, place_of
from t4lint.findings import Problem
from t4lint.rule import Candidate, Confidence, Rule
from t4lint.trace import Event, InstanceRequest, Location, Requirement, Trace, TrainerFile, Value

if TYPE_CHECKING:
    from t4lint.engine.session import Session
    from t4lint.interpret.machine import Machine
    from t4lint.interpret.worlds import Segment

FILES_ONLY: frozenset[type[Event]] = frozenset({Requirement, InstanceRequest, TrainerFile})
NO_RUN = -1  # the number of the run that a finding over files alone belongs to


def judge_all(session: Session, machine: Machine, segments: Sequence[Segment], number: int, launched: bool) -> None:
    """Judge what one interpretation gave, by the rules that can have something to say about it."""
    from t4lint.interpret.worlds import Worlds, with_presumption

    known = {library: Value(version) for library, version in machine.versions.items()}
    script = session.options.cwd / session.runs[number].script
    words = present(session, machine)
    chosen = [
        rule
        for rule in session.near(script).rules
        if not set(rule.reads) <= FILES_ONLY and not words.isdisjoint(rule.triggers)
    ]
    for segment in segments:
        worlds = Worlds(machine, segment, known, launched)
        built: dict[Any, list[Trace]] = {}
        steps: dict[Any, dict[int, Event]] = {}
        for rule in chosen:
            try:
                if rule.reads not in built:
                    traces = [filled(trace, steps) for trace in worlds.traces(rule.reads)]
                    built[rule.reads] = [with_presumption(t) for t in traces] if segment.uncalled else traces
                judge(session, rule, built[rule.reads], segment.uncalled, number)
            except Exception as error:  # a fault in one rule must not take the others with it
                if os.environ.get("T4LINT_DEBUG"):
                    raise
                text = f"the rule {rule.name} failed ({type(error).__name__}: {error}); please report it"
                session.problems.append(Problem(session.runs[number].script, text))


def present(session: Session, machine: Machine) -> frozenset[str]:
    """The triggers that stand in any text that the run consists of."""
    texts: list[Path | str] = [*machine.project.modules, *machine.project.read_texts]
    if machine.launch is not None:
        texts.append(machine.launch.where.path)
    # configurations that cells of a notebook write
    made = [it.text for it in machine.project.documents.values() if it.kind != "python"]
    words = {trigger for rule in session.rules for trigger in rule.triggers} if made else set()
    in_made = frozenset(word for word in words if any(word in text for text in made))
    return in_made.union(*(triggers_in(session, text, machine) for text in texts))


def triggers_in(session: Session, file: Path | str, machine: Machine) -> frozenset[str]:
    key = (file, len(session.all_held))
    if key not in session.triggers:
        if isinstance(file, Path):
            source = machine.project.modules[file]
            text = "" if isinstance(source, Problem) else source.document.text
        else:
            text = machine.project.read_texts.get(file) or session.sources.get(file, "")
        words = {trigger for rule in session.rules for trigger in rule.triggers}
        session.triggers[key] = frozenset(word for word in words if word in text)
    return session.triggers[key]


def judge(session: Session, rule: Rule, traces: Sequence[Trace], uncalled: bool, run: int) -> None:
    """Run a rule over the worlds of a segment; a candidate that holds in all of them is certain or likely."""
    held: dict[tuple[Any, Location], list[tuple[int, Candidate]]] = {}
    for number, trace in enumerate(traces):
        for candidate in rule.judge(trace):
            if candidate.when.holds:
                held.setdefault((candidate.event.key, place_of(candidate)), []).append((number, candidate))
                note_fix(session, rule, trace, candidate)
    for found in held.values():
        add(session, rule, found, len(traces), uncalled, run)


def add(
    session: Session, rule: Rule, found: list[tuple[int, Candidate]], worlds: int, uncalled: bool, run: int
) -> None:
    candidate = found[0][1]
    everywhere = len({number for number, _ in found}) == worlds and not any(c.event.guards for _, c in found)
    confidence: Confidence = "possible"
    if everywhere:
        confidence = "likely" if uncalled or any(c.when.likely for _, c in found) else "certain"
    place = session.options.cwd / (session.runs[run].script if run != NO_RUN else candidate.event.where.path)
    runs = (run,) if run != NO_RUN else ()
    finding = finding_from(rule, candidate, confidence, runs, session.texts, session.near(place).target)
    key = (rule.name, finding.location)
    session.found[key] = merged(session.found[key], finding) if key in session.found else finding


def note_fix(session: Session, rule: Rule, trace: Trace, candidate: Candidate) -> None:
    """What the rule would do about it, said while the trace is at hand."""
    key = (rule.name, place_of(candidate))
    if session.options.fixes and rule.fixes is not None and key not in session.edits:
        session.edits[key] = rule, tuple(rule.fixes(trace, candidate))


def filled(trace: Trace, done: dict[Any, dict[int, Event]]) -> Trace:
    """A trace with the quantities of its steps. `done` keeps them by what they are computed from, in one segment."""
    from t4lint.interpret.worlds import QUANTIFIED
    from t4lint.memory import fill

    basis = (tuple(id(event) for event in trace.events if type(event) in QUANTIFIED), trace.gaps)
    if basis not in done:
        result = fill(trace)
        done[basis] = {id(old): new for old, new in zip(trace.events, result.events, strict=True) if old is not new}
        return result
    steps = done[basis]
    return replace(trace, events=tuple(steps.get(id(event), event) for event in trace.events)) if steps else trace
