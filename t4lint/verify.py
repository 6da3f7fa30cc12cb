"""Run the script, look at what it does, and say of each finding whether it holds: the verdicts.

The rules are the same for both witnesses. A finding carries the keys of the events that it was judged on; the same rule
over the observed trace judges the events with these keys again.
"""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

from t4lint import engine
from t4lint.devices import find_target
from t4lint.engine import Options
from t4lint.findings import Finding, Problem, Report, RunInfo, Verdict
from t4lint.record.launch import Limits, Outcome, Recording, record
from t4lint.record.notebook import is_notebook
from t4lint.record.observe import COMMAND, trace_of
from t4lint.rule import Candidate, Confidence, Rule
from t4lint.sources.document import Document
from t4lint.sources.notebook import read_notebook
from t4lint.sources.shell import launches
from t4lint.trace import Key, Trace

ONLY_IN_FILES = "seen only in files"
ENDED_BEFORE, ENDED_HERE = "the run ended before: ", "the run ended here: "


def verify(
    argv: list[str], *, options: Options, device: str, steps: int, timeout: float, limits: Limits | None = None
) -> Report:
    """Predict exactly this command, run it, and add a verdict to each finding. Runs the user's code; prints nothing."""
    rules = engine.chosen_by(options)
    if device not in ("auto", "cpu"):
        problem = Problem("", f"--device {device} is not available yet: only cpu")
        return replace(predict(argv, options), problems=(problem,))
    recording = record(argv, cwd=options.cwd, steps=steps, timeout=timeout, limits=limits)
    observed = trace_of(recording, find_target(options.target))
    predicted = predict(argv, engine.everywhere(options, versions={**options.versions, **_installed(observed)}))
    judged, extra = pair(predicted.findings, rules, observed, ended=ended(recording.outcome), at=_end(recording))
    hidden = {(finding.rule, key) for finding in predicted.suppressed for key in finding.keys}
    extra = [(rule, candidate) for rule, candidate in extra if (rule.name, candidate.event.key) not in hidden]
    sources = {**predicted.sources, **_texts({candidate.event.where.path for _, candidate in extra}, options)}
    found = [
        engine.finding_from(rule, candidate, confidence_of(candidate), sources=sources) for rule, candidate in extra
    ]
    confirmed = [replace(finding, verdict=_only_seen(finding, observed)) for finding in found]
    return replace(
        predicted,
        findings=(*judged, *confirmed),
        sources=sources,
        problems=(*predicted.problems, *problems_of(recording)),
        runs=_runs(predicted.runs, recording, observed),
    )


def predict(argv: list[str], options: Options) -> Report:
    """The findings of the command; a notebook in its place is a run of its own.

    Where the command names no program to follow (`pytest tests/`), those of the files that it names.
    """
    if is_notebook(argv):
        return engine.check([options.cwd / argv[0]], options)
    document = Document(COMMAND, options.cwd / COMMAND, "shell", shlex.join(argv) + "\n")
    launch = next((launch for launch in launches(document, options.cwd) if launch.file is not None), None)
    if launch is not None and launch.file is not None:
        session = engine.Session(options)
        session.sources[document.path] = document.text
        session.run(launch.file.resolve(), launch)  # unlike for a check, all files of the program are shown
        return session.report([launch.file.resolve()])
    files = [path for path in (options.cwd / word.split("::")[0] for word in argv[1:]) if _is_source(path)]
    if files:
        return engine.check(files, options)
    note = "the command names no program to follow: only what the run itself shows is reported"
    return replace(engine.check([], options), notes=(note,))


def _installed(observed: Trace) -> dict[str, str]:
    """The versions that ran: exactly this run is predicted."""
    return {name: str(value.it) for name, value in observed.versions.items() if value.known}


