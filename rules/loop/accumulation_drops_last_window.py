"""The optimizer steps after every so many batches, and never for the rest of an epoch.

## What happens on a T4

`if (i + 1) % 4 == 0: optimizer.step()` leaves up to three batches of each epoch without a step. Their gradients are lost if they are
cleared, and else go into the first step of the next epoch, which is then larger than the others. With ten batches and four to a
step that is a fifth of the data.

## How to fix it

`if (i + 1) % 4 == 0 or i + 1 == len(loader):`.

## When it is right to ignore it

When an epoch has many more batches than a step, or their number is a multiple of it. Loops that are not repeated for each epoch, and
programs that step once more after the loop, are not reported.

## Sources

* torch 2.13, executed: ten batches, four to a step; the gradients of the last two went into the next epoch's first step
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Backward, Fact, Step, Trace, ZeroGrad
from t4lint.trace.questions import accumulated, windows


@rule(
    name="accumulation-drops-last-window",
    severity="note",
    summary="The last batches of an epoch are left without a step",
    message="A step comes after every {count} batches only: up to {rest} batches at the end of each epoch get none, and their "
    "gradients leak into the next epoch or are lost.",
    help="Step also where `i + 1 == len(loader)`.",
    triggers=("%",),
    reads=(Backward, Step, ZeroGrad),
)
def accumulation_drops_last_window(trace: Trace) -> Iterator[Candidate]:
    seen = set()
    for step, since in windows(trace):
        micro = accumulated(step, since)
        if not micro or step.key in seen or len(step.loops) < 2:
            continue
        seen.add(step.key)
        yield Candidate(
            step,
            micro[0].batches.equals(True) & _always_counted(trace, step) & ~_elsewhere(trace, step),
            words={"count": len(micro), "rest": len(micro) - 1},
        )


def _always_counted(trace: Trace, step: Step) -> Fact:
    """Does the number of the batch alone decide when this step comes, and every time alike?"""
    same = [it for it in trace.all(Step) if it.key == step.key]
    if len({it.backwards.it for it in same if it.backwards.known}) > 1:
        return FALSE
    by_number = step.counted.equals(True)
    for other in same:
        if other.counted.known:
            by_number &= other.counted.equals(True)
    return by_number


def _elsewhere(trace: Trace, step: Step) -> Fact:
    return trace.ever(Step, lambda other: Fact(other.key != step.key))
