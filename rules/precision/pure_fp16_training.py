"""Weights in fp16 are trained as they are: no float32 copy, no gradient scaler.

## What happens on a T4

An fp16 number has 11 significant bits: an update of 0.0001 to a weight of 1.0 is lost without a trace, and gradients
under 6e-8 are zero. With Adam it is worse. Its eps of 1e-8 is zero in fp16, and so is the square of a gradient under
0.0002, so the first step divides by zero and writes infinities or NaN into the weights. Nothing is raised.

## How to fix it

Keep the weights that are trained in `torch.float32` and use fp16 autocast with a `torch.amp.GradScaler`, or
`fp16=True` in training arguments. `eps=1e-4` only hides the infinities.

## When it is right to ignore it

When the optimizer keeps float32 copies of the weights itself, as DeepSpeed's does; optimizers of bitsandbytes and
Adafactor are not reported. Where nothing is trained in the end, freeze the weights.

## Sources

* torch 2.13: `AdamW` over fp16 weights, executed on the CPU for gradients from 1e-8 to 1e-3, foreach and single-tensor;
  the fused kernel computes in float32 inside and was not run
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Backward, Fact, Optimizer, Step, Trace, Value, unknown
from t4lint.trace.questions import on_gpu

SMALLEST_FP16 = 6e-8


@rule(
    name="pure-fp16-training",
    severity="warning",
    summary="fp16 weights trained without float32 copies or a scaler",
    message="The weights that are trained here are in fp16 and no gradient scaler is used: {effect}.",
    help="Keep trained weights in `torch.float32` and use fp16 autocast with a `torch.amp.GradScaler` (`fp16=True` in training arguments).",
    triggers=("half", "float16", "fp16"),
    reads=(Step, Optimizer, Backward),
    fix="unsafe",
)
def pure_fp16_training(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None:
        return
    built = {event.subject: event for event in trace.all(Optimizer)}
    scaled = FALSE
    for step in trace.events:
        if isinstance(step, Backward):
            scaled = step.scaled_by.test(lambda scaler: scaler != "none")
        if not isinstance(step, Step):
            continue
        optimizer = built.get(step.subject)
        bare = on_gpu(step.device) & step.gradients.test(lambda dtypes: tuple(dtypes) == ("float16",))
        bare &= ~scaled if step.engine else step.through_scaler.within((False, "none", ""))
        if step.gradients.likely:
            bare = Fact(None, (unknown("the checkpoint is only presumed to hold fp16"),))
        if optimizer is not None and _keeps_copies(optimizer.name):
            bare &= FALSE
        breaks = optimizer is not None and _writes_infinities(optimizer)
        yield Candidate(
            step,
            bare,
            blame=step.gradients,
            severity="error" if breaks else None,
            words={
                "effect": "Adam's eps is zero in fp16, and the first step writes infinities"
                if breaks
                else "small updates and small gradients are lost without a trace"
            },
        )


def _keeps_copies(name: Value) -> bool:
    return not name.known or "8bit" in str(name.it) or "Adafactor" in str(name.it) or "Paged" in str(name.it)


def _writes_infinities(optimizer: Optimizer) -> bool:
    adam = str(optimizer.name.it) in ("Adam", "AdamW", "NAdam", "RAdam")
    eps = optimizer.eps.it
    return adam and not optimizer.fused.it and isinstance(eps, float) and eps < SMALLEST_FP16
