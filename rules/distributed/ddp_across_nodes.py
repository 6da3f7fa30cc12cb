"""Data parallel training over several nodes, whose network takes longer than the computation.

## What happens on a T4

T4 machines have ordinary Ethernet: 3 to 10 Gbit/s for most types with one card, and three published runs got 2 to 5
Gbit/s out of it whatever the label said. DistributedDataParallel sends all gradients at every optimizer step, and
with autocast they are still fp32: 8 bytes for each parameter over the wire. When that takes longer than the
arithmetic, each further node adds waiting, not speed.

## How to fix it

Stay inside one node with several T4s, if the model fits. Otherwise send less: LoRA (a few million trained
parameters), more accumulation inside `no_sync()`, fp16 gradients by the `fp16_compress_hook`, ZeRO-1 in fp16.
Sharding in full (ZeRO-3, FSDP) sends more, not less, except against fp32 gradients.

## When it is right to ignore it

When the nodes have a fast network (100 Gbit/s with EFA or better), or when measured step times show that it does not
hold them up. The numbers are an estimate from the sustained bandwidth of the instance. Put the nodes into one
availability zone in any case.

## Sources

* bytes on the wire: torch 2.13 DDP with autocast, counted on two ranks; ring all-reduce: nccl-tests PERFORMANCE.md
* measured on T4 nodes: accelerate documentation on gradient synchronisation (1.15), huggingface/transformers#3274,
  NVIDIA/nccl#209
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Fact, Launch, Step, Trace, Wrap


@rule(
    name="ddp-across-nodes",
    severity="warning",
    summary="Data parallel training over nodes that wait for the network",
    message="With {nodes} nodes every optimizer step sends gradients{cost}, so the T4s wait for the network.",
    help="Stay inside one node, or send less: LoRA, more accumulation under `no_sync()`, fp16 gradients (`fp16_compress_hook`), ZeRO-1.",
    triggers=(
        "DistributedDataParallel",
        "DDP",
        "nnodes",
        "num_machines",
        "replicas",
        "numNodes",
        "Trainer",
        "accelerate",
    ),
    reads=(Wrap, Launch, Step),
)
def ddp_across_nodes(trace: Trace) -> Iterator[Candidate]:
    launch = next(trace.all(Launch), None)
    steps = list(trace.all(Step))
    for wrap in trace.all(Wrap):
        if launch is None or not steps:
            continue
        step = steps[0]
        yield Candidate(
            wrap,
            wrap.how.equals("ddp") & launch.nodes.test(lambda nodes: nodes > 1) & _network_bound(step),
            blame=launch.nodes,
            words={"nodes": launch.nodes.it, "cost": _cost(step)},
            related=(wrap,),
        )


def _network_bound(step: Step) -> Fact:
    """The wire takes longer at its best than the arithmetic at its worst; bands that overlap say nothing."""
    known = step.communication.test(lambda band: True) & step.compute.test(lambda band: True)
    if not known.holds:
        return known
    (wire_low, wire_high), (compute_low, compute_high) = step.communication.it, step.compute.it
    slower = True if wire_low > compute_high else False if wire_high <= compute_low else None
    return Fact(slower, (step.communication, step.compute))


def _cost(step: Step) -> str:
    """The times, where both are known."""
    if not (step.communication.known and step.compute.known):
        return ""
    wire, compute = (sum(band) / 2 for band in (step.communication.it, step.compute.it))
    return f" for about {wire:.1f} s and computes for about {compute:.1f} s"
