"""Gradients are accumulated while they, or the weights, are sharded: the traffic repeats for each micro-batch.

## What happens on a T4

ZeRO-2, ZeRO-3 and FSDP reduce gradients after every micro-batch, since no card keeps them whole, and ZeRO-3 and FSDP gather
the weights again each time. Eight micro-batches send eight times the bytes. DDP with `no_sync()` and ZeRO-1 send them once.
Between T4 nodes that is most of the step.

## How to fix it

ZeRO-1 (or DDP with LoRA) if the gradients fit; otherwise larger micro-batches and fewer of them, with activation
checkpointing to make room.

## When it is right to ignore it

When memory leaves no choice, or inside one node when the steps are long. With one node it is reported on request only.

## Sources

* torch 2.13, FSDP2 with two processes: four micro-batches send 48 bytes a parameter against 12
* DeepSpeed documentation of ZeRO; accelerate documentation on gradient synchronisation (`sync_each_batch`)
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Engine, Fact, Launch, Trace, Value, Wrap

REPEATS = ("zero2", "zero3", "fsdp")
NAMES = {"zero2": "ZeRO-2", "zero3": "ZeRO-3", "fsdp": "FSDP"}


@rule(
    name="sharding-with-accumulation",
    severity="warning",
    summary="Sharded training repeats its traffic for every accumulated micro-batch",
    message="{how} exchanges gradients after each of the {count} micro-batches of a step, so {count} times the bytes cross the "
    "{link}.",
    help="Use ZeRO-1 if the gradients fit, or larger micro-batches and fewer of them.",
    triggers=("stage", "fsdp", "fully_shard", "FullyShardedDataParallel", "deepspeed"),
    reads=(Wrap, Launch, Engine, Call),
)
def sharding_with_accumulation(trace: Trace) -> Iterator[Candidate]:
    launch = next(trace.all(Launch), None)
    # of adapters there are few gradients, and ZeRO-2 exchanges nothing else
    adapters = any(call.function.startswith("peft.") for call in trace.all(Call))
    for wrap in trace.all(Wrap):
        if launch is None or (adapters and wrap.how.it == "zero2"):
            continue
        count = _accumulation(trace, wrap)
        nodes = launch.nodes.test(lambda number: number > 1)
        several = nodes | launch.processes_per_node.test(lambda number: number > 1)
        yield Candidate(
            wrap,
            wrap.how.within(REPEATS) & _shards(wrap) & count.test(lambda number: number > 1) & several,
            blame=count,
            words={
                "how": NAMES.get(str(wrap.how.it), "FSDP"),
                "count": count.it,
                "link": "network" if nodes.holds else "PCIe bus",
            },
            related=(wrap,),
            on_request=nodes.holds is not True,
        )


def _shards(wrap: Wrap) -> Fact:
    strategy = wrap.options.get("strategy")
    return Fact(True) if strategy is None else strategy.test(lambda name: "NO_SHARD" not in str(name), if_unknown=True)


def _accumulation(trace: Trace, wrap: Wrap) -> Value:
    """Micro-batches of a step: as the configuration says, else as the engine does."""
    written = wrap.options.get("gradient_accumulation_steps")
    if written is not None and isinstance(written.it, int):
        return written
    for engine in trace.all(Engine):
        if isinstance(engine.accumulation.it, int):
            return engine.accumulation
    return Value(unknown="how many micro-batches make a step is not known")
