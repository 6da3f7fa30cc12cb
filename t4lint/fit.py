"""`t4lint fit`: what fills the card in each run of a script, and what would make it fit.

The runs are those that the check follows: each launch command, or the script by itself. Where a program has several
worlds or training steps, equal ones are shown once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from t4lint.devices import Target, find_target
from t4lint.engine import Options, Session, report
from t4lint.engine.judging import worlds_of
from t4lint.findings import Report
from t4lint.fit_communication import Section, communication
from t4lint.fit_evaluation import evaluation
from t4lint.memory import fill
from t4lint.memory.estimate import Band
from t4lint.memory.plan import Usage, usage
from t4lint.memory.reading import Given, Reading, read
from t4lint.memory.ways import Way, largest_batch, largest_length, spanned, ways
from t4lint.trace import Backward, Forward, Keep, Location, Step, Trace

if TYPE_CHECKING:
    from t4lint.interpret.machine import Machine
    from t4lint.interpret.run import Interpretation
    from t4lint.interpret.worlds import Segment

MAX_SHOWN = 4  # different steps of one run


# What adds a section to a training step; None where it has nothing to say.
SECTIONS: list[Callable[[Trace, Step, Target, Given], Section | None]] = [communication, evaluation]


@dataclass(frozen=True, slots=True)
class Fit:
    """One training step of one run. Without `usage`, `reading.missing` says what is needed."""

    run: int  # index into the report's runs
    reading: Reading
    limit: int  # bytes that are left for certain: the device's total less the largest context
    usable: int  # bytes that may be left: the total less the smallest context
    total: int
    usage: Usage | None = None
    peak: Band | None = None
    expected: float = 0
    where: Location | None = None  # the statement that makes the step
    ways: tuple[Way, ...] = ()
    largest_batch: int | None = None
    largest_length: int | None = None
    sections: tuple[Section, ...] = ()

    @property
    def answer(self) -> str:
        """`"fits"`, `"may not fit"`, `"does not fit"` or `"unknown"`."""
        if self.peak is None:
            return "unknown"
        if self.peak[1] <= self.limit:
            return "fits"
        return "does not fit" if self.peak[0] > self.usable else "may not fit"


@dataclass(frozen=True, slots=True)
class FitReport:
    """What `fit` found: the report that all commands make, and a `Fit` for each training step."""

    report: Report
    fits: tuple[Fit, ...] = field(default=())


def fit(paths: Sequence[Path], options: Options, given: Given | None = None) -> FitReport:
    """Predict the memory of each run of the scripts. Nothing of the user's is imported or run."""
    session = _FitSession(options, given or Given())
    files = session.collect(paths)
    for script in session.order(files):
        session.check_script(script)
    # Nothing is judged here, so no comment can be called unused.
    empty = replace(report(session, files), findings=(), suppressed=())
    return FitReport(empty, tuple(session.fits))


class _FitSession(Session):
    """Interprets as the check does, and measures steps instead of judging them."""

    def __init__(self, options: Options, given: Given) -> None:
        super().__init__(options)
        self.given = given
        self.fits: list[Fit] = []

    def relevant(self, file: Path, commands: Sequence[object]) -> bool:
        return True

    def look_at_uncalled(self, file: Path) -> None:
        """Modules that a run has loaded have no steps of their own."""

    def judge_all(self, machine: Machine, segments: Sequence[Segment], number: int, launched: bool) -> None:
        found = [
            fit
            for segment in segments
            if not segment.uncalled
            for fit in self.fits_of(machine, segment, number, launched)
        ]
        if not found:  # a training function that nothing in sight calls
            found = [
                fit
                for segment in segments
                if segment.uncalled
                for fit in self.fits_of(machine, segment, number, launched)
            ]
        self.fits += found[:MAX_SHOWN]

    def judge_by_versions(self, newest: Interpretation, older: Interpretation, number: int, launched: bool) -> None:
        """A program that the newest versions refuse fits as it does with the newest that take it."""
        self.judge_all(older.machine, older.segments, number, launched)

    def fits_of(self, machine: Machine, segment: Segment, number: int, launched: bool) -> list[Fit]:
        found: dict[object, Fit] = {}
        for trace in worlds_of(machine, segment, launched).traces((Step, Forward, Backward, Keep)):
            filled = fill(trace)
            for step in filled.all(Step):
                if step.device.it == "cpu":
                    continue
                reading = read(trace, step, self.given)
                key = (reading.facts, reading.missing, reading.plans)
                if key not in found:
                    found[key] = self.measured(reading, number, filled, step)
        return list(found.values())

    def measured(self, reading: Reading, number: int, trace: Trace, step: Step) -> Fit:
        gpu = find_target(self.options.target).gpu
        assert gpu is not None
        limit, usable = gpu.total_memory - gpu.context_bytes[1], gpu.usable_bytes
        sections = tuple(section for make in SECTIONS if (section := make(trace, step, trace.target, self.given)))
        if not reading.plans:
            return Fit(number, reading, limit, usable, gpu.total_memory, where=step.where, sections=sections)
        peak, expected = spanned(reading.plans)
        worst = max((usage(plan) for plan in reading.plans), key=lambda use: use.expected)
        return Fit(
            number, reading, limit, usable, gpu.total_memory, worst, peak, expected, step.where,
            ways(reading.plans, reading.shape, limit, causal=reading.causal),
            largest_batch(reading.plans, limit), largest_length(reading.plans, limit), sections,
        )  # fmt: skip


def contract(fit: Fit) -> Mapping[str, object] | None:
    """The `memory` of the JSON contract: bytes, context not included."""
    if fit.usage is None or fit.peak is None:
        return None
    phases = {"forward": "forward", "optimizer": "optimizer"}
    high = None if fit.peak[1] == float("inf") else int(fit.peak[1])
    return {
        "peak_allocated": int(fit.expected), "peak_reserved": None, "low": int(fit.peak[0]), "high": high,
        "limit": fit.usable, "phase": phases.get(fit.usage.moment, "backward"),
        "components": {name: int((low + up) / 2) for name, (low, up) in fit.usage.components.items() if up < float("inf")},
        "basis": "closed form",
    }  # fmt: skip
