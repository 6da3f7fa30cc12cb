"""Gradients are set to zero instead of being dropped.

## What happens on a T4

`zero_grad(set_to_none=False)` writes zeros into every gradient and keeps all of them through the next forward, where the activations
need the memory most. Dropped gradients cost nothing until the backward makes them again: 4 bytes a parameter less at the
peak of the forward, and one pass over the memory less.

## How to fix it

Drop the argument: `set_to_none=True` is the default since torch 2.0.

## When it is right to ignore it

When code between the steps reads `.grad` without looking whether it is there, or when a graph of CUDA operations is replayed,
which needs the gradients to stay where they are.

## Sources

* torch 2.13 documentation of `Optimizer.zero_grad`; its default executed there
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, DropArgument, Edit, rule
from t4lint.trace import Step, Trace, ZeroGrad
from t4lint.trace.questions import first_of_each, trains_on_cpu


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    if candidate.blame is not None:
        yield DropArgument(candidate.blame, "set_to_none")


@rule(
    name="zero-grad-set-to-none-false",
    severity="note",
    summary="Gradients are filled with zeros instead of being dropped",
    message="`set_to_none=False` keeps all gradients in memory during the next forward and writes zeros into them.",
    help="Drop the argument.",
    triggers=("zero_grad",),
    reads=(Step, ZeroGrad),
    fix="safe",
    fixes=_fixes,
    fix_title="Drop `set_to_none=False`",
)
def zero_grad_set_to_none_false(trace: Trace) -> Iterator[Candidate]:
    if trains_on_cpu(trace):
        return
    for cleared in first_of_each(trace, ZeroGrad):
        yield Candidate(cleared, cleared.set_to_none.equals(False), blame=cleared.set_to_none)
