"""HYBRID_SHARD is used where each node has one GPU, so nothing is sharded.

## What happens on a T4

HYBRID_SHARD shards inside a node and keeps a copy of the model in each. With one T4 a node the group that shards has one
member: every card holds all weights, gradients and optimizer states, and the nodes exchange as many bytes as with plain
DDP. Most T4 machines have one card.

## How to fix it

FULL_SHARD if memory is short (and the network bears it); DDP, better with LoRA, if it is not; or a machine with several T4s.

## When it is right to ignore it

When a device mesh of its own makes the shard group span nodes: that is not followed, and not reported.

## Sources

* torch 2.13 FSDP, four processes as two nodes of two, bytes counted; with one a node the shard group has one member
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Launch, Trace, Value, Wrap


@rule(
    name="hybrid-shard-on-one-gpu-nodes",
    severity="warning",
    summary="HYBRID_SHARD on nodes with one GPU shards nothing",
    message="HYBRID_SHARD shards inside a node, and each of the {nodes} nodes has one process: every GPU holds the whole model.",
    help="Use FULL_SHARD if memory is short, else DDP.",
    triggers=("HYBRID_SHARD", "hybrid_shard", "_HYBRID_SHARD", "fsdp"),
    reads=(Wrap, Launch),
)
def hybrid_shard_on_one_gpu_nodes(trace: Trace) -> Iterator[Candidate]:
    launch = next(trace.all(Launch), None)
    for wrap in trace.all(Wrap):
        strategy = wrap.options.get("strategy", Value(unknown="the sharding strategy"))
        if launch is not None:
            hybrid = strategy.test(lambda name: "HYBRID" in str(name))
            alone = launch.processes_per_node.equals(1) & launch.nodes.test(lambda nodes: nodes > 1)
            yield Candidate(wrap, hybrid & alone, blame=strategy, words={"nodes": launch.nodes.it})