def _texts(paths: Iterable[str], options: Options) -> dict[str, str]:
    """Texts for the code frames of what only the run showed."""
    found: dict[str, str] = {}
    for path in paths:
        if path.endswith(".ipynb"):
            notebook = read_notebook(options.cwd / path, path)
            text = None if isinstance(notebook, Problem) else notebook.listing
        else:
            text = engine.text_of(path, options, {}) if (options.cwd / path).is_file() else None
        if text is not None:
            found[path] = text
    return found


def _is_source(path: Path) -> bool:
    return path.is_dir() or (path.suffix == ".py" and path.is_file())


def pair(
    findings: Iterable[Finding],
    rules: Iterable[Rule],
    observed: Trace,
    *,
    ended: str = "",
    at: tuple[str, int] | None = None,
) -> tuple[list[Finding], list[tuple[Rule, Candidate]]]:
    """Each finding with its verdict, and what holds in the run but no finding names.

    `ended`: why events may be missing; `at`: the path and line where the run ended, if that is known.
    """
    by_rule = {rule.name: rule for rule in rules}
    judged: dict[str, dict[Key, list[Candidate]]] = {}
    broken: dict[str, str] = {}
    for name, rule in by_rule.items():
        if rule.verifiable:
            judged[name], broken[name] = _judge(rule, observed)
    out: list[Finding] = []
    named: dict[str, set[Key]] = defaultdict(set)
    for finding in findings:
        named[finding.rule].update(finding.keys)
        out.append(
            replace(finding, verdict=_verdict(finding, by_rule, judged, broken, observed, _said_at(finding, ended, at)))
        )
    extra = [
        (by_rule[name], next(candidate for candidate in candidates if candidate.when.holds is True))
        for name, by_key in judged.items()
        for key, candidates in by_key.items()
        if key not in named[name] and any(candidate.when.holds is True for candidate in candidates)
    ]
    return out, extra


def _judge(rule: Rule, observed: Trace) -> tuple[dict[Key, list[Candidate]], str]:
    """The rule's candidates by the key of their event; a rule that fails says nothing."""
    by_key: dict[Key, list[Candidate]] = defaultdict(list)
    try:
        for candidate in rule.judge(observed):
            by_key[candidate.event.key].append(candidate)
    except Exception as error:
        return dict(by_key), f"the rule failed on the run: {type(error).__name__}: {error}"
    return dict(by_key), ""


def _verdict(
    finding: Finding,
    rules: Mapping[str, Rule],
    judged: Mapping[str, Mapping[Key, Sequence[Candidate]]],
    broken: Mapping[str, str],
    observed: Trace,
    ended: str,
) -> Verdict:
    rule = rules.get(finding.rule)
    if rule is None:
        return _not_exercised(observed, "the rule is not selected")
    if not rule.verifiable:
        return _not_exercised(observed, ONLY_IN_FILES)
    candidates = [candidate for key in finding.keys for candidate in judged[rule.name].get(key, ())]
    if not candidates:
        return _not_exercised(observed, broken[rule.name] or missing(finding.keys, observed, ended))
    return decide(candidates, observed)


def decide(candidates: Sequence[Candidate], observed: Trace) -> Verdict:
    """One that holds confirms; else one unknown leaves it undecided; else it is refuted."""
    holding = next((candidate for candidate in candidates if candidate.when.holds is True), None)
    if holding is not None:
        return Verdict("confirmed", observed.basis, _confidence([holding]), _evidence(holding, candidates))
    open_one = next((candidate for candidate in candidates if candidate.when.holds is None), None)
    if open_one is not None:
        reason = open_one.when.reason or "a value that it needs is unknown"
        return Verdict("undecided", observed.basis, "possible", _evidence(open_one, candidates), reason)
    return Verdict("refuted", observed.basis, _confidence(candidates), _evidence(candidates[0], candidates))


