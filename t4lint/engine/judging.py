"""Rules over the traces of a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t4lint.engine.finding import finding_from, merged, place_of
from t4lint.findings import Finding, Problem
from t4lint.rule import CONFIDENCES, Candidate, Confidence, Rule
from t4lint.ruleset import rules
from t4lint.trace import (
    NOT_SAID,
    Event,
    InstanceRequest,
    Location,
    Origin,
    Requirement,
    Trace,
    TrainerFile,
    Value,
    release,
)

if TYPE_CHECKING:
    from t4lint.engine.session import Session
    from t4lint.interpret.machine import Machine
    from t4lint.interpret.run import Interpretation
    from t4lint.interpret.worlds import Segment, Worlds

FILES_ONLY: frozenset[type[Event]] = frozenset({Requirement, InstanceRequest, TrainerFile})
UNCALLED = "nothing that was read calls this code"
UNPINNED = "no version is pinned"
DEFAULT = "it rests on a default that a launch or another version may change"
NO_RUN = -1  # the number of the run that a finding over files alone belongs to


def judge_all(session: Session, machine: Machine, segments: Sequence[Segment], number: int, launched: bool) -> None:
    """Judge what one interpretation gave, by the rules that can have something to say about it."""
    from t4lint.interpret.worlds import with_presumption

    script = session.options.cwd / session.runs[number].script
    words = present(session, machine)
    chosen = [
        rule
        for rule in session.near(script).rules
        if not set(rule.reads) <= FILES_ONLY and not words.isdisjoint(rule.triggers)
    ]
    for segment in segments:
        worlds = worlds_of(machine, segment, launched)
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


def worlds_of(machine: Machine, segment: Segment, launched: bool) -> Worlds:
    """The worlds of a segment, with the versions that something pins and those that are presumed."""
    from t4lint.interpret.worlds import Worlds

    known = {name: Value(version) for name, version in machine.versions.items() if name not in machine.presumed}
    presumed = {name: Value(machine.versions[name], likely=True) for name in machine.presumed}
    return Worlds(machine, segment, known, launched, presumed)


def written_for(machine: Machine, segments: Sequence[Segment], launched: bool) -> dict[str, str]:
    """The newest versions that take all arguments that a run gives, of libraries whose newest does not and that nothing pins."""
    from t4lint.libraries.signatures import newest_within

    bounds: dict[str, tuple[str, bool]] = {}
    for rule in rules():
        if not rule.dates:
            continue
        for segment in segments:
            if segment.uncalled or not any(issubclass(draft.kind, rule.reads) for draft in segment.drafts):
                continue
            worlds = worlds_of(machine, segment, launched)
            for candidate in (one for trace in worlds.traces(rule.reads) for one in rule.judge(trace)):
                if candidate.when.holds and not candidate.event.guards:
                    for library, bound in candidate.written_for.items():
                        bounds[library] = min(bound, bounds.get(library, bound), key=lambda it: (release(it[0]), it[1]))
    found = {library: newest_within(library, *bound) for library, bound in bounds.items()}
    return {library: version for library, version in found.items() if version is not None}


def judge_by_versions(
    session: Session, newest: Interpretation, older: Interpretation, number: int, launched: bool
) -> None:
    """Judge a program that the newest versions refuse as they would run it and as the newest that take it would.

    What holds with both stays as it is. What holds with the older ones alone is likely; with the newest alone, nobody meets it.
    """
    before = session.found
    both = []
    for one in (newest, older):
        session.found = {}
        session.judge_all(one.machine, one.segments, number, launched)
        both.append(session.found)
    session.found = before
    for key, finding in both[1].items():
        other = both[0].get(key)
        same = other is not None and (other.severity, other.message) == (finding.severity, finding.message)
        kept = _less_sure(finding, other.confidence) if other and same else _of_older(finding, older.machine)
        session.found[key] = merged(session.found[key], kept) if key in session.found else kept


def _less_sure(finding: Finding, confidence: Confidence) -> Finding:
    """A finding that is no surer than this; an error needs certainty."""
    least = min(finding.confidence, confidence, key=CONFIDENCES.index)
    milder = finding.severity == "error" and least != "certain"
    why = finding.presumption or (UNPINNED if least != "certain" else "")
    return replace(finding, confidence=least, severity="warning" if milder else finding.severity, presumption=why)


def _of_older(finding: Finding, machine: Machine) -> Finding:
    """A finding that holds with the versions alone that are presumed."""
    named = " and ".join(f"{library} {machine.versions[library]}" for library in sorted(machine.presumed))
    why = Origin("version", f"{named}: presumed, since newer versions refuse arguments of this program")
    return replace(_less_sure(finding, "likely"), provenance=(*finding.provenance, why))


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
    if isinstance(file, Path):
        source = machine.project.modules[file]
        text = "" if isinstance(source, Problem) else source.document.text
    else:
        text = machine.project.read_texts.get(file) or session.sources.get(file, "")
    key = (text, len(session.all_held))
    if key not in session.triggers:
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
    presumption = ""
    if everywhere:
        unsure = uncalled or any(c.when.likely for _, c in found)
        confidence = "likely" if unsure else "certain"
        presumption = presumed_by([c for _, c in found], uncalled) if unsure else ""
    place = session.options.cwd / (session.runs[run].script if run != NO_RUN else candidate.event.where.path)
    runs = (run,) if run != NO_RUN else ()
    finding = finding_from(rule, candidate, confidence, runs, session.texts, session.near(place).target, presumption)
    key = (rule.name, finding.location)
    session.found[key] = merged(session.found[key], finding) if key in session.found else finding


def presumed_by(found: Sequence[Candidate], uncalled: bool) -> str:
    """What a judgement rests on that no text says, for people; empty where the provenance alone can tell."""
    if uncalled:
        return UNCALLED
    for value in (value for candidate in found for value in candidate.when.rests_on if value.likely):
        if value.unknown:
            if value.unknown == NOT_SAID.unknown:  # there is nothing more to say of it
                continue
            return value.unknown
        if any(origin.how == "default" for origin in value.origins):
            return DEFAULT
        if isinstance(value.it, str) and not value.origins:  # a text that a rule or a gap gives as its reason
            return value.it
    return ""


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
