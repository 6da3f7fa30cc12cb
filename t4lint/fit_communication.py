"""The part of `t4lint fit` on communication: seconds on the wire against seconds of arithmetic for one optimizer step.

It has something to say where a run has several processes. What is not known is named; the rest is shown without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from t4lint.devices import Target
from t4lint.memory.communication import (
    EXPECTED_SHARE,
    HIDDEN_BY_ALL,
    HIDDEN_BY_BACKWARD,
    SOCKET_CAP_GBPS,
    step_seconds,
)
from t4lint.memory.estimate import Band
from t4lint.memory.fill import parameters_of, token_seconds, trainable_band
from t4lint.memory.reading import Given, shape_of
from t4lint.memory.recipe import Evidence, Recipe, recipe_of
from t4lint.memory.traffic import HYBRID, Exchange, Links, exchange_of, links_of, ranks_of, seconds_of
from t4lint.trace import Launch, Step, Trace, Value

Row = tuple[str, str]
TITLE = "Communication for one optimizer step"
WHOLE_WEIGHTS = ("zero3", "fsdp")  # these can hide their gathers behind the forward too


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report that another model adds: rows of (label, text), a note below, and the numbers for machines.

    The note has a line for each sentence.
    """

    title: str
    rows: tuple[Row, ...]
    note: str = ""
    values: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class _Costs:
    """Bands of seconds and tokens; None where something is not known, which `reasons` names."""

    exchange: Exchange
    links: Links
    parameters: float
    wire: Band | None
    compute: Band | None
    tokens: float | None  # of one GPU in a step
    even: Band | None  # tokens of one GPU in a step at which both take as long
    reasons: tuple[Row, ...]

    @property
    def step(self) -> Band | None:
        if self.wire is None or self.compute is None:
            return None
        hidden = HIDDEN_BY_ALL if self.exchange.how in WHOLE_WEIGHTS else HIDDEN_BY_BACKWARD
        return step_seconds(self.wire, self.compute, hidden=hidden)


def communication(trace: Trace, step: Step, target: Target, given: Given) -> Section | None:
    """The section of a training step, or None where one process trains, or nothing is known of the model."""
    recipe = recipe_of(trace, step, presumed=given.model or "")
    if isinstance(recipe, Value):
        return None
    ranks = ranks_of(recipe)
    if not ranks.known:
        launched = any(launch.launcher != "python" for launch in trace.all(Launch))
        return Section(TITLE, (("processes", f"not known: {ranks.unknown}"),)) if launched else None
    if ranks.it <= 1:
        return None
    costs = _costs(_with_given(recipe, given), step, target)
    if isinstance(costs, Value):
        return Section(TITLE, (("processes", f"{ranks.it}"), ("exchanged", f"not known: {costs.unknown}")))
    return Section(TITLE, tuple(_rows(costs)), _note(costs, target), _values(costs))


def _with_given(recipe: Recipe, given: Given) -> Recipe:
    """The recipe with what a person said in its place."""
    if given.model is not None:
        model = replace(
            recipe.model, name=Value(given.model), shape=shape_of(given.model), parameters=Value(unknown="?")
        )
        recipe = replace(recipe, model=model)
    if given.batch_size is not None:
        recipe = replace(recipe, micro_batch=Value(given.batch_size))
    if given.sequence_length is not None:
        recipe = replace(recipe, length=Value(given.sequence_length))
    return recipe


def _costs(recipe: Recipe, step: Step, target: Target) -> _Costs | Value:
    counted = parameters_of(recipe)
    if not counted.known:
        return counted
    evidence = Evidence()
    trainable = trainable_band(recipe, counted.it, evidence)
    exchange = exchange_of(recipe, counted.it, trainable, step, evidence)
    if isinstance(exchange, Value):
        return exchange
    links = links_of(recipe, target)
    wire, each = seconds_of(exchange, links), token_seconds(recipe, counted, target)
    amounts = (recipe.micro_batch, recipe.length, recipe.accumulation)
    missing = next((value.unknown for value in amounts if not value.known), "")
    tokens = None if missing else recipe.micro_batch.it * recipe.length.it * recipe.accumulation.it
    reasons: list[Row] = []
    if isinstance(wire, Value):
        reasons.append(("on the wire", wire.unknown))
    if missing or not each.known:
        reasons.append(("computing", each.unknown or missing))
    seconds = None if isinstance(wire, Value) else wire
    return _Costs(
        exchange, links, counted.it, seconds,
        _scaled(each.it, tokens) if tokens is not None and each.known else None,
        tokens,
        (seconds[0] / each.it[1], seconds[1] / each.it[0]) if seconds and each.known and recipe.model.shape else None,
        tuple(reasons),
    )  # fmt: skip


