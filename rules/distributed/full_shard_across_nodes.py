"""The model is sharded over all nodes, although it fits into one, and the network is slow.

## What happens on a T4

Full sharding (FSDP's FULL_SHARD, ZeRO-3) gathers all weights for the forward, gathers them again for the backward, and
scatters the gradients: 6 bytes for each parameter in every micro-batch with 16-bit weights, 12 in fp32. Inside a node that
goes over PCIe; over nodes it goes through the network card, and the T4s wait for it.

## How to fix it

`HYBRID_SHARD` keeps a full copy of the model in each node and sends one reduction between them. Otherwise
`reshard_after_forward=False` (SHARD_GRAD_OP, ZeRO-2) saves one of the two gathers, and one node with offload saves all.

## When it is right to ignore it

When the training state does not fit into one node (16 bytes for each parameter that Adam trains in mixed precision), or with
one GPU a node, where there is nothing to shard inside: not reported. Nor is a network of 25 Gbit/s and more.

## Sources

* torch 2.13, FSDP2 with two and four processes, bytes counted: 12, 8 and 6 a parameter; DeepSpeed documentation of ZeRO-3
* rates of the instances: tables of the providers in `t4lint/devices`
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Fact, Launch, Step, Trace, Value, Wrap
from t4lint.trace.questions import parameters_of, ranks_of, sustained_gbps

FAST = 25  # Gbit/s
STATE = 16  # bytes a parameter: fp32 weights, gradients and two moments of Adam, or their 16-bit form
CARD = 13e9  # bytes that a T4 leaves to states, beside activations and the CUDA context
TRAFFIC = 6  # bytes a parameter and micro-batch, all in 16 bits: the least


@rule(
    name="full-shard-across-nodes",
    severity="warning",
    summary="Full sharding over nodes with a slow network",
    message="All weights are gathered over the network for each micro-batch{cost}, and the model fits into one node.",
    help="Use HYBRID_SHARD, or `reshard_after_forward=False` (ZeRO-2), or one node.",
    triggers=("FULL_SHARD", "full_shard", "fsdp", "fully_shard", "FullyShardedDataParallel", "stage", "deepspeed"),
    reads=(Wrap, Launch, Step),
)
def full_shard_across_nodes(trace: Trace) -> Iterator[Candidate]:
    launch = next(trace.all(Launch), None)
    parameters, ranks, gbps = parameters_of(trace), ranks_of(trace), sustained_gbps(trace)
    for wrap in trace.all(Wrap):
        if launch is None:
            continue
        spread = launch.nodes.test(lambda nodes: nodes > 1) & launch.processes_per_node.test(lambda each: each > 1)
        slow = gbps.test(lambda rate: rate < FAST)
        yield Candidate(
            wrap,
            _full(wrap) & ~_less_would_do(wrap, parameters, ranks) & spread & slow & _fits_one_node(parameters, launch),
            blame=wrap.how,
            words={"cost": _cost(trace, parameters, ranks, gbps)},
        )


def _cost(trace: Trace, parameters: Value, ranks: Value, gbps: Value) -> str:
    """The least time, where all of what it is made of is known."""
    if not (parameters.known and ranks.known and gbps.known):
        return ""
    return f": at least {_seconds(parameters.it, ranks.it, _fastest(trace)):.1f} s at {gbps.it:g} Gbit/s"


def _full(wrap: Wrap) -> Fact:
    if wrap.how.it == "zero3":
        return wrap.how.equals("zero3")
    return wrap.how.equals("fsdp") & wrap.options.get("strategy", Value(unknown="the sharding strategy")).equals(
        "FULL_SHARD"
    )


def _less_would_do(wrap: Wrap, parameters: Value, ranks: Value) -> Fact:
    """Does ZeRO-2 fit, so that another rule speaks of it?"""
    stays = all(
        wrap.options.get(name, Value("none")).it in ("none", None) for name in ("offload_optimizer", "offload_param")
    )
    if wrap.how.it != "zero3" or not stays or not (parameters.known and ranks.known):
        return FALSE
    return Fact((2 + 18 / max(ranks.it, 1)) * parameters.it <= CARD)


def _fits_one_node(parameters: Value, launch: Launch) -> Fact:
    each = launch.processes_per_node
    if not (parameters.known and each.known):
        return Fact(None, (parameters, each))
    return Fact(STATE * parameters.it / each.it <= CARD, (parameters, each))


def _fastest(trace: Trace) -> float:
    """The most that a node's network gives, in Gbit/s."""
    instance = trace.target.instance
    return float(instance.network_gbps_max or instance.network_gbps_baseline or 1) if instance is not None else 1.0


def _seconds(parameters: float, ranks: int, gbps: float) -> float:
    """The least time of one micro-batch on the wire, at the full rate of the network card."""
    return TRAFFIC * parameters * (ranks - 1) / ranks / (gbps * 1e9 / 8)
