"""Gradients are accumulated under DistributedDataParallel, and exchanged at every micro-batch.

## What happens on a T4

DDP exchanges all gradients at each `backward()`, also where the step comes several micro-batches later. Only the last
exchange is needed. Measured on T4s with four micro-batches and BERT-base: 2.0 s a batch against 0.91 s between two
machines, 0.50 s against 0.41 s between two cards of one.

## How to fix it

Run the forward and the backward of all but the last micro-batch inside `with model.no_sync():` (the forward too, or it has
no effect), set `model.require_backward_grad_sync` for the last one, or let accelerate do it: `with
accelerator.accumulate(model):`.

## When it is right to ignore it

When few parameters are trained, as with LoRA: there is little to exchange, and it is not reported. Nor are programs that
name `no_sync` anywhere.

## Sources

* accelerate documentation, "Gradient synchronization" (1.15), measured on T4s; torch 2.13, bytes counted on two ranks
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import Candidate, Edit, InsertBeforeUse, rule
from t4lint.trace import FALSE, Backward, Fact, Launch, Step, Trace, Wrap
from t4lint.trace.questions import several_processes

FEW = 20_000_000  # parameters whose gradients are not worth the trouble


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    """What `no_sync()` does, without a block. Not where the optimizer steps in two places: one would step without it."""
    places = {step.where for step in trace.all(Step)}
    if len(places) == 1:
        yield InsertBeforeUse(places.pop(), candidate.event, "{name}.require_backward_grad_sync = {when}")


@rule(
    name="accumulation-without-no-sync",
    severity="warning",
    summary="DDP exchanges gradients at every accumulated micro-batch",
    message="{backwards} micro-batches make a step, and DDP exchanges all gradients after each: {wasted} of {backwards} "
    "exchanges are for nothing.",
    help="Run all but the last micro-batch, forward and backward, inside `with model.no_sync():`.",
    triggers=("DistributedDataParallel", "DDP", "prepare_model"),
    reads=(Wrap, Step, Backward, Launch),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Exchange gradients with the last micro-batch only",
)
def accumulation_without_no_sync(trace: Trace) -> Iterator[Candidate]:
    steps = [step for step in trace.all(Step) if not step.engine]
    for wrap in trace.all(Wrap):
        if wrap.role == "engine" or not steps:
            continue
        step = next((it for it in reversed(steps) if it.backwards.known), steps[-1])
        small = FALSE if not step.parameters.known else Fact(step.parameters.it < FEW, (step.parameters,))
        if "peft" in trace.imported:
            small = Fact(True)
        yield Candidate(
            wrap,
            wrap.how.equals("ddp")
            & wrap.reduces.equals("always")
            & step.backwards.test(lambda count: count > 1)
            & several_processes(trace)
            & ~small,
            words={"backwards": step.backwards.it, "wasted": (step.backwards.it or 1) - 1},
            related=(step,),
        )
