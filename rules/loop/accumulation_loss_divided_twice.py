"""The program divides the loss by the number of micro-batches, and its engine does so again.

## What happens on a T4

`Accelerator(gradient_accumulation_steps=4)` divides the loss by four in `accelerator.backward`, and Lightning by
`accumulate_grad_batches`. A `loss / 4` before it, left over from a loop written by hand, makes every gradient four times too
small: the learning rate of SGD is a quarter of what stands there, clipping never acts, and the loss that is logged is wrong.

## How to fix it

Drop the division.

## When it is right to ignore it

When the number is a weight of the loss that only happens to be the same.

## Sources

* accelerate 0.34 and 1.15 `Accelerator.backward`, executed on 1.15; lightning 2.6 `loops/optimization/automatic.py`
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Backward, Trace
from t4lint.trace.questions import first_of_each


@rule(
    name="accumulation-loss-divided-twice",
    severity="warning",
    summary="The loss is divided by the accumulation twice",
    message="The loss is divided by {count} here and once more by {engine}: gradients are {count} times too small.",
    help="Drop the division; the engine divides by its own accumulation setting.",
    triggers=("gradient_accumulation_steps", "accumulate_grad_batches", "accelerat"),
    reads=(Backward,),
)
def accumulation_loss_divided_twice(trace: Trace) -> Iterator[Candidate]:
    for backward in first_of_each(trace, Backward):
        if not backward.engine:
            continue
        by_engine, by_program = backward.engine_divides, backward.divided_by
        several = by_engine.test(lambda count: isinstance(count, (int, float)) and count > 1)
        again = by_program.equals(by_engine.it)
        yield Candidate(
            backward,
            several & again,
            words={"count": f"{by_program.it:g}" if by_program.known else "", "engine": backward.engine},
            related=(),
        )
