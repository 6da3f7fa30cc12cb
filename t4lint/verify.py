"""Run the script, look at what it does, and say of each finding whether it holds: the verdicts.

The rules are the same for both witnesses. A finding carries the keys of the events that it was judged on; the same rule
over the observed trace judges the events with these keys again.
"""

from __future__ import annotations

import itertools
import os
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from t4lint import engine
from t4lint.devices import Target, find_target
from t4lint.engine import Options
from t4lint.engine.reporting import unhidden
from t4lint.findings import Finding, Problem, Report, RunInfo, Verdict, cell_source
from t4lint.fix.loop import prove
from t4lint.measure import Run, Texts, measure
from t4lint.record.journal import Record
from t4lint.record.launch import Device, Limits, Outcome, Recording, listening, record
from t4lint.record.notebook import is_notebook
from t4lint.record.observe import COMMAND, basis_of, in_words, trace_of
from t4lint.rule import Candidate, Confidence, Rule
from t4lint.sources.document import Document, LaunchCommand
from t4lint.sources.notebook import read_notebook
from t4lint.sources.shell import launches
from t4lint.trace import NOT_SAID, Key, Location, Trace

AROUND_ONCE = "it ran, and what the program does before or after it leaves nothing wrong with it"
AROUND = "it ran {} times, and what the program does before or after it leaves nothing wrong with it"
ONLY_IN_FILES = "seen only in files"
NO_STEP = "the run made no optimizer step; a process that is started with an environment of its own would not be seen"
FORETOLD = "the run ended as {} says: {}"
ENDED_BEFORE, ENDED_HERE = "the run ended before: {}", "the run ended here: {}"


def verify(
    argv: list[str],
    *,
    options: Options,
    device: Device,
    steps: int,
    timeout: float,
    limits: Limits | None = None,
    pairs: int = 0,
    progress: Progress | None = None,
) -> Report:
    """Predict exactly this command, run it, and add a verdict to each finding. Runs the user's code; prints nothing.

    With `pairs`, the fixes of findings that the run did not refute are measured: `progress` is told of each run.
    """
    program = program_of(argv, options.cwd)
    own = options if program is None else engine.near(options, program)
    rules = engine.chosen_by(own)
    target = find_target(own.target)
    limits = replace(limits or Limits(), device=device)
    if pairs:
        options = engine.everywhere(options, fixes=True)
    predicted = predict(argv, options)
    recording = record(
        argv, cwd=options.cwd, steps=steps, timeout=timeout, limits=limits, gpu=target.gpu,
        lines=statements_of(predicted.findings, options.cwd),
    )  # fmt: skip
    observed = trace_of(recording, target)
    doubt = steered(recording)
    versions = {**own.versions, **_installed(observed)}
    if versions != own.versions:  # the versions that ran: exactly this run is predicted
        predicted = predict(argv, engine.everywhere(options, versions=versions))
    judged, extra = pair(
        predicted.findings, rules, observed, ended=ended(recording.outcome), at=_end(recording), ran=lines_of(recording)
    )
    judged = [_doubted(finding) for finding in judged] if doubt else judged
    hidden = {(finding.rule, key) for finding in predicted.suppressed for key in finding.keys}
    extra = [(rule, candidate) for rule, candidate in extra if (rule.name, candidate.event.key) not in hidden]
    sources = {**predicted.sources, **_texts({candidate.event.where.path for _, candidate in extra}, options)}
    found = [
        engine.finding_from(rule, candidate, confidence_of(candidate), sources=sources, target=target)
        for rule, candidate in extra
    ]
    new, unwanted = _wanted(found, options, sources)
    confirmed = [replace(finding, verdict=_only_seen(finding, observed)) for finding in new]
    name = target.gpu.short_name if target.gpu else target.name
    findings = (*judged, *confirmed)
    families = {rule.name: rule.family for rule in rules}
    # a finding says that it does not fit, or is hidden by the person's own choice; without one it is said by itself
    said = any(families.get(it.rule) == "memory" and _holds(it) for it in (*findings, *unwanted))
    foretold = foretold_by(findings, _end(recording))
    report = replace(
        predicted,
        findings=findings,
        suppressed=(*predicted.suppressed, *unwanted),
        sources=sources,
        problems=(
            *predicted.problems,
            *problems_of(recording, device, name, target.gpu is not None, foretold=foretold is not None),
            *([] if said else too_large(recording, name)),
        ),
        runs=_runs(predicted.runs, recording, observed),
        memory=memory_of(recording, target) or predicted.memory,
        notes=(
            *predicted.notes,
            *notes_of(recording, target),
            *([FORETOLD.format(foretold.rule, recording.outcome.detail)] if foretold is not None else []),
            *(it.message for it in too_large(recording, name) if said),
        ),
    )
    if not pairs or recording.outcome.how not in ("finished", "stopped"):
        return report
    run = _measured_run(options, steps, timeout, limits, target)
    return _with_effects(report, argv, options, observed.basis, run, pairs, progress)


