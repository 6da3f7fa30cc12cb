"""ZeRO++ keeps a second copy of the weights in each node, and each node has one GPU.

## What happens on a T4

`zero_hpz_partition_size` shards a second copy of the 16-bit weights among the GPUs of a node, so that the backward gathers it
over PCIe and not over the network. It is meant to be the number of GPUs of a node. Where that is one, a larger number spans
nodes: the gather crosses the network all the same, and the copy takes its memory.

## How to fix it

Leave it out on nodes with one GPU.

## When it is right to ignore it

When the nodes of the real run have more GPUs than the launch in sight.

## Sources

* DeepSpeed 0.19.6 documentation of ZeRO++ (hpZ). It needs several nodes and is not shown here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Launch, Trace, Wrap


@rule(
    name="zeropp-on-one-gpu-nodes",
    severity="note",
    summary="ZeRO++ partitions inside nodes that have one GPU",
    message="`zero_hpz_partition_size` is {size}, and each node has one GPU: the second copy of the weights spans nodes and "
    "saves no traffic.",
    help="Leave `zero_hpz_partition_size` out on nodes with one GPU.",
    triggers=("zero_hpz_partition_size",),
    reads=(Wrap, Launch),
)
def zeropp_on_one_gpu_nodes(trace: Trace) -> Iterator[Candidate]:
    launch = next(trace.all(Launch), None)
    for wrap in trace.all(Wrap):
        size = wrap.options.get("zero_hpz_partition_size")
        if size is not None and launch is not None:
            alone = launch.processes_per_node.equals(1) & launch.nodes.test(lambda nodes: nodes > 1)
            larger = size.test(lambda number: isinstance(number, int) and number > 1)
            yield Candidate(wrap, larger & alone, blame=size, words={"size": size.it})
