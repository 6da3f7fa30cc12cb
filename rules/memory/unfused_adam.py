"""Adam over a large model takes its default implementation, which needs a copy of the parameters at the step.

## What happens on a T4

Without `fused=True` PyTorch steps over all tensors at once (`foreach`) and makes temporary lists as large as the parameters: 20 bytes
a parameter at the step instead of 16. For 500 million parameters that is 2 GB of a T4's 14.6, at the moment when everything else
is there as well. The fused kernel needs none of it and is faster.

## How to fix it

`torch.optim.AdamW(..., fused=True)` (since torch 2.0).

## When it is right to ignore it

When the optimizer holds tensors that the fused kernel refuses, or Lightning clips gradients under mixed precision, which it does not
allow together. Few trained parameters are not reported, as with LoRA.

## Sources

* torch 2.13 documentation of `AdamW`; bytes a parameter measured there: 20.0 (foreach) against 16.0 (fused)
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import AddArgument, Candidate, Edit, rule
from t4lint.trace import Optimizer, Step, Trace
from t4lint.trace.questions import first_of_each, lowest, on_gpu

ADAM = ("Adam", "AdamW")
FULL = 0.8  # of the card, from which on other rules speak of its memory
STATE = ("weights", "gradients", "optimizer")
MANY = 200_000_000  # parameters, from which on the temporaries take a gigabyte; chosen here, without a source


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    yield AddArgument(candidate.event, "fused", "True", callee=str(candidate.words["name"]))


@rule(
    name="unfused-adam",
    severity="note",
    summary="Adam needs a copy of the parameters at the step",
    message="`{name}` over {parameters} million parameters makes temporary copies at each step, {extra:.1f} GiB; with "
    "`fused=True` it makes none.",
    help="Pass `fused=True`.",
    triggers=("Adam",),
    reads=(Optimizer, Step),
    fix="safe",
    fixes=_fixes,
    fix_title="Use the fused implementation",
)
def unfused_adam(trace: Trace) -> Iterator[Candidate]:
    for optimizer in first_of_each(trace, Optimizer):
        if not str(optimizer.implementation.it).startswith("torch.optim.") or optimizer.name.it not in ADAM:
            continue
        steps = [step for step in trace.all(Step) if step.subject == optimizer.subject]
        plain = optimizer.fused.test(lambda fused: not fused) & optimizer.foreach.test(lambda way: way is not False)
        if not steps or any(step.engine == "Lightning" for step in steps) or "peft" in trace.imported:
            continue
        parameters, gpu = steps[-1].parameters, trace.target.gpu
        if gpu is not None and lowest(steps[-1], *STATE) > FULL * gpu.usable_bytes:
            continue  # there is hardly room whatever the implementation: that is said elsewhere
        large = parameters.test(lambda count: count > MANY)
        count = parameters.it if parameters.known else 0
        yield Candidate(
            optimizer,
            plain & large & on_gpu(steps[-1].device),
            words={"name": optimizer.name.it, "parameters": round(count / 1e6), "extra": 4 * count / 2**30},
            related=(steps[-1],),
        )