Progress = Callable[[int, int], None]
"""Called before each run that is measured: its number from 1, and how many there are at most."""


def _measured_run(options: Options, steps: int, timeout: float, limits: Limits, target: Target) -> Run:
    def run(argv: Sequence[str], texts: Texts) -> Recording:
        placed = {(options.cwd / path).resolve(): text for path, text in texts.items()}
        return record(
            argv, cwd=options.cwd, steps=steps, timeout=timeout, limits=limits, texts=placed, measure=True,
            gpu=target.gpu,
        )  # fmt: skip

    return run


def _with_effects(
    report: Report, argv: list[str], options: Options, basis: str, run: Run, pairs: int, progress: Progress | None
) -> Report:
    """The report with the measured effect of each fix that is proven to remove its finding."""

    def check(texts: Texts, scripts: Sequence[str] | None = None) -> Report:
        words = shlex.split(texts[COMMAND]) if COMMAND in texts else argv
        others = {path: text for path, text in texts.items() if path != COMMAND}
        return predict(words, engine.everywhere(options, texts={**options.texts, **others}, fixes=scripts is None))

    def text_of(path: str) -> str | None:
        return shlex.join(argv) + "\n" if path == COMMAND else engine.text_of(path, options, report.sources)

    report = prove(report, check, text_of)
    open_ones = [it for it in report.findings if it.fix is not None and not is_refuted(it)]
    total = pairs * (len(open_ones) + 1)
    numbers = itertools.count(1)

    def counted(words: Sequence[str], texts: Texts) -> Recording:
        if progress is not None:
            progress(next(numbers), total)
        with listening(None):
            return run(words, texts)

    effects = measure(argv, open_ones, text_of, counted, pairs=pairs, basis=basis)
    return replace(report, findings=tuple(replace(it, effect=effects.get(it.fingerprint)) for it in report.findings))


def is_refuted(finding: Finding) -> bool:
    """Has the run shown that the finding does not hold?"""
    return finding.verdict is not None and finding.verdict.verdict == "refuted"


def program_of(argv: Sequence[str], cwd: Path) -> Path | None:
    """The script or notebook that a command runs, or the first file that it names. The settings near it hold for the run."""
    if is_notebook(list(argv)):
        return cwd / argv[0]
    launch = _launch(argv, cwd)
    if launch is not None and launch.file is not None:
        return launch.file.resolve()
    return next(iter(_named_files(argv, cwd)), None)


def _launch(argv: Sequence[str], cwd: Path) -> LaunchCommand | None:
    """The command as a launch of a script, where it is one."""
    document = Document(COMMAND, cwd / COMMAND, "shell", shlex.join(argv) + "\n")
    return next((launch for launch in launches(document, cwd) if launch.file is not None), None)


def _named_files(argv: Sequence[str], cwd: Path) -> list[Path]:
    """The sources that a command names: `pytest tests/test_train.py::test_step`."""
    return [path for path in (cwd / word.split("::")[0] for word in argv[1:]) if _is_source(path)]


