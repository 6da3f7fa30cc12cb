"""The JSON contract, version 1. Fields may be added, none removed or changed."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from t4lint.rule import Confidence, FixSafety, Severity


class Model(BaseModel):
    """What all of them share: no field that is not in the contract."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Tool(Model):
    """What wrote the report."""

    name: str
    version: str


class Target(Model):
    """The GPU, place or instance that was asked about. `total_memory` is in bytes."""

    name: str
    gpu: str | None = None
    capability: str | None = None
    total_memory: int | None = None


class Place(Model):
    """A step in where a value came from, or another place that belongs to a finding."""

    path: str | None
    line: int | None
    column: int | None
    note: str


class Edit(Model):
    """Replace the text between two places, both as (line, column), the end exclusive."""

    path: str
    start: tuple[int, int]
    end: tuple[int, int]
    text: str


class Fix(Model):
    """Edits that remove a finding."""

    safety: FixSafety
    title: str
    edits: list[Edit]


class Verdict(Model):
    """What a run said about a finding."""

    verdict: Literal["confirmed", "refuted", "undecided", "not exercised"]
    basis: Literal["t4", "gpu", "phantom", "cpu"]
    confidence: Confidence
    evidence: str
    reason: str


class Change(Model):
    """A quantity without and with a fix: medians, and the ratio after / before with its 95 % interval over the pairs."""

    before: float
    after: float
    ratio: float
    low: float
    high: float


class Effect(Model):
    """What a fix did to the run (`verify --measure`). `seconds`: of a step; `memory`: bytes at the peak."""

    conclusion: str
    basis: str
    pairs: int
    seconds: Change | None
    memory: Change | None
    loss: str


class Finding(Model):
    """One fault at one place. `presumption`: what one that is not certain rests on, where a text can say it.

    `runs` are indices into the report's runs; `suppressed` is the reason, if it is.
    """

    rule: str
    severity: Severity
    confidence: Confidence
    presumption: str
    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    cell: int | None
    cell_line: int | None
    message: str
    help: str
    provenance: list[Place]
    fix: Fix | None
    fingerprint: str
    runs: list[int]
    related: list[Place]
    suppressed: str | None
    verdict: Verdict | None
    effect: Effect | None


class Memory(Model):
    """What fills the card, in bytes, without the context."""

    peak_allocated: int | None
    peak_reserved: int | None
    low: int | None
    high: int | None
    limit: int
    phase: Literal["forward", "backward", "optimizer", "eval"] | None
    components: dict[str, int]
    basis: str


class Error(Model):
    """Something that kept t4lint from doing what it was asked."""

    path: str
    line: int | None
    message: str


class Run(Model):
    """One run that was predicted or recorded. `launch` is `path:line` of the command that starts it."""

    launch: str | None
    script: str
    command: str
    versions: dict[str, str]
    processes: int | None
    exit_code: int | None


class Report(Model):
    """The whole of it."""

    version: Literal[1]
    tool: Tool
    target: Target
    findings: list[Finding]
    memory: Memory | None
    errors: list[Error]
    files: int
    runs: list[Run]
    notes: list[str] = []


class FitFact(Model):
    """A number or choice that a prediction rests on, and where it was read."""

    name: str
    text: str
    sure: bool
    provenance: list[Place]


class FitMissing(Model):
    """What is not known, why, and the flag that says it."""

    name: str
    reason: str
    flag: str


class FitWay(Model):
    """A change that lowers the peak; bytes."""

    title: str
    cost: str
    low: int
    high: int | None
    expected: int
    fits: bool


class FitSection(Model):
    """A part that another model adds; `values` are its numbers, by name (seconds, bytes, tokens)."""

    title: str
    rows: list[tuple[str, str]]
    note: str
    values: dict[str, Any] | None


class FitStep(Model):
    """One training step of a run: what fills the card, from what, and what would make it fit."""

    run: int
    answer: Literal["fits", "may not fit", "does not fit", "unknown"]
    memory: Memory | None
    bands: dict[str, tuple[int, int | None]]
    moments: dict[str, tuple[int, int | None]]
    facts: list[FitFact]
    open: list[str]
    missing: list[FitMissing]
    ways: list[FitWay]
    largest_batch: int | None
    largest_length: int | None
    sections: list[FitSection]


class FitReport(Report):
    """What `t4lint fit` writes: the report of all commands, and each training step."""

    fit: list[FitStep]
