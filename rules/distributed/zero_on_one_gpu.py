"""ZeRO or FSDP with a single process, where there is nothing to shard.

## What happens on a T4

With one rank every share is the whole: no byte of memory is saved, and the hooks, buckets and gathers of the engine cost time
and about a GiB of buffers. On a machine with one T4 that is all that ZeRO does without offload.

## How to fix it

Leave it out: plain training, LoRA, an 8-bit optimizer. With `offload_optimizer` it does save memory on the card.

## When it is right to ignore it

When the same configuration is meant for larger runs. With offload nothing is reported.

## Sources

* DeepSpeed 0.19.6 documentation of ZeRO; torch 2.13 FSDP with one process: the shard is the whole parameter
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Launch, Trace, Value, Wrap
from t4lint.trace.questions import ranks_of

NAMES = {"zero1": "ZeRO-1", "zero2": "ZeRO-2", "zero3": "ZeRO-3", "fsdp": "FSDP"}


@rule(
    name="zero-on-one-gpu",
    severity="note",
    summary="ZeRO or FSDP with one process shards nothing",
    message="{how} shards among the processes, and there is one: no memory is saved.",
    help="Leave it out, or use `offload_optimizer`, which does save memory.",
    triggers=("stage", "fsdp", "fully_shard", "FullyShardedDataParallel", "deepspeed"),
    reads=(Wrap, Launch),
)
def zero_on_one_gpu(trace: Trace) -> Iterator[Candidate]:
    ranks = ranks_of(trace)
    for wrap in trace.all(Wrap):
        alone = wrap.how.within(NAMES) & ranks.equals(1)
        for name in ("offload_optimizer", "offload_param"):
            alone &= wrap.options.get(name, Value("none")).equals("none")
        yield Candidate(wrap, alone, blame=wrap.how, words={"how": NAMES.get(str(wrap.how.it), "")})
