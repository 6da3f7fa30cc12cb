"""Gradients of several micro-batches are added up, and the loss is not divided by their number.

## What happens on a T4

A small card makes people accumulate, since the batch of the recipe does not fit. `backward()` adds to the gradients that are
there, so four micro-batches give four times the gradient of the batch that they stand for. With SGD that is four times
the learning rate; with clipping every step is clipped; Adam evens it out except for clipping, so there it is a note.

## How to fix it

`loss = loss / accumulation_steps` before the backward. If the learning rate was tuned with the sum, multiply it by the
same number (not with Adam).

## When it is right to ignore it

When the sum is meant, as for several tasks that share one step. Losses that are summed over the batch, that are divided by
anything that is not known, or whose backward belongs to accelerate, Lightning or the Trainer are not reported.

## Sources

* torch 2.13, executed: the gradient of four undivided micro-batches is exactly four times that of the whole batch
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, Edit, InsertBefore, Written, rule
from t4lint.trace import Backward, GradientRead, Optimizer, Step, Trace, ZeroGrad
from t4lint.trace.questions import accumulated, windows


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    code = f"{{loss}} = {{loss}} / {candidate.words['count']}"
    yield InsertBefore(candidate.event, code, {"loss": Written(candidate.event, "backward", "receiver")})


@rule(
    name="accumulation-loss-not-divided",
    severity="warning",
    summary="Accumulated gradients are a sum instead of a mean",
    message="{count} micro-batches make a step and the loss is not divided by {count}: the gradient is {count} times that of "
    "the batch{effect}.",
    help="Divide the loss by the number of micro-batches before `backward()`.",
    triggers=("backward",),
    reads=(Backward, GradientRead, Optimizer, Step, ZeroGrad),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Divide the loss by the number of micro-batches",
)
def accumulation_loss_not_divided(trace: Trace) -> Iterator[Candidate]:
    seen = set()
    for step, since in windows(trace):
        micro = accumulated(step, since)
        if not micro or micro[0].key in seen:
            continue
        seen.add(micro[0].key)
        hidden = _hides_scale(trace, step)
        yield Candidate(
            micro[0],
            micro[-1].divided_by.equals(1),
            severity="note" if hidden else None,
            words={
                "count": len(micro),
                "effect": ", which Adam evens out until gradients are clipped" if hidden else "",
            },
            related=(step,),
        )


def _hides_scale(trace: Trace, step: Step) -> bool:
    """Adam and its kin divide by the size of the gradient; clipping does not."""
    names = {optimizer.name.it for optimizer in trace.all(Optimizer) if optimizer.subject == step.subject}
    adaptive = bool(names) and all("Ada" in str(name) or "Lion" in str(name) for name in names)
    return adaptive and not any(True for _ in trace.all(GradientRead))
