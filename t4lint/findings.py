"""What t4lint reports: findings, errors and runs, as plain data. `report/` renders them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from t4lint.rule import Confidence, FixSafety, Rule, Severity
from t4lint.trace import Key, Location, Origin

Verdicts = Literal["confirmed", "refuted", "undecided", "not exercised"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run said about a finding. `basis`: t4, gpu, phantom or cpu."""

    verdict: Verdicts
    basis: str
    confidence: Confidence
    evidence: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """A quantity without and with a fix: medians, and the ratio after / before with its 95 % interval over the pairs."""

    before: float
    after: float
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Effect:
    """What a fix did to the run, measured in pairs. `seconds`: of a step; `memory`: bytes at the peak.

    `loss`: "same", "differs" or "not seen", at the same steps. Where nothing was measured, `conclusion` says why.
    """

    conclusion: str
    basis: str = ""
    pairs: int = 0
    seconds: Change | None = None
    memory: Change | None = None
    loss: str = "not seen"


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that belongs to a finding."""

    location: Location
    note: str


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replace the text between two places, both (line, column) as in `Location`, the end exclusive."""

    path: str
    start: tuple[int, int]
    end: tuple[int, int]
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that belong together and remove a finding."""

    safety: FixSafety
    title: str
    edits: tuple[TextEdit, ...]


@dataclass(frozen=True, slots=True)
class Suppressed:
    """Why a finding is not shown: a comment in the source (at `location`), or an entry of the baseline."""

    kind: Literal["comment", "baseline"]
    reason: str = ""
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault at one place. `provenance` says where the value came from; `runs` are indices into `Report.runs`.

    `keys` are the events that it was judged on, for pairing with what the recorder saw. `fix` is only there when fixes were
    asked for (`Options.fixes`), and has then been tried. `presumption` is what one that is not certain rests on.
    """

    rule: str
    severity: Severity
    confidence: Confidence
    location: Location
    message: str
    help: str
    provenance: tuple[Origin, ...] = ()
    related: tuple[Related, ...] = ()
    runs: tuple[int, ...] = ()
    keys: tuple[Key, ...] = ()
    fix_safety: FixSafety = "none"
    fingerprint: str = ""
    verdict: Verdict | None = None
    fix: Fix | None = None
    effect: Effect | None = None
    presumption: str = ""
    suppressed: Suppressed | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that kept t4lint from doing what it was asked: an unreadable file, broken syntax, a bad setting."""

    path: str
    message: str
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One run that was predicted or recorded. `launch` is `path:line` of the launch command, None for plain `python script`."""

    script: str
    command: str
    launch: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    processes: int | None = None
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one invocation. `sources` holds the text of files with findings, for code frames (see `text_at`). `memory`
    as in the JSON contract.

    `trace` are the lines of `--show-trace`; `notes` say what was not followed or was presumed; `own_rules` are those of the
    rules that ran that t4lint does not ship; `fixes_tried` says that a finding without a fix has none;
    `language` is that of its sentences, `en` until it is shown (t4lint/language.py).
    """

    target: str
    findings: tuple[Finding, ...]
    problems: tuple[Problem, ...]
    runs: tuple[RunInfo, ...]
    files: int
    sources: Mapping[str, str] = field(default_factory=dict)
    memory: Mapping[str, object] | None = None
    suppressed: tuple[Finding, ...] = ()
    checked: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    trace: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    own_rules: tuple[Rule, ...] = ()
    fixes_tried: bool = False
    language: str = "en"


def cell_source(path: str, cell: int) -> str:
    """Under which name `sources` holds a cell of its own: one whose lines share lines of the notebook's file."""
    return f"{path}\0{cell}"


def text_at(sources: Mapping[str, str], location: Location) -> tuple[str, Location] | None:
    """The text that a location is in, and the place in it; None where it is not known."""
    if location.cell is not None and location.cell_line is not None:
        cell = sources.get(cell_source(location.path, location.cell))
        if cell is not None:
            line = location.cell_line
            return cell, replace(location, line=line, end_line=line + location.end_line - location.line)
    text = sources.get(location.path)
    return None if text is None else (text, location)


def in_order(finding: Finding) -> tuple[object, ...]:
    """Sorts findings as a person reads: in a notebook by cell and line, of which several may share a line of the file."""
    place = finding.location
    return place.path, place.line, place.cell or 0, place.cell_line or 0, place, finding.rule