# --- for people -----------------------------------------------------------------------------------------------------


def _rows(costs: _Costs) -> Iterator[Row]:
    exchange = costs.exchange
    if costs.step is not None:
        yield "answer", _answer(costs)
    yield "processes", _processes(exchange)
    yield "exchanged", _exchanged(exchange)
    for ring in exchange.rings:
        where = "between nodes" if ring.over == "network" else "between GPUs"
        a_parameter = _span(_scaled(ring.size, 1 / costs.parameters), "", digits=1)
        sender = "node" if ring.over == "network" else "GPU"
        yield (
            where,
            f"{_span(_scaled(ring.sent, 1e-9), 'GB')} from each {sender}, {a_parameter} bytes a parameter in all",
        )
    yield from _link(costs)
    if costs.wire is not None:
        yield "on the wire", f"{_seconds(costs.wire[0])} at least{_expected(costs.wire)}"
    if costs.compute is not None and costs.tokens is not None:
        yield "computing", f"{_span(costs.compute, 's')} for {costs.tokens:,.0f} tokens a GPU"
    if costs.step is not None:
        yield "a step", f"{_seconds(costs.step[0])} at least{_expected(costs.step, ' without overlap')}"
    if costs.even is not None:
        yield "break even", _break_even(costs)
    yield from costs.reasons


def _answer(costs: _Costs) -> str:
    assert costs.wire is not None and costs.compute is not None
    link = "network" if costs.exchange.nodes > 1 else "PCIe bus"
    if costs.wire[0] > costs.compute[1]:
        return f"The GPUs wait for the {link} in every step."
    if costs.wire[1] <= costs.compute[0]:
        return f"The {link} keeps up with the GPUs."
    return f"The {link} and the arithmetic take about as long; a measurement would tell which is slower."


def _processes(exchange: Exchange) -> str:
    if exchange.nodes == 1:
        return f"{exchange.per_node} on one machine"
    each = "1 GPU" if exchange.per_node == 1 else f"{exchange.per_node} GPUs"
    return f"{exchange.ranks}, on {exchange.nodes} nodes with {each} each"


def _exchanged(exchange: Exchange) -> str:
    gradients, weights = _size(exchange.gradient_size), _size(exchange.weight_size)
    if exchange.how == "ddp":
        often = "after each micro-batch" if exchange.repeats else "once a step"
        return f"DDP reduces the gradients {often}, {gradients} bytes each"
    if exchange.how in ("zero1", "zero2"):
        often = "once a step" if exchange.how == "zero1" else "after each micro-batch"
        return (
            f"ZeRO-{exchange.how[-1]} scatters the gradients {often} ({gradients} bytes each) and gathers the new weights "
            f"once a step ({weights})"
        )
    name = "ZeRO-3" if exchange.how == "zero3" else f"FSDP {exchange.strategy or 'FULL_SHARD'}"
    gathers = "once" if "GRAD_OP" in exchange.strategy or "ZERO2" in exchange.strategy else "twice"
    inside = " inside a node" if exchange.strategy in HYBRID and exchange.nodes > 1 else ""
    words = (
        f"{name} gathers all weights {gathers} ({weights} bytes each) and scatters the gradients ({gradients}){inside}"
    )
    return f"{words}, in each micro-batch"


def _link(costs: _Costs) -> Iterator[Row]:
    instance, network, machine = costs.links.instance, costs.links.network, costs.links.machine
    over = {ring.over for ring in costs.exchange.rings}
    if "network" in over and network is not None and instance is not None:
        fastest = instance.network_gbps_max or instance.network_gbps_baseline or 0
        held = instance.network_gbps_baseline
        burst = f"{held:g} Gbit/s, {fastest:g} for a while" if held and held != fastest else f"{fastest:g} Gbit/s"
        yield "network", f"{instance.name}: {burst}; {network[0] * 8 / 1e9:.1f} expected"
    if "machine" in over and machine is not None:
        yield "PCIe", f"{machine[0] / 1e9:.1f} GB/s as measured, {machine[1] / 1e9:.0f} at most; no NVLink"


