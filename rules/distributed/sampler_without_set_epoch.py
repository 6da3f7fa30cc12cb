"""A DistributedSampler that shuffles is never told the epoch, so every epoch has the same order.

## What happens on a T4

The sampler shuffles with `seed + epoch`, and the epoch stays 0 unless `set_epoch` is called. Each epoch then shows the
same samples in the same batches, to the same rank: the model sees less of the noise that shuffling is for. The same on
every GPU, but runs on T4s are long, and it is found after them.

## How to fix it

`sampler.set_epoch(epoch)` as the first line of the loop over epochs.

## When it is right to ignore it

When there is one epoch. Samplers with `shuffle=False` are not reported, nor are programs of accelerate or Lightning, which
call it themselves.

## Sources

* torch 2.13, `torch/utils/data/distributed.py`, run: the same order in two epochs
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import Candidate, Edit, InsertInRange, rule
from t4lint.trace import Backward, Call, Fact, Loader, Step, Trace

ENGINES = frozenset(
    {"accelerate", "lightning", "pytorch_lightning", "lightning_fabric", "ignite", "catalyst", "deepspeed"}
)
CREATED = "torch.utils.data.distributed.DistributedSampler"


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    yield InsertInRange(candidate.event, "{name}.set_epoch({count})")


@rule(
    name="sampler-without-set-epoch",
    severity="warning",
    summary="A DistributedSampler that shuffles every epoch alike",
    message="This sampler is never told the epoch (`set_epoch`), so every epoch has the same order.",
    help="Call `sampler.set_epoch(epoch)` as the first line of the loop over epochs.",
    triggers=("DistributedSampler",),
    reads=(Call, Step, Backward, Loader),
    fix="safe",
    fixes=_fixes,
    fix_title="Tell the sampler the epoch",
)
def sampler_without_set_epoch(trace: Trace) -> Iterator[Candidate]:
    samplers = [call for call in trace.all(Call) if call.function == CREATED]
    told = trace.ever(Call, lambda call: Fact(call.function == f"{CREATED}.set_epoch"))
    used = trace.ever(Loader, lambda loader: loader.sampler.equals("DistributedSampler"))
    for sampler in samplers[:1]:  # the first is the one for training
        shuffles = sampler.arguments["shuffle"].test(lambda value: value is not False)
        by_engine = Fact(bool(ENGINES & trace.imported))
        yield Candidate(sampler, shuffles & used & _epochs(trace) & ~told & ~by_engine)


def _epochs(trace: Trace) -> Fact:
    """A step inside a loop over batches inside a loop over epochs."""
    trains = trace.ever(Step, lambda step: Fact(len(step.loops) >= 2))
    return trains | trace.ever(Backward, lambda backward: Fact(len(backward.loops) >= 2))
