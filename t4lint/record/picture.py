"""What a run showed, as plain figures to be drawn: memory over the steps, math by dtype, attention, copies and waits."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from t4lint.devices import Target
from t4lint.record.journal import Record
from t4lint.record.launch import Outcome, Recording
from t4lint.record.observe import basis_of

# What is known of the memory: everything at each moment ("held", of a phantom), the high-water marks of a GPU ("marks"),
# those of the process on this machine ("resident"), or nothing.
Memory = Literal["held", "marks", "resident", "nothing"]
PHASES = ("setup", "forward", "backward", "optimizer")
REST = "everything else"  # of a GPU's memory, where only weights, gradients and the optimizer's state are counted
RESIDENT = "the process"
COPIES_IN, COPIES_OUT, WAITS = "copies to the GPU", "copies to the CPU", "waits for the GPU"
ATTENTION = "attention "  # the start of the name of a count, before the kernel


@dataclass(frozen=True, slots=True)
class Moment:
    """What was in memory at one moment, in bytes by what it is. `step` counts the optimizer steps before it."""

    step: int
    phase: str
    held: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class StepFacts:
    """One optimizer step, counted from 1: FLOPs of its forwards by dtype, how often things happened, seconds."""

    number: int
    flops: Mapping[str, float]
    counts: Mapping[str, int]
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Tensors:
    """Tensors of the fullest moment that one statement made, and their bytes together. `at`: `path:line`, or ""."""

    kind: str
    operation: str
    at: str
    size: int
    count: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of attention that was taken, why it was no better one, and where."""

    name: str
    why: str
    dtype: str
    head_dim: int | None
    length: int | None
    at: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A run. `limit` is what the target leaves to torch, in bytes; 0 where the memory is not the target's."""

    command: str
    basis: str
    outcome: Outcome
    seconds: float
    memory: Memory
    moments: tuple[Moment, ...]
    limit: int
    steps: tuple[StepFacts, ...]
    largest: tuple[Tensors, ...]
    kernels: tuple[Kernel, ...]

    @property
    def peak(self) -> Moment | None:
        """The fullest moment."""
        return max(self.moments, key=lambda it: sum(it.held.values()), default=None)


def picture_of(recording: Recording, target: Target) -> Picture:
    """The figures of a recording. Of several processes the one that needed most memory, and of the steps the first's."""
    records = recording.journal.records
    basis = basis_of(recording, target)
    memory, moments = _memory(records)
    usable = target.gpu.usable_bytes if target.gpu is not None else 0
    held = [it.d for it in records if it.k == "held"]
    told = int(held[0].get("limit") or 0) if held else 0
    return Picture(
        command=shlex.join(recording.command),
        basis=basis,
        outcome=recording.outcome,
        seconds=recording.seconds,
        memory=memory,
        moments=moments,
        limit=(told or usable) if memory in ("held", "marks") else 0,
        steps=_steps(records, "asked" if basis == "cpu" else "ran"),
        largest=_largest(recording, held),
        kernels=_kernels(recording),
    )


# --- memory ------------------------------------------------------------------------------------------------------


def _memory(records: Sequence[Record]) -> tuple[Memory, tuple[Moment, ...]]:
    fills = _of_the_fullest(
        (it for it in records if it.k == "fill"), lambda it: sum(_sizes(it.d.get("components")).values())
    )
    if fills:
        return "held", tuple(
            Moment(int(it.d.get("step") or 0), str(it.d.get("in_phase")), _sizes(it.d.get("components")))
            for it in _last_telling(fills)
        )
    marks = _of_the_fullest((it for it in records if it.k == "memory"), lambda it: int(it.d.get("peak") or 0))
    if not marks:
        return "nothing", ()
    on_gpu = marks[-1].d.get("counted") == "allocated"
    moments = [moment for it in marks for moment in _marked(it, on_gpu)]
    return ("marks" if on_gpu else "resident"), tuple(moments)


