"""Batch norm under DDP with a few samples on each GPU.

## What happens on a T4

Each process normalizes by the mean and variance of its own samples only. With four or fewer, which is what large images leave
on a T4, the statistics are mostly noise: training is less stable, and the running statistics fit evaluation badly. More
GPUs do not help, since the statistics are not shared.

## How to fix it

GroupNorm, or batch norm that is frozen to pretrained statistics, does not depend on the batch. `SyncBatchNorm` shares the
statistics, at the price of a collective in each layer, which is dear between T4 nodes and fair inside one.

## When it is right to ignore it

When the statistics are frozen by `eval()` (the modules then do not use the batch), or when the batch norm sees many more positions
than samples, as in dense prediction on large images. Off by default.

## Sources

* torch 2.13 documentation of BatchNorm and SyncBatchNorm; that ranks normalize apart is run in
  `tests/test_distributed_claims.py`. Wu and He, Group Normalization (2018), compare both by the
  number of samples a GPU
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Backward, Engine, Launch, Loader, Step, Trace, Value, Wrap
from t4lint.trace.questions import several_processes

FEW = 4  # samples on a GPU


@rule(
    name="batchnorm-on-small-ddp-batch",
    severity="note",
    summary="Batch norm over a few samples on each GPU",
    message="Batch norm takes its statistics from the {samples} samples of one GPU; the other processes do not count.",
    help="Use GroupNorm or frozen statistics; inside one node `SyncBatchNorm.convert_sync_batchnorm(model)`.",
    triggers=("DistributedDataParallel", "DDP", "Accelerator", "Trainer"),
    reads=(Wrap, Step, Loader, Engine, Launch, Backward),
    default=False,
)
def batchnorm_on_small_ddp_batch(trace: Trace) -> Iterator[Candidate]:
    samples, trains = _samples(trace), trace.ever(Backward)
    for wrap in trace.all(Wrap):
        yield Candidate(
            wrap,
            wrap.how.equals("ddp")
            & wrap.normalization.equals("BatchNorm")
            & samples.test(lambda count: 0 < count <= FEW)
            & several_processes(trace)
            & trains,
            blame=samples,
            words={"samples": samples.it},
            related=(wrap,),
        )


def _samples(trace: Trace) -> Value:
    """Samples on one GPU at a time."""
    said = [step.micro_batch for step in trace.all(Step)] + [engine.micro_batch for engine in trace.all(Engine)]
    said += [loader.batch_size for loader in trace.all(Loader) if loader.role != "eval"][:1]
    return next((value for value in said if isinstance(value.it, int)), Value(unknown="the batch size is not known"))
