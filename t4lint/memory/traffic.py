"""What the processes of a run exchange for one optimizer step, read from its recipe.

Bytes are those of whole tensors: gathering or scattering a tensor of S bytes over a ring of n ranks sends (n-1)/n of S
from each, and an all-reduce is one of each. Counted on two and four processes with torch 2.13 (DDP, FSDP2) and read in
DeepSpeed 0.19.6.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from t4lint.devices import Instance, Target, UnknownTarget, find_target
from t4lint.memory.communication import NetworkRate, pcie_band, ring_share
from t4lint.memory.estimate import DTYPE_BYTES, Band
from t4lint.memory.recipe import Evidence, Recipe
from t4lint.trace import NOT_SAID, Step, Value, unknown

SIXTEEN_BIT = ("fp16", "bf16")
# What makes fp16 or bf16 of the gradients on the wire (torch 2.13 `ddp_comm_hooks`, accelerate 1.15).
HALVES = ("fp16_compress_hook", "bf16_compress_hook", "FP16", "BF16")


@dataclass(frozen=True, slots=True)
class Passes:
    """How often the weights are gathered and the gradients scattered: for each micro-batch, and for each step."""

    weights_each: int = 0
    weights_once: int = 0
    gradients_each: int = 0
    gradients_once: int = 0


# An all-reduce counts twice. ZeRO-1 reduces at the end of the accumulation, ZeRO-2 and FSDP after each micro-batch.
DDP_EACH, DDP_ONCE = Passes(gradients_each=2), Passes(gradients_once=2)
PASSES: Mapping[str, Passes] = {
    "zero1": Passes(weights_once=1, gradients_once=1),
    "zero2": Passes(weights_once=1, gradients_each=1),
    "zero3": Passes(weights_each=2, gradients_each=1),
    "FULL_SHARD": Passes(weights_each=2, gradients_each=1),
    "SHARD_GRAD_OP": Passes(weights_each=1, gradients_each=1),
}
# FSDP's strategies that shard inside a node only, as what they do there.
HYBRID: Mapping[str, str] = {"HYBRID_SHARD": "FULL_SHARD", "HYBRID_SHARD_ZERO2": "SHARD_GRAD_OP"}


@dataclass(frozen=True, slots=True)
class Ring:
    """Whole-tensor bytes that go around `ranks` ranks in a step, over the network or inside a machine."""

    over: Literal["network", "machine"]
    ranks: int
    size: Band

    @property
    def sent(self) -> Band:
        """Bytes that leave each rank, or each node's network card, in a step."""
        return _scaled(self.size, ring_share(self.ranks))


@dataclass(frozen=True, slots=True)
class Exchange:
    """How the processes share the work, and what they exchange for one optimizer step."""

    how: str  # "ddp", "zero1".."zero3", "fsdp"
    strategy: str  # FSDP's, empty elsewhere
    nodes: int
    per_node: int
    weight_size: Band  # bytes of one weight on the wire
    gradient_size: Band  # bytes of one gradient
    repeats: bool  # does it go again with every micro-batch
    rings: tuple[Ring, ...]

    @property
    def ranks(self) -> int:
        return self.nodes * self.per_node


@dataclass(frozen=True, slots=True)
class Links:
    """Bytes a second that a node reaches, each as (expected, highest). None where it is not known, with the reason."""

    network: Band | None
    machine: Band | None
    reason: str = ""
    instance: Instance | None = None


def exchange_of(recipe: Recipe, parameters: float, trainable: Band, step: Step, evidence: Evidence) -> Exchange | Value:
    """The exchange of a step of several processes, or an unknown value with the reason why it is not known."""
    if recipe.wrap is None:
        return unknown("nothing says how the processes share the work")
    how = evidence.take(recipe.wrap.how)
    for value in (how, recipe.nodes, recipe.per_node):
        if not value.known:
            return value
    strategy = _strategy(recipe) if how.it == "fsdp" else ""
    often = _micro_batches(recipe, evidence)
    passes, repeated = _passes(recipe, how.it, strategy, step, often)
    if passes is None:
        return unknown(f"the traffic of {how.it} is not modelled")
    weight, gradient = _weight_size(recipe, how.it), gradient_size(recipe, how.it, evidence)
    whole = parameters if how.it in ("zero3", "fsdp") else trainable[1]
    few = parameters if how.it in ("zero3", "fsdp") else trainable[0]
    gathers = _total(passes.weights_each, passes.weights_once, repeated)
    # Recomputing a block whose weights were dropped after the forward may gather them once more.
    again = often[1] if recipe.checkpointing.it is True and passes.weights_each == 2 else 0
    weights = (few * weight[0] * gathers[0], whole * weight[1] * (gathers[1] + again))
    scatters = _total(passes.gradients_each, passes.gradients_once, repeated)
    gradients = (trainable[0] * gradient[0] * scatters[0], trainable[1] * gradient[1] * scatters[1])
    nodes, each = int(recipe.nodes.it), int(recipe.per_node.it)
    rings = _rings(strategy, nodes, each, _plus(weights, gradients), _between(trainable, gradient, repeated))
    return Exchange(
        how.it, strategy, nodes, each, weight, gradient, bool(passes.weights_each or passes.gradients_each), rings
    )


def seconds_of(exchange: Exchange, links: Links) -> Band | Value:
    """Seconds on the wire for one step: the lower edge at the highest rate, rings inside and between nodes at once."""
    low, high = 0.0, 0.0
    for ring in exchange.rings:
        rate = links.network if ring.over == "network" else links.machine
        if rate is None:
            return unknown(links.reason)
        low = max(low, ring.sent[0] / rate[1])
        high += ring.sent[1] / rate[0]
    return (low, high)