def _wanted(
    found: Sequence[Finding], options: Options, sources: Mapping[str, str]
) -> tuple[list[Finding], list[Finding]]:
    """Of what only the run showed: what the settings near each place ask for, and what a comment there hides."""
    session = engine.Session(options)
    session.sources |= sources
    paths = {finding.location.path for finding in found}
    for path in paths:
        if path.endswith(".ipynb"):
            session.read_notebook(options.cwd / path)
    held = [session.near(options.cwd / finding.location.path).of(finding) for finding in found]
    return unhidden(session, [finding for finding in held if finding is not None], [])


def predict(argv: list[str], options: Options) -> Report:
    """The findings of the command; a notebook in its place is a run of its own.

    Where the command names no program to follow (`pytest tests/`), those of the files that it names.
    """
    if is_notebook(argv):
        return engine.check([options.cwd / argv[0]], options)
    launch = _launch(argv, options.cwd)
    if launch is not None and launch.file is not None:
        session = engine.Session(options)
        session.sources[COMMAND] = shlex.join(argv) + "\n"
        # unlike for a check, all files of the program are shown; and the GPU is that of the target, not of this machine
        session.run(launch.file.resolve(), engine.on_a_gpu(launch))
        return engine.report(session, [launch.file.resolve()])
    files = _named_files(argv, options.cwd)
    if files:
        return engine.check(files, options)
    note = "the command names no program to follow: only what the run itself shows is reported"
    return replace(engine.check([], options), notes=(note,))


def statements_of(findings: Iterable[Finding], cwd: Path) -> dict[Path, list[tuple[int, int]]]:
    """First and last lines of the statements that findings are about, by file."""
    found: dict[Path, list[tuple[int, int]]] = defaultdict(list)
    for key in {key for finding in findings for key in finding.keys}:
        if key.path != COMMAND:
            found[(cwd / key.path).resolve()].append((key.first_line, key.last_line))
    return dict(found)


def lines_of(recording: Recording) -> frozenset[tuple[str, int]]:
    """The statements of these that ran, as (path as findings name it, first line)."""
    found = set()
    for entry in recording.journal.records:
        if entry.k == "line":
            below, line = str(entry.d.get("path")), int(entry.d.get("line") or 0)
            positions = recording.places.get(below)
            path = Path(os.path.relpath(recording.root / below, recording.cwd)).as_posix()
            found.add((path, line if positions is None else positions.locate(line, 1).line))
    return frozenset(found)


def _installed(observed: Trace) -> dict[str, str]:
    """The versions that ran."""
    return {name: str(value.it) for name, value in observed.versions.items() if value.known}


