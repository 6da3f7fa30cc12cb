"""Two libraries are asked for in versions that do not work together.

## What happens on a T4

Some pairs are refused by the installer, others install without a word and end in an error when the trainer is built or the
first quantized layer runs: after the machine is rented and the model downloaded. The pairs here are those of training
stacks on a T4: TRL, transformers, bitsandbytes and the CUDA version of torch's wheels.

## How to fix it

Pin both to releases of the same time, or raise the older one. `pip install --dry-run -r requirements.txt` shows the pairs
that the installer refuses.

## When it is right to ignore it

When torch comes from another index with an older CUDA (`+cu126`): such a line is not judged. Where one side is open, and the
newest release breaks, it is a warning.

## Sources

* metadata and sources of trl 0.7.11, 0.11.4, 0.12.2 and 1.16.0, transformers 4.57.6, 5.0.0 and 5.24.0, wheels of bitsandbytes
  0.45.5 to 0.50.2, torch 2.11 to 2.15 (2026-11). The releases are not installed here
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from t4lint.rule import Candidate, rule
from t4lint.trace import Fact, Requirement, Trace, release


@dataclass(frozen=True, slots=True)
class Pair:
    """Versions of two libraries that do not work together; `open`: also where the installer may take the newest."""

    library: str
    low: str
    below: str
    other: str
    other_low: str
    other_below: str
    open: bool
    what: str


@cache
def pairs() -> tuple[Pair, ...]:
    with (Path(__file__).parent / "pin_conflicts.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return tuple(
        Pair(
            row["library"], row["from"], row["below"], row["other"], row["other_from"], row["other_below"],
            row["open"] == "yes", row["what"],
        )
        for row in rows
    )  # fmt: skip


@rule(
    name="dependency-pin-conflict",
    severity="error",
    summary="Two libraries in versions that do not work together",
    message="`{library}` {version} and {other} {other_version} do not work together: {what}.",
    help="Pin both to releases of the same time, or raise the older one.",
    triggers=("trl", "bitsandbytes", "transformers"),
    reads=(Requirement,),
    verifiable=False,
)
def dependency_pin_conflict(trace: Trace) -> Iterator[Candidate]:
    by_file: dict[str, dict[str, Requirement]] = defaultdict(dict)
    for one in trace.all(Requirement):
        if one.role != "optional":
            by_file[one.where.path][one.name] = one
    for asked in by_file.values():
        for pair in pairs():
            first, second = asked.get(pair.library), asked.get(pair.other)
            if first is not None and second is not None:
                yield from _judged(pair, first, second)


def _judged(pair: Pair, first: Requirement, second: Requirement) -> Iterator[Candidate]:
    inside = _inside(first.version.it, pair.low, pair.below)
    if inside is False:
        return
    other = _inside(second.version.it, pair.other_low, pair.other_below)
    newest = pair.open and second.version.it is None and second.high.it is None
    if second.name == "torch" and (second.elsewhere.it or "+" in str(second.version.it)):
        other, newest = None, False
    conflict = Fact(None if inside is None or (other is None and not newest) else inside and bool(other or newest))
    yield Candidate(
        first,
        conflict & Fact(True, (first.version, second.version)),
        blame=first.version,
        severity=None if other else "warning",
        words={
            "library": pair.library,
            "version": first.version.it,
            "other": f"`{pair.other}`",
            "other_version": second.version.it or "in its newest release",
            "what": pair.what,
        },
        related=(second,),
    )


def _inside(version: str | None, low: str, below: str) -> bool | None:
    """Is a pinned version in a range? None where nothing pins it."""
    if version is None:
        return None
    number = release(version)
    return (not low or number >= release(low)) and (not below or number < release(below))