def links_of(recipe: Recipe, target: Target) -> Links:
    """What a node's network and the way between its GPUs give, as far as the tables say."""
    machine = None if target.gpu is None or target.gpu.nvlink else pcie_band()
    if recipe.nodes.it == 1:
        reason = "" if machine else "the link between the GPUs is not known"
        return Links(None, machine, reason)
    instance = _instance(recipe, target)
    if instance is None:
        return Links(None, machine, "the network of the nodes is not known: name the instance as the target")
    fastest = instance.network_gbps_max or instance.network_gbps_baseline
    if not fastest:
        return Links(None, machine, f"the network of {instance.name} is not known", instance)
    rate = NetworkRate(fastest, instance.network_gbps_baseline, instance.provider)
    return Links(rate.band, machine, "" if machine else "the link between the GPUs is not known", instance)


def ranks_of(recipe: Recipe) -> Value:
    """How many processes train together."""
    for value in (recipe.nodes, recipe.per_node):
        if not value.known:
            return value if value != NOT_SAID else unknown("the number of processes is not known")
    evidence = Evidence()
    return evidence.conclude(evidence.take(recipe.nodes).it * evidence.take(recipe.per_node).it)


def gradient_size(recipe: Recipe, how: str, evidence: Evidence) -> Band:
    """Bytes of one gradient on the wire. DDP sends the dtype of the parameters, float32 under autocast too."""
    assert recipe.wrap is not None
    if recipe.wrap.gradient_bytes.known:
        return (evidence.take(recipe.wrap.gradient_bytes).it,) * 2
    if how != "ddp":
        return _weight_size(recipe, how) if how != "fsdp" else (_weight_size(recipe, how)[0], 4.0)
    if recipe.hook.known and str(recipe.hook.it).rpartition(".")[2] in HALVES:
        evidence.take(recipe.hook)
        return (2.0, 2.0)
    size = DTYPE_BYTES.get(str(evidence.take(recipe.model.dtype).it) if recipe.model.dtype.known else "")
    # Adapters are in float32 on a 16-bit base, or not; a hook that is not known may compress them.
    low = 1.0 if recipe.hook != NOT_SAID else 2.0
    return (low, 4.0) if size in (None, 2, 1) or recipe.hook != NOT_SAID else (float(size or 4),) * 2


# --- parts --------------------------------------------------------------------------------------------------------


def _strategy(recipe: Recipe) -> str:
    assert recipe.wrap is not None
    said = recipe.wrap.options.get("strategy", NOT_SAID)
    return str(said.it) if said.known else ""


def _passes(recipe: Recipe, how: str, strategy: str, step: Step, often: Band) -> tuple[Passes | None, Band]:
    """The passes of a strategy, and how often those of a micro-batch are made in a step."""
    if how == "ddp":
        assert recipe.wrap is not None
        if step.engine or recipe.wrap.reduces.it == "chosen":  # engines reduce at the last micro-batch
            return DDP_ONCE, (1.0, 1.0)
        return DDP_EACH, often if recipe.wrap.reduces.it == "always" else (1.0, often[1])
    if how == "fsdp":
        inside = HYBRID.get(strategy, strategy)
        if inside in PASSES:
            return PASSES[inside], often
        return (None if strategy else PASSES["FULL_SHARD"]), often
    return PASSES.get(how), often


def _micro_batches(recipe: Recipe, evidence: Evidence) -> Band:
    """Micro-batches in a step; without a bound where nothing says how many."""
    count = recipe.accumulation
    if count.known and isinstance(count.it, (int, float)):
        return (float(evidence.take(count).it),) * 2
    return (1.0, math.inf)


def _weight_size(recipe: Recipe, how: str) -> Band:
    """Bytes of one weight on the wire: engines and policies shard a 16-bit copy, autocast alone leaves float32."""
    precision = recipe.mixed_precision
    if precision.known and precision.it in SIXTEEN_BIT and (how != "fsdp" or recipe.engines):
        return (2.0, 2.0)
    size = DTYPE_BYTES.get(str(recipe.model.dtype.it)) if recipe.model.dtype.known else None
    if precision.known and size is not None:
        return (float(size),) * 2
    return (2.0, 4.0)


def _total(each: int, once: int, often: Band) -> Band:
    return (each * often[0] + once, (each * often[1] if each else 0.0) + once)


def _between(trainable: Band, gradient: Band, often: Band) -> Band:
    """What a hybrid strategy reduces between nodes: each GPU of a node its share, all of them together the gradients."""
    return (2 * trainable[0] * gradient[0] * often[0], 2 * trainable[1] * gradient[1] * often[1])


def _rings(strategy: str, nodes: int, each: int, whole: Band, between: Band) -> tuple[Ring, ...]:
    if nodes == 1:
        return (Ring("machine", each, whole),)
    if strategy in HYBRID and each == 1:  # nothing is sharded
        return (Ring("network", nodes, between),)
    if strategy in HYBRID:
        return (Ring("machine", each, whole), Ring("network", nodes, between))
    return (Ring("network", nodes * each, whole),)


def _instance(recipe: Recipe, target: Target) -> Instance | None:
    if not recipe.instance.known:
        return target.instance
    try:
        return find_target(str(recipe.instance.it)).instance
    except UnknownTarget:
        return None


def _plus(one: Band, other: Band) -> Band:
    return (one[0] + other[0], one[1] + other[1])


def _scaled(band: Band, by: float) -> Band:
    return (band[0] * by, band[1] * by)
