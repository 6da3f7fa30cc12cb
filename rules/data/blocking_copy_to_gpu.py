"""Batches that the loader pins are copied to the GPU without `non_blocking=True`.

## What happens on a T4

The copy of a pinned batch could run while the host prepares the next thing to do; without `non_blocking=True` the host waits for
it. In a published copy-only benchmark the difference was 0.52 s against 0.46 s; in a training loop whose GPU is busy it
is less.

## How to fix it

`.to(device, non_blocking=True)`. The stream keeps the order, so nothing can be read too early on the GPU.

## When it is right to ignore it

When the GPU is the limit anyway, as on most T4s; hence the rule is off unless it is selected. Batches that are not pinned gain
nothing and are not reported.

## Sources

* copy benchmark: stas00/ml-engineering; PyTorch tutorial on `non_blocking` and pinned memory (2.13). It takes a GPU to see, so no
  test here can show it
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, Edit, SetArgument, rule
from t4lint.trace import FALSE, Copy, Trace
from t4lint.trace.questions import first_of_each


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    yield SetArgument(candidate.event, "non_blocking", "True", callee="to")


@rule(
    name="blocking-copy-to-gpu",
    severity="note",
    summary="Pinned batches are copied while the host waits",
    message="The loader pins this batch, and the host waits for its copy all the same.",
    help="Copy with `non_blocking=True`.",
    triggers=("DataLoader",),
    reads=(Copy,),
    default=False,
    fix="safe",
    fixes=_fixes,
    fix_title="Copy without waiting",
)
def blocking_copy_to_gpu(trace: Trace) -> Iterator[Candidate]:
    for copy in first_of_each(trace, Copy):
        waits = copy.pinned.equals("loader") & copy.destination.equals("cuda") & copy.non_blocking.equals(False)
        if not copy.loops:
            waits &= FALSE
        yield Candidate(copy, waits)
