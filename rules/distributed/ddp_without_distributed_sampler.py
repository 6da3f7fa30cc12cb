"""Each process of a data parallel run shuffles the whole data set for itself.

## What happens on a T4

DistributedDataParallel leaves the data to the program. With `DataLoader(shuffle=True)` on every rank, each goes through
all of the data: with equal seeds all ranks compute the same gradients, and two T4s do the work of one; with different
seeds an epoch on two T4s shows each sample twice.

## How to fix it

`sampler = DistributedSampler(dataset)`, `DataLoader(dataset, sampler=sampler)` without `shuffle`, and
`sampler.set_epoch(epoch)` at the start of each epoch.

## When it is right to ignore it

When the data set is split by rank before the loader sees it, or when each rank is meant to draw from all of it. Programs
that name a sampler, a shard, a subset or an engine that splits the data anywhere are not judged.

## Sources

* torch 2.13, run with two ranks and equal seeds: both read the same batches
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Launch, Loader, Trace, Wrap
from t4lint.trace.questions import several_processes


@rule(
    name="ddp-without-distributed-sampler",
    severity="warning",
    summary="Every rank shuffles the whole data set",
    message="Each process shuffles all of the data for itself: nothing gives the ranks different parts of it.",
    help="Use `sampler=DistributedSampler(dataset)` in the place of `shuffle=True`, and call `set_epoch` each epoch.",
    triggers=("DistributedDataParallel", "DDP"),
    reads=(Loader, Wrap, Launch),
)
def ddp_without_distributed_sampler(trace: Trace) -> Iterator[Candidate]:
    wraps = [wrap for wrap in trace.all(Wrap) if wrap.role != "engine"]
    if not wraps:
        return
    parallel = FALSE
    for wrap in wraps:
        parallel |= wrap.how.equals("ddp") & wrap.data.equals("whole")
    for loader in trace.all(Loader):
        if loader.role != "eval":
            alone = loader.shuffle.equals(True) & loader.sampler.equals("none") & loader.device.equals("cuda")
            yield Candidate(
                loader, alone & parallel & several_processes(trace), blame=loader.shuffle, related=(wraps[0],)
            )
