"""`backward()` is called inside the autocast region.

## What happens on a T4

Autocast is meant for the forward pass and the loss. The backward pass already runs each operation in the type that the
forward chose; inside the region the operations of custom backward functions and hooks are cast once more. PyTorch advises
against it.

## How to fix it

Leave the `with` block before `backward()`: dedent the line.

## When it is right to ignore it

No harm was measured: it is a note.

## Sources

* torch 2.13 documentation of `torch.autocast`: "Backward passes under autocast are not recommended"; executed: the gradients of a
  linear layer are the same either way
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Backward, Trace
from t4lint.trace.questions import first_of_each, on_gpu


@rule(
    name="backward-inside-autocast",
    severity="note",
    summary="backward inside the autocast region",
    message="`backward()` runs inside the autocast region, which is meant for the forward pass and the loss.",
    help="Move `backward()` out of the `with` block.",
    triggers=("autocast",),
    reads=(Backward,),
)
def backward_inside_autocast(trace: Trace) -> Iterator[Candidate]:
    for backward in first_of_each(trace, Backward):
        inside = on_gpu(backward.device) & backward.inside_autocast.equals(True)
        yield Candidate(backward, inside & FALSE if backward.engine else inside)