def _of_the_fullest(records: Iterable[Record], size: Any) -> list[Record]:
    """Those of the process that had most."""
    by_process: dict[int, list[Record]] = {}
    for it in records:
        by_process.setdefault(it.pid, []).append(it)
    return max(by_process.values(), key=lambda told: max(size(it) for it in told), default=[])


def _last_telling(fills: Sequence[Record]) -> Sequence[Record]:
    """A process that was asked twice told all of it twice."""
    starts = [index for index, it in enumerate(fills) if it.d.get("number") == 0]
    return fills[starts[-1] :] if starts else fills


def _marked(record: Record, on_gpu: bool) -> Iterable[Moment]:
    """The high-water marks at the end of the phases of a step, and what of it is known by name."""
    phases = _sizes(record.d.get("phases"))
    known = _sizes(record.d.get("holds")) if on_gpu else {}
    for phase in PHASES:
        if phase in phases:
            rest = phases[phase] - sum(known.values())
            held = {**known, REST: rest} if known and rest >= 0 else {REST if on_gpu else RESIDENT: phases[phase]}
            yield Moment(max(0, record.st - 1), phase, held)


def _sizes(given: Any) -> dict[str, int]:
    """Bytes by name, of what a journal holds."""
    if not isinstance(given, Mapping):
        return {}
    return {str(name): int(size) for name, size in given.items() if isinstance(size, (int, float)) and size > 0}


def _largest(recording: Recording, held: Sequence[Mapping[str, Any]]) -> tuple[Tensors, ...]:
    if not held:
        return ()
    most = max(held, key=lambda it: it.get("allocated") or 0)
    found = []
    for it in most.get("largest") or ():
        at = _place(recording, it.get("at"))
        size, count = int(it.get("bytes") or 0), int(it.get("count") or 0)
        found.append(Tensors(str(it.get("kind")), str(it.get("operation")), at, size, count))
    return tuple(found)


# --- steps -------------------------------------------------------------------------------------------------------


def _steps(records: Sequence[Record], which: str) -> tuple[StepFacts, ...]:
    told = [it for it in records if it.k == "memory"]
    return tuple(_step(it, which) for it in told if it.pid == told[0].pid)


def _step(record: Record, which: str) -> StepFacts:
    flops = record.d.get("flops")
    table = flops.get(which) if isinstance(flops, Mapping) else None
    seconds = record.d.get("seconds")
    return StepFacts(
        number=record.st,
        flops={str(dtype): float(count) for dtype, count in table.items()} if isinstance(table, Mapping) else {},
        counts=_sizes(record.d.get("counts")),
        seconds=float(seconds) if isinstance(seconds, (int, float)) else None,
    )


def _kernels(recording: Recording) -> tuple[Kernel, ...]:
    """Each kernel at each place once."""
    found: dict[Kernel, None] = {}
    for it in recording.journal.records:
        if it.k != "attention" or it.d.get("role") != "call":
            continue
        at = _place(recording, it.u[0] if it.u else None)
        name = str(it.d.get("kernel") or it.d.get("implementation") or "unknown")
        dtype = str(it.d.get("dtype") or "")
        found[Kernel(name, str(it.d.get("why") or ""), dtype, it.d.get("head_dim"), it.d.get("length"), at)] = None
    return tuple(found)


def _place(recording: Recording, at: Any) -> str:
    """`path:line` as findings name it, of a line below the root; for a notebook its cell and the line in it."""
    if not at:
        return ""
    below, line = str(at[0]), int(at[1])
    path = Path(os.path.relpath(recording.root / below, recording.cwd)).as_posix()
    positions = recording.places.get(below)
    if positions is None:
        return f"{path}:{line}"
    where = positions.locate(line, 1)
    return f"{path}:{where.line}" if where.cell is None else f"{path}:cell {where.cell + 1}:{where.cell_line or 1}"
