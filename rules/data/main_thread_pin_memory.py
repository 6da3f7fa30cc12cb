"""A batch is pinned in the training loop right before it is copied.

## What happens on a T4

`x.pin_memory().to(device, non_blocking=True)` first takes page-locked memory and copies the batch into it, in the main thread, while
the GPU has nothing to do. PyTorch's own measurements find it up to twice as slow as a plain `.to(device)`. Pinning pays where a
loader's workers do it beside the training.

## How to fix it

`DataLoader(..., pin_memory=True, num_workers=2)` and `.to(device, non_blocking=True)`; for a tensor made in the loop a plain
`.to(device)`.

## When it is right to ignore it

When the next batch is fetched while the GPU still works on this one, and a measurement on the machine shows a gain.

## Sources

* PyTorch tutorial "A guide on good usage of non_blocking and pin_memory" (2.13), with the measurement. It takes a GPU to see, so no
  test here can show it
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Copy, Trace


@rule(
    name="main-thread-pin-memory",
    severity="note",
    summary="Batches are pinned in the main thread",
    message="Pinning this tensor here and copying it takes longer than a plain `.to(device)`: the main thread copies it twice.",
    help="Let the loader pin (`pin_memory=True` with workers), or drop the call.",
    triggers=("pin_memory()",),
    reads=(Copy,),
)
def main_thread_pin_memory(trace: Trace) -> Iterator[Candidate]:
    for copy in trace.all(Copy):
        pinned = copy.pinned.equals("call") & copy.destination.equals("cuda")
        if not copy.loops:
            pinned &= FALSE
        yield Candidate(copy, pinned)