def _texts(paths: Iterable[str], options: Options) -> dict[str, str]:
    """Texts for the code frames of what only the run showed."""
    found: dict[str, str] = {}
    for path in paths:
        text: str | None = None
        if path.endswith(".ipynb"):
            notebook = read_notebook(options.cwd / path, path)
            if not isinstance(notebook, Problem):
                text = notebook.listing
                found |= {cell_source(path, cell): notebook.sources[cell] for cell in notebook.squeezed}
        elif (options.cwd / path).is_file():
            text = engine.text_of(path, options, {})
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
    ran: AbstractSet[tuple[str, int]] = frozenset(),
) -> tuple[list[Finding], list[tuple[Rule, Candidate]]]:
    """Each finding with its verdict, and what holds in the run but no finding names.

    `ended`: why events may be missing; `at`: the path and line where the run ended, if that is known; `ran`: paths and
    lines of statements that did run.
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
            replace(
                finding,
                verdict=_verdict(finding, by_rule, judged, broken, observed, _said_at(finding, ended, at), ran),
            )
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
    ran: AbstractSet[tuple[str, int]],
) -> Verdict:
    rule = rules.get(finding.rule)
    if rule is None:
        return _not_exercised(observed, "the rule is not selected")
    if not rule.verifiable:
        return _not_exercised(observed, ONLY_IN_FILES)
    candidates = [candidate for key in finding.keys for candidate in judged[rule.name].get(key, ())]
    if not candidates:
        return _not_exercised(observed, broken[rule.name] or missing(finding.keys, observed, ended, ran))
    return decide(candidates, observed)


def decide(candidates: Sequence[Candidate], observed: Trace) -> Verdict:
    """One that holds confirms; else one unknown leaves it undecided; else it is refuted."""
    holding = next((candidate for candidate in candidates if candidate.when.holds is True), None)
    if holding is not None:
        return Verdict("confirmed", observed.basis, _confidence([holding]), _evidence(holding, candidates))
    open_one = next((candidate for candidate in candidates if candidate.when.holds is None), None)
    if open_one is not None:
        reason = open_one.when.reason
        if reason in ("", NOT_SAID.unknown):
            reason = "a value that it needs is unknown"
        return Verdict("undecided", observed.basis, "possible", _evidence(open_one, candidates), reason)
    return Verdict("refuted", observed.basis, _confidence(candidates), _evidence(candidates[0], candidates))


def _evidence(chosen: Candidate, candidates: Sequence[Candidate]) -> str:
    """What the run showed at the event: the values that were judged, and how often it held.

    Where no value of the event decided, all of its values confirm it, and it is what happens around it that refutes it.
    """
    event = chosen.event
    parts = in_words(event)
    judged = [chosen.blame, *chosen.when.rests_on] if chosen.when.holds is not False else [*chosen.when.rests_on]
    names = [it.name for it in fields(event) if any(getattr(event, it.name) is value for value in judged)]
    shown = [parts[name] for name in names if name in parts]
    holding = sum(candidate.when.holds is True for candidate in candidates)
    if chosen.when.holds is False and not shown:
        times = len(candidates)
        return AROUND_ONCE if times == 1 else AROUND.format(times)
    said = ", ".join(shown or parts.values())
    if len(candidates) == 1:
        return said
    often = f"held {holding} of {len(candidates)} times"
    return f"{said}, held {holding} of {len(candidates)} times" if said else often


def _confidence(candidates: Sequence[Candidate]) -> Confidence:
    """The recorder marks values as likely where the program may go another way on a GPU."""
    return "likely" if any(candidate.when.likely for candidate in candidates) else "certain"


def confidence_of(candidate: Candidate) -> Confidence:
    """What the engine gives a finding of one world."""
    return "likely" if candidate.when.likely else "certain"


def missing(keys: Sequence[Key], observed: Trace, ended: str, ran: AbstractSet[tuple[str, int]] = frozenset()) -> str:
    """Why no event with these keys was judged."""
    if not keys:
        return "the finding names no event"
    for key in keys:
        there = any(path == key.path and key.first_line <= line <= key.last_line for path, line in ran)
        if there or any(_at(event.where, key) for event in observed.events):
            return f"the statement ran, but no {key.kind} was seen there"
    return ended or "the statement never ran"


def _at(place: Location, key: Key) -> bool:
    return place.path == key.path and place.line <= key.last_line and key.first_line <= place.end_line


def ended(outcome: Outcome) -> str:
    """Why a statement may not have been reached; empty for a run that came to its end."""
    if outcome.how == "finished":
        return ""
    if outcome.how == "stopped":
        return f"not reached: {outcome.detail}"
    if outcome.how == "exception":
        return ENDED_BEFORE.format(f"{outcome.detail} ({outcome.path}:{outcome.line})")
    if outcome.how == "unsupported":
        return outcome.detail
    if outcome.how in ("not loaded", "not started"):
        return outcome.detail
    return ENDED_BEFORE.format(outcome.detail)


def _end(recording: Recording) -> tuple[str, int] | None:
    """Where an exception ended the run, the path as findings name it."""
    outcome = recording.outcome
    if outcome.how != "exception" or not outcome.path:
        return None
    path = Path(os.path.relpath(recording.root / outcome.path, recording.cwd)).as_posix()
    return path, outcome.line


def foretold_by(findings: Iterable[Finding], at: tuple[str, int] | None) -> Finding | None:
    """The error that said that the run would end where an exception ended it: confirmed, and about that statement."""
    return next((it for it in findings if _holds(it) and _is_about(it, at)), None)


def _is_about(finding: Finding, at: tuple[str, int] | None) -> bool:
    return at is not None and any(
        key.path == at[0] and key.first_line <= at[1] <= key.last_line for key in finding.keys
    )


def _said_at(finding: Finding, ended: str, at: tuple[str, int] | None) -> str:
    """`ended` as it is to be said about one finding: a run that ended at its very statement did not end before it."""
    before = ENDED_BEFORE.format("")
    here = _is_about(finding, at) and ended.startswith(before)
    return ENDED_HERE.format(ended.removeprefix(before)) if here else ended


def _not_exercised(observed: Trace, reason: str) -> Verdict:
    return Verdict("not exercised", observed.basis, "certain", "", reason)


def _only_seen(finding: Finding, observed: Trace) -> Verdict:
    """The verdict of a finding that the run itself made."""
    likely: Confidence = "likely" if finding.confidence != "certain" else "certain"
    return Verdict("confirmed", observed.basis, likely, "seen only in the run")


def steered(recording: Recording) -> bool:
    """Has a made-up value decided which way the program went?"""
    return any(record.k == "guess" and record.d.get("steers") for record in recording.journal.records)


def _doubted(finding: Finding) -> Finding:
    """A verdict that rests on a run with such guesses is likely at most."""
    verdict = finding.verdict
    if verdict is None or verdict.confidence != "certain" or verdict.verdict not in ("confirmed", "refuted"):
        return finding
    return replace(finding, verdict=replace(verdict, confidence="likely"))


def memory_of(recording: Recording, target: Target) -> dict[str, object] | None:
    """What the run took of the GPU, in bytes, as in the JSON contract; None where no GPU was used."""
    if target.gpu is None:
        return None
    held = [it.d for it in recording.journal.records if it.k == "held"]
    if held:  # of a phantom: its allocator's peaks, and what the fullest moment was made of
        most = max(held, key=lambda it: it.get("allocated") or 0)
        components = {str(name): int(size) for name, size in (most.get("components") or {}).items()}
        return _memory(
            most.get("allocated"), most, int(most.get("limit") or 0), most.get("phase"), components, "phantom"
        )
    told = [it.d for it in recording.journal.records if it.k == "memory" and it.d.get("counted") == "allocated"]
    if not told:
        return None
    most = max(told, key=lambda it: it.get("peak") or 0)
    basis = basis_of(recording, target)
    return _memory(most.get("peak"), most, target.gpu.usable_bytes, most.get("peak_in"), {}, basis)


def _memory(
    peak: object, most: Mapping[str, Any], limit: int, phase: object, components: Mapping[str, int], basis: str
) -> dict[str, object]:
    """The `memory` of the contract from the fullest moment that was told."""
    allocated, reserved = int(peak or 0), int(most.get("reserved") or 0)  # type: ignore[call-overload]
    return {
        "peak_allocated": allocated,
        "peak_reserved": reserved,
        "low": allocated,
        "high": max(allocated, reserved),
        "limit": limit,
        "phase": phase if phase in ("forward", "backward", "optimizer", "eval") else None,
        "components": components,
        "basis": basis,
    }


NO_PHANTOM = "--device phantom: it ran on the CPU instead: {reason}"
NOTHING_TO_BE = "--device phantom: the target {target} has no GPU that could be stood in for; it ran as it is"
NOT_USED = "--device phantom: the program has not imported torch, or not under the recorder"
GUESSED = (
    "values do not exist on a phantom: where the program asked for one it got a guess (a loss is 1, a truth value False), "
    "places: {count}, first {first}"
)
STANDS_IN = "the {what} {name} is not on this machine; in its place: {how}"
LACKING = "the {what} {name} is not on this machine: {advice}"
STEERED = "a guess may have steered the program, so verdicts are likely at most: {places}"
TOO_LARGE = (
    "out of memory on {target}: {place} ({phase}) asks for {wanted:.2f} GiB where {free:.2f} of {limit:.2f} GiB are free; "
    "the run went on to find the whole need"
)
NO_GPU = "--device cuda: the program has not used a GPU: torch has no CUDA here, finds no GPU, or was not asked for it"
LARGER = (
    "it ran on {name}, held to the memory of {target} and with its answers; time, and what C++ code picks for that GPU, "
    "say nothing about {target}"
)


def notes_of(recording: Recording, target: Target) -> tuple[str, ...]:
    """What to know of the run when its verdicts are read."""
    found = list(recording.notes)
    card = next((record.d for record in recording.journal.records if record.k == "card"), None)
    if card is not None and basis_of(recording, target) == "gpu":
        found.append(LARGER.format(name=card.get("name"), target=target.gpu.device_name if target.gpu else target.name))
    stands = [record.d for record in recording.journal.records if record.k == "stand_in"]
    found += dict.fromkeys(STANDS_IN.format(**it) for it in stands if {"what", "name", "how"} <= set(it))
    if recording.outcome.how == "finished" and not any(it.k == "step" for it in recording.journal.records):
        found.append(NO_STEP)
    guesses = [record for record in recording.journal.records if record.k == "guess" and record.n == 1]
    if guesses:
        found.append(
            GUESSED.format(count=len({record.u[0] for record in guesses if record.u}), first=_line(guesses[0]))
        )
    steering = sorted({_line(record) for record in guesses if record.d.get("steers")})
    if steering:
        found.append(STEERED.format(places=", ".join(steering[:5])))
    return tuple(found)


def _line(record: Record) -> str:
    return f"{record.u[0][0]}:{record.u[0][1]}" if record.u else "a library"


def _holds(finding: Finding) -> bool:
    """An error that the run has confirmed."""
    return finding.severity == "error" and finding.verdict is not None and finding.verdict.verdict == "confirmed"


def _phantom_problems(recording: Recording, target: str, gpu: bool) -> list[Problem]:
    """Why it was no phantom."""
    if not gpu:
        return [Problem("", NOTHING_TO_BE.format(target=target))]
    records = recording.journal.records
    found = [Problem("", NO_PHANTOM.format(reason=it.d.get("reason"))) for it in records if it.k == "no_phantom"][:1]
    if not found and not any(it.k == "card" for it in records):
        found.append(Problem("", NOT_USED))
    return found


def too_large(recording: Recording, target: str) -> list[Problem]:
    """The first place where the memory of a phantom was not enough."""
    for it in (it for it in recording.journal.records if it.k == "out_of_memory"):
        limit, free = int(it.d["limit"]), int(it.d["limit"]) - int(it.d["reserved"])
        text = TOO_LARGE.format(
            target=target, phase=it.d.get("in_phase"), place=_line(it), wanted=int(it.d["segment"]) / 2**30,
            free=free / 2**30, limit=limit / 2**30,
        )  # fmt: skip
        path, line = it.u[0] if it.u else ("", None)
        return [Problem(path, text, line)]
    return []


def problems_of(
    recording: Recording, device: Device = "auto", target: str = "T4", gpu: bool = True, *, foretold: bool = False
) -> list[Problem]:
    """What kept the run from telling everything. An end that a finding foretold is what there was to tell."""
    outcome = recording.outcome
    found: list[Problem] = []
    if device == "cuda" and not any(record.k == "card" for record in recording.journal.records):
        found.append(Problem("", NO_GPU))
    if device == "phantom":
        found += _phantom_problems(recording, target, gpu)
    if outcome.how not in ("finished", "stopped") and not foretold:
        lacking = [record.d for record in recording.journal.records if record.k == "lacking"]
        found += [Problem("", LACKING.format(**it)) for it in lacking if {"what", "name", "advice"} <= set(it)][-1:]
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
