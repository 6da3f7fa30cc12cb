"""DDP keeps each gradient twice: as the parameter's, and in the bucket that it sends.

## What happens on a T4

DDP copies the gradients into buckets and back: 4 bytes for each trained parameter on top of the gradients themselves, 1.3
GB for a model of 330 M parameters, of the 14.6 GiB of the card.

## How to fix it

`DistributedDataParallel(model, gradient_as_bucket_view=True)` lets `.grad` be a part of the bucket, so that nothing is kept
twice. With accelerate: `DistributedDataParallelKwargs(gradient_as_bucket_view=True)`. The Trainer has no argument for it.

## When it is right to ignore it

When memory is not short, or when something replaces gradients or calls `.grad.detach_()`, which views do not allow: programs
that name such a thing are not reported, nor are models below 50 M parameters. Off by default.

## Sources

* torch 2.13 documentation of DistributedDataParallel; off by default in torch and accelerate 1.15; that `.grad` shares its
  memory with the bucket is run in `tests/test_distributed_claims.py`
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import AddArgument, Candidate, Edit, rule
from t4lint.trace import Fact, Launch, Step, Trace, Value, Wrap
from t4lint.trace.questions import option_of, several_processes, trains_on_cpu

WORTH_IT = 50_000_000  # parameters, 0.2 GB
BYTES = 4  # of a gradient in float32


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    if candidate.event.role != "engine":
        yield AddArgument(candidate.event, "gradient_as_bucket_view", "True", "DistributedDataParallel")


@rule(
    name="gradient-bucket-view-off",
    severity="note",
    summary="DDP keeps each gradient twice",
    message="DDP keeps a second copy of the gradients in its buckets{size}.",
    help="Pass `gradient_as_bucket_view=True`.",
    triggers=("DistributedDataParallel", "DDP", "Accelerator"),
    reads=(Wrap, Step, Launch),
    default=False,
    fix="unsafe",
    fixes=_fixes,
    fix_title="Let gradients be views of the buckets",
)
def gradient_bucket_view_off(trace: Trace) -> Iterator[Candidate]:
    for wrap in trace.all(Wrap):
        if wrap.role == "engine" and "accelerate" not in trace.imported:
            continue
        trained = _trained(trace, wrap)
        yield Candidate(
            wrap,
            wrap.how.equals("ddp")
            & option_of(wrap, "gradient_as_bucket_view", False).equals(False)
            & several_processes(trace)
            & trained.test(lambda count: count >= WORTH_IT)
            & Fact("peft" not in trace.imported and not trains_on_cpu(trace)),
            words={"size": f": {BYTES * trained.it / 2**30:.1f} GiB of the card" if trained.known else ""},
        )


def _trained(trace: Trace, wrap: Wrap) -> Value:
    """Parameters whose gradients DDP reduces."""
    counts = [wrap.replicated, *(step.parameters for step in trace.all(Step))]
    known = (count for count in counts if isinstance(count.it, (int, float)))
    return next(known, Value(unknown="how many parameters are trained is not known"))