def _break_even(costs: _Costs) -> str:
    assert costs.even is not None
    more = ""
    if costs.tokens and costs.even[0] > costs.tokens:
        more = f", {_times(_scaled(costs.even, 1 / costs.tokens))} as many as now"
    words = f"at {_tokens(costs.even)} tokens a GPU and step{more}"
    if costs.exchange.repeats:
        return f"{words}; accumulation does not help, since each micro-batch exchanges again"
    return f"{words}; accumulation helps, since the exchange comes once a step"


def _note(costs: _Costs, target: Target) -> str:
    parts = []
    if any(ring.over == "network" for ring in costs.exchange.rings):
        parts.append(
            "The least: one ring over all processes, the network card at its highest rate, nothing else on it. Expected: "
            f"{EXPECTED_SHARE:.0%} of the rate that it holds; outside AWS and GCP {SOCKET_CAP_GBPS:g} Gbit/s at most, as "
            "sockets were seen to reach."
        )
    if target.gpu is not None and costs.even is not None:
        rates = [
            f"{target.gpu.effective_flops[dtype] / 1e12:g} to {target.gpu.measured_flops[dtype] / 1e12:g} TFLOP/s in {dtype}"
            for dtype in ("float16", "float32")
            if dtype in target.gpu.effective_flops and dtype in target.gpu.measured_flops
        ]
        parts.append(f"Arithmetic: {', '.join(rates)}; the lower rates are assumptions. Attention scores are left out.")
    return "\n".join(parts)


# --- for machines ---------------------------------------------------------------------------------------------------


def _values(costs: _Costs) -> Mapping[str, object]:
    """Seconds, bytes and tokens; a band is (low, high), null where it is open or not known."""
    exchange = costs.exchange
    return {
        "strategy": exchange.strategy or exchange.how,
        "nodes": exchange.nodes,
        "processes_per_node": exchange.per_node,
        "parameters": int(costs.parameters),
        "repeats_each_micro_batch": exchange.repeats,
        "weight_bytes": _finite(exchange.weight_size) if exchange.how != "ddp" else None,
        "gradient_bytes": _finite(exchange.gradient_size),
        "rings": [
            {"over": ring.over, "ranks": ring.ranks, "bytes": _finite(ring.size), "sent": _finite(ring.sent)}
            for ring in exchange.rings
        ],
        "communication_seconds": _finite(costs.wire),
        "compute_seconds": _finite(costs.compute),
        "step_seconds": _finite(costs.step),
        "tokens": costs.tokens,
        "break_even_tokens": _finite(costs.even),
        "missing": [text for _, text in costs.reasons],
    }


def _finite(band: Band | None) -> list[float | None] | None:
    return None if band is None else [None if edge == float("inf") else edge for edge in band]


# --- numbers as text ------------------------------------------------------------------------------------------------


def _scaled(band: Band, by: float) -> Band:
    return (band[0] * by, band[1] * by)


def _span(band: Band, unit: str, digits: int = 2) -> str:
    low, high = (f"{edge:,.{digits}f}" if edge < 100 else f"{edge:,.0f}" for edge in band)
    words = low if low == high else f"{low} or more" if band[1] == float("inf") else f"{low} to {high}"
    return f"{words} {unit}".rstrip()


def _seconds(edge: float) -> str:
    return f"{edge:,.2f} s" if edge < 100 else f"{edge:,.0f} s"


def _expected(band: Band, how: str = "") -> str:
    if band[1] == float("inf"):
        return ""
    return f", {_seconds(band[1])} expected{how}" if _seconds(band[1]) != _seconds(band[0]) else ""


def _size(band: Band) -> str:
    return f"{band[0]:g}" if band[0] == band[1] else f"{band[0]:g} to {band[1]:g}"


def _tokens(band: Band) -> str:
    low, high = (f"{float(f'{edge:.2g}'):,.0f}" if edge < float("inf") else "?" for edge in band)
    return low if low == high else f"{low} or more" if high == "?" else f"{low} to {high}"


def _times(band: Band) -> str:
    low, high = (f"{edge:.2g}" if edge < 10 else f"{edge:,.0f}" for edge in band)
    return f"{low} times" if low == high or band[1] == float("inf") else f"{low} to {high} times"