def _evidence(chosen: Candidate, candidates: Sequence[Candidate]) -> str:
    """What the run showed at the event: first the value that the rule blames, then how often it was so, then the rest."""
    event, blamed = chosen.event, ""
    for item in fields(event):
        value = getattr(event, item.name)
        if chosen.blame is not None and value is chosen.blame and value.known:
            blamed = f"{item.name}={value.it}"
    holding = sum(candidate.when.holds is True for candidate in candidates)
    often = f"held {holding} of {len(candidates)} times" if len(candidates) > 1 else ""
    rest = [part for part in event.evidence.split(", ") if part and part != blamed]
    return ", ".join([part for part in (blamed, often) if part] + rest)


def _confidence(candidates: Sequence[Candidate]) -> Confidence:
    """The recorder marks values as likely where the program may go another way on a GPU."""
    return "likely" if any(candidate.when.likely for candidate in candidates) else "certain"


def confidence_of(candidate: Candidate) -> Confidence:
    """What the engine gives a finding of one world."""
    return "likely" if candidate.when.likely else "certain"


def missing(keys: Sequence[Key], observed: Trace, ended: str) -> str:
    """Why no event with these keys was judged."""
    if not keys:
        return "the finding names no event"
    for key in keys:
        for event in observed.events:
            place = event.where
            if place.path == key.path and place.line <= key.last_line and key.first_line <= place.end_line:
                return f"the statement ran, but no {key.kind} was seen there"
    return ended or "the statement never ran"


def ended(outcome: Outcome) -> str:
    """Why a statement may not have been reached; empty for a run that came to its end."""
    if outcome.how == "finished":
        return ""
    if outcome.how == "stopped":
        return f"not reached: {outcome.detail}"
    if outcome.how == "exception":
        return f"{ENDED_BEFORE}{outcome.detail} ({outcome.path}:{outcome.line})"
    if outcome.how in ("not loaded", "not started"):
        return outcome.detail
    return f"{ENDED_BEFORE}{outcome.detail}"


def _end(recording: Recording) -> tuple[str, int] | None:
    """Where an exception ended the run, the path as findings name it."""
    outcome = recording.outcome
    if outcome.how != "exception" or not outcome.path:
        return None
    path = Path(os.path.relpath(recording.root / outcome.path, recording.cwd)).as_posix()
    return path, outcome.line


def _said_at(finding: Finding, ended: str, at: tuple[str, int] | None) -> str:
    """`ended` as it is to be said about one finding: a run that ended at its very statement did not end before it."""
    here = at is not None and any(
        key.path == at[0] and key.first_line <= at[1] <= key.last_line for key in finding.keys
    )
    return ended.replace(ENDED_BEFORE, ENDED_HERE, 1) if here else ended


def _not_exercised(observed: Trace, reason: str) -> Verdict:
    return Verdict("not exercised", observed.basis, "certain", "", reason)


def _only_seen(finding: Finding, observed: Trace) -> Verdict:
    """The verdict of a finding that the run itself made."""
    likely: Confidence = "likely" if finding.confidence != "certain" else "certain"
    return Verdict("confirmed", observed.basis, likely, "seen only in the run")


def problems_of(recording: Recording) -> list[Problem]:
    """What kept the run from telling everything."""
    outcome = recording.outcome
    found = [Problem("", note) for note in recording.notes]
    if outcome.how not in ("finished", "stopped"):
        found.append(Problem(outcome.path, f"verify: {outcome.detail}", outcome.line or None))
    if recording.journal.corrupt:
        found.append(Problem("", f"{recording.journal.corrupt} lines of the journal could not be read"))
    return found


def _runs(runs: tuple[RunInfo, ...], recording: Recording, observed: Trace) -> tuple[RunInfo, ...]:
    """The run that was predicted, now with what the recording knows."""
    versions = {name: str(value.it) for name, value in observed.versions.items() if value.known}
    processes = len({entry.rank for entry in recording.journal.records if entry.rank is not None}) or 1
    code = recording.outcome.exit_code
    if not runs:
        script = next((word for word in recording.command if word.endswith(".py")), "")
        return (RunInfo(Path(script).as_posix(), " ".join(recording.command), None, versions, processes, code),)
    return (replace(runs[0], versions=versions, processes=processes, exit_code=code), *runs[1:])
