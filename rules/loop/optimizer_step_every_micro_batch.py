"""Accumulation is asked for, and the optimizer steps after every batch all the same.

## What happens on a T4

`Accelerator(gradient_accumulation_steps=4)` divides each loss by four, and lets the optimizer step in every fourth batch only inside
`with accelerator.accumulate(model):`. Without it each batch steps, on gradients four times too small: the small batch that a T4
holds is the whole batch, with a quarter of the learning rate, and the run does not say so.

## How to fix it

Put forward, backward, step and `zero_grad` inside `with accelerator.accumulate(model):`. In a loop of one's own step in every fourth
batch only.

## When it is right to ignore it

When something that is not seen here enters `accumulate`. Programs that step by a count of their own, or that name `no_sync`, are not
reported.

## Sources

* accelerate 1.15, executed: without `accumulate` four batches make four steps, with losses divided by four
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Backward, Call, Fact, Step, Trace
from t4lint.trace.questions import first_of_each

CONTEXTS = ("accelerate.Accelerator.accumulate", "accelerate.Accelerator.no_sync")


@rule(
    name="optimizer-step-every-micro-batch",
    severity="warning",
    summary="Accumulation is asked for, and each batch steps",
    message="The accelerator divides each loss by {count}, but without `accelerator.accumulate(model)` the optimizer steps after "
    "every batch.",
    help="Run the step inside `with accelerator.accumulate(model):`.",
    triggers=("gradient_accumulation_steps", "accelerat"),
    reads=(Backward, Call, Step),
)
def optimizer_step_every_micro_batch(trace: Trace) -> Iterator[Candidate]:
    divided = [backward.engine_divides for backward in trace.all(Backward) if backward.engine == "Accelerator"]
    by_hand = trace.ever(Call, lambda call: Fact(call.function in CONTEXTS))
    for step in first_of_each(trace, Step):
        if step.engine != "Accelerator" or not divided or not step.loops:
            continue
        several = divided[-1].test(lambda count: isinstance(count, (int, float)) and count > 1)
        each = step.backwards.equals(1)
        if any(it.backwards.it not in (None, 1) for it in trace.all(Step) if it.key == step.key):
            each &= FALSE
        yield Candidate(
            step, several & each & ~by_hand, words={"count": divided[-1].it}, blame=None,
        )  # fmt: skip
