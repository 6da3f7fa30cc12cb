"""Predicted steps with their quantities: peak bytes, bytes by component, seconds on the wire and in matrix products."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from t4lint.devices import Gpu, Target
from t4lint.memory.adapters import adapters_of, vocabulary_parameters
from t4lint.memory.blocks import find_block
from t4lint.memory.communication import compute_seconds
from t4lint.memory.estimate import Band, activation_bytes, logits_bytes, peak, state_bytes
from t4lint.memory.images import find_image_model
from t4lint.memory.recipe import Evidence, Recipe, known_optimizer, recipe_of
from t4lint.memory.shapes import Shape, find_shape
from t4lint.memory.traffic import exchange_of, links_of, ranks_of, seconds_of
from t4lint.trace import NOT_SAID, Call, Event, Step, Trace, Value, unknown

_SIXTEEN_BIT = ("float16", "bfloat16")
_MATH_DTYPE = {"fp16": "float16", "bf16": "bfloat16", "no": "float32"}
# What each way of sharding divides among the ranks.
_DIVIDES: Mapping[str, tuple[str, ...]] = {
    "zero1": ("optimizer", "optimizer temporaries"),
    "zero2": ("optimizer", "optimizer temporaries", "gradients"),
    "zero3": ("optimizer", "optimizer temporaries", "gradients", "weights"),
    "fsdp": ("optimizer", "optimizer temporaries", "gradients", "weights"),
}
_BY_LENGTH = ("activations", "logits")
# Shares of what traced blocks keep: what is certain over versions and rates of dropout (without any, BERT keeps 82 %), and what
# the most is, with room for padding masks.
_SURELY_KEPT, _AT_MOST = 0.75, 1.25
# Families whose decoder may see shorter sequences than the encoder.
_TWO_LENGTHS = frozenset({"t5", "bart", "whisper"})
# Full fine-tuning is presumed where nothing is said of frozen weights; with PEFT in sight at most this share trains.
_ADAPTER_SHARE = 0.1


def fill(trace: Trace) -> Trace:
    """A predicted trace whose steps carry `parameters`, `peak`, `components`, `communication` and `compute`.

    Bands are (low, high) tuples; an upper edge that nothing bounds is `math.inf`. What cannot be known is unknown, with
    the reason. What a step carries already stays. Other traces come back as they are.
    """
    if trace.basis != "predicted":
        return trace
    events = tuple(_with_quantities(trace, event) for event in trace.events)
    return replace(trace, events=events)


def _with_quantities(trace: Trace, event: Event) -> Event:
    if isinstance(event, Step):
        return _filled(trace, event)
    if isinstance(event, Call) and event.function == "peft.prepare_model_for_kbit_training":
        return replace(event, arguments={**event.arguments, **_upcast(event.arguments["model"])})
    return event


def _upcast(name: Value) -> Mapping[str, Value]:
    """`vocabulary` in tokens, and `added`: the bytes that its rows take more in float32 than in 16 bits (peft 0.21.2)."""
    shape = find_shape(name.it) if isinstance(name.it, str) else None
    if shape is None or not shape.embedding:
        return dict.fromkeys(("vocabulary", "added"), unknown("the vocabulary of the model is not known", name.origins))
    return {"vocabulary": replace(name, it=shape.vocabulary), "added": replace(name, it=2 * shape.embedding)}


def _filled(trace: Trace, step: Step) -> Event:
    recipe = recipe_of(trace, step)
    if isinstance(recipe, Value):
        values = dict.fromkeys(
            ("parameters", "peak", "components", "communication", "compute", "trained_vocabulary"), recipe
        )
    else:
        counted = parameters_of(recipe)
        components = _components(recipe, counted)
        values = {
            "parameters": counted,
            "components": components,
            "peak": _peak(recipe, components, trace.target),
            "communication": _communication(recipe, counted, trace.target, step),
            "compute": _compute(recipe, counted, trace.target),
            "trained_vocabulary": _trained_vocabulary(recipe),
        }
    missing: dict[str, Any] = {name: value for name, value in values.items() if getattr(step, name) == NOT_SAID}
    return replace(step, **missing)


def parameters_of(recipe: Recipe) -> Value:
    """How many parameters the model has: as the interpreter counted, else those of its checkpoint."""
    model = recipe.model
    if model.parameters.known:
        return model.parameters
    if model.shape is not None and not model.name.known:
        return Value(model.shape.parameters)
    image = find_image_model(str(model.name.it)) if model.name.known else None
    if image is not None and model.shape is None:
        return replace(model.name, it=image.parameters)
    if not model.name.known:
        return model.name if model.name != NOT_SAID else unknown("the model is not known")
    if model.shape is None:
        return unknown(f"the size of {model.name.it} is not known")
    return replace(model.name, it=model.shape.parameters)


def trainable_band(recipe: Recipe, parameters: float, evidence: Evidence) -> Band:
    """How many parameters train. Where nothing is said: all, which is only likely; with PEFT in sight, few."""
    trainable = recipe.model.trainable
    if trainable.known:
        evidence.take(trainable)
        return (trainable.it, trainable.it)
    if recipe.adapters is not None and recipe.model.shape is not None:
        made = adapters_of(recipe.adapters, recipe.model.shape)
        if made is not None:
            evidence.used += [value for value in recipe.adapters.values() if value.known]
            return (made.parameters, made.parameters)
    if recipe.peft or _quantized(recipe):
        return (0.0, _ADAPTER_SHARE * parameters)
    if trainable != NOT_SAID:
        return (0.0, parameters)
    evidence.take(Value(parameters, likely=True))
    return (parameters, parameters)


def _all_train(recipe: Recipe) -> bool:
    if recipe.peft or _quantized(recipe):
        return False
    trainable, counted = recipe.model.trainable, parameters_of(recipe)
    return trainable == NOT_SAID or (trainable.known and trainable.it == counted.it)


def _quantized(recipe: Recipe) -> bool:
    return recipe.model.quantization.known and recipe.model.quantization.it not in (None, "none")


def _trained_vocabulary(recipe: Recipe) -> Value:
    """Parameters of the embedding and the output layer that `modules_to_save` of the adapters trains in full."""
    if recipe.adapters is None:
        return Value(0)
    saved = recipe.adapters.get("modules_to_save")
    if saved is None or not saved.known:
        return Value(0) if saved is None else saved
    if recipe.model.shape is None:
        return unknown("the shape of the model is not known")
    names = saved.it if isinstance(saved.it, (list, tuple)) else []
    return replace(saved, it=vocabulary_parameters(recipe.model.shape, map(str, names)))


# --- bytes -------------------------------------------------------------------------------------------------------


def _components(recipe: Recipe, counted: Value) -> Value:
    """Bytes by component."""
    if not counted.known:
        return counted
    if not recipe.sharding.known:
        return recipe.sharding
    evidence = Evidence()
    evidence.take(counted)
    bands = _states(recipe, counted.it, evidence)
    if recipe.sharding.it != "none":
        ranks = ranks_of(recipe)
        if not ranks.known:
            return unknown("sharded over an unknown number of GPUs")
        evidence.take(recipe.sharding)
        evidence.take(ranks)
        bands = _sharded(bands, recipe, ranks.it)
    return evidence.conclude(bands | _forward(recipe, evidence))


def _states(recipe: Recipe, parameters: float, evidence: Evidence) -> dict[str, Band]:
    """Weights, gradients and optimizer states: the low edges with the fewest that train, the high with the most."""
    few, many = trainable_band(recipe, parameters, evidence)
    low, high = (_states_of(recipe, parameters, trainable, evidence) for trainable in (few, many))
    names = dict.fromkeys((*low, *high))
    bands = {name: (low.get(name, (0, 0))[0], high.get(name, (0, 0))[1]) for name in names}
    if recipe.model.spread:  # parts of it may be on another GPU or in the host's memory
        bands = {name: (0.0, band[1]) for name, band in bands.items()}
    return bands


def _states_of(recipe: Recipe, parameters: float, trainable: float, evidence: Evidence) -> dict[str, Band]:
    model = recipe.model
    dtype = _known(model.dtype, evidence)
    precision = _known(recipe.mixed_precision, evidence)
    optimizer = known_optimizer(recipe.optimizer)
    if optimizer:
        evidence.take(recipe.optimizer)
    quantization = _known(model.quantization, evidence) if model.quantization.known else _unsaid_quantization(recipe)
    embedding = model.shape.embedding if model.shape else 0
    frozen = state_bytes(
        parameters - trainable, 0, weights_dtype=dtype, quantization=quantization, embedding=embedding,
        mixed_precision=precision,
    )  # fmt: skip
    adapters = trainable < parameters and dtype != "float32"  # adapters have a dtype of their own
    sharded_copies = recipe.sharding.it in ("zero1", "zero2", "zero3") and precision not in ("", "no")
    trained = state_bytes(
        trainable, trainable, optimizer=optimizer, mixed_precision=precision, embedding=embedding,
        weights_dtype="" if adapters or sharded_copies else dtype,
    )  # fmt: skip
    return {name: _plus(frozen.get(name), trained.get(name)) for name in dict.fromkeys((*frozen, *trained))}


def _unsaid_quantization(recipe: Recipe) -> str:
    """Where nothing is said of quantisation there is none; where something is, but not what, it may be any."""
    return "none" if recipe.model.quantization == NOT_SAID else ""


def _sharded(bands: dict[str, Band], recipe: Recipe, ranks: int) -> dict[str, Band]:
    """Each rank's share; nothing is certain of what may be offloaded to the host."""
    divided = _DIVIDES[recipe.sharding.it]
    return {
        name: ((0.0 if recipe.offloads else low / ranks), high / ranks if name != "weights" else high)
        if name in divided
        else (low, high)
        for name, (low, high) in bands.items()
    }


def _forward(recipe: Recipe, evidence: Evidence) -> dict[str, Band]:
    """Activations and logits; nothing is certain, and nothing bounded, without a shape, a batch and a length."""
    shape = recipe.model.shape
    batch, length = recipe.micro_batch, recipe.length
    if shape is None or not shape.layers or not (batch.known and length.known and length.it):
        return {"activations": (0.0, math.inf)}
    two_lengths = shape.family in _TWO_LENGTHS
    sizes = (evidence.take(batch).it, evidence.take(length).it)
    # Without a causal model in sight, there may still be logits of any kind: they only raise the upper edge.
    low, high = logits_bytes(*sizes, shape.vocabulary, sixteen_bit=_sixteen_bit(recipe))
    certain = recipe.model.causal and not recipe.chunked_loss and not two_lengths
    activations = _blocks(recipe, shape, *sizes) or activation_bytes(
        *sizes, shape.layers, shape.hidden, shape.heads,
        sixteen_bit=_sixteen_bit(recipe), checkpointing=recipe.checkpointing.it is True,
    )  # fmt: skip
    # Below the lowest layer that trains, nothing is kept; adapters are in all layers unless they are told otherwise.
    kept = (_all_train(recipe) or _adapted_in_all_layers(recipe)) and not two_lengths
    return {
        "activations": activations if kept else (0.0, activations[1]),
        "logits": (low if certain else 0.0, high),
    }


def _blocks(recipe: Recipe, shape: Shape, batch: float, length: float) -> Band | None:
    """Activations by what the blocks of the model's kind keep, over all ways in which it may be trained.

    The lower edge leaves room for other versions, rates of dropout and kernels; kernels made for memory, and compiled models, keep
    less than the traced blocks by an unknown amount, and experts may be skipped.
    """
    widths = shape.widths
    if widths is None or not shape.block:
        return None
    precision, dtype = recipe.mixed_precision.it, recipe.model.dtype.it
    ways = product(
        (True, False)
        if dtype is None or recipe.sharding.it != "none"
        else (dtype in _SIXTEEN_BIT or _quantized(recipe),),
        (True, False) if precision is None else (precision != "no",),
        (True,) if _all_train(recipe) else (False,) if _adapted_in_all_layers(recipe) else (True, False),
    )
    found = [
        block for sixteen, autocast, trained in ways
        if (block := find_block(shape.block, sixteen_bit_weights=sixteen, autocast=autocast, trained=trained))
    ]  # fmt: skip
    if not found:
        return None
    tokens = batch * length
    whole = [shape.layers * block.kept(widths) * tokens for block in found]
    eager = [shape.layers * block.kept(widths, length, eager=recipe.eager is not False) * tokens for block in found]
    few = [shape.layers * block.checkpointed * widths.hidden * tokens for block in found]
    work = max(block.work(widths, length, eager=recipe.eager is not False) * tokens for block in found)
    low = _SURELY_KEPT * min(few)
    reduced = recipe.chunked_kernels or recipe.compiled or shape.experts
    if recipe.checkpointing.it is False and not reduced:
        low = _SURELY_KEPT * min(whole)
    high = _AT_MOST * max(eager) + work
    if recipe.checkpointing.it is True:
        high = _AT_MOST * (max(few) + max(eager) / shape.layers) + work
    return (low, max(low, high))


def _adapted_in_all_layers(recipe: Recipe) -> bool:
    fields = recipe.adapters
    return fields is not None and not {"layers_to_transform", "layers_pattern", "modules_to_save"} & set(fields)


def _peak(recipe: Recipe, components: Value, target: Target) -> Value:
    """Bytes at the worst moment. A sequence length is a maximum in most programs, because batches are padded to their
    longest sample: where the lower edge needs it to be over the card, the peak is only likely."""
    if not components.known:
        return components
    accumulation = recipe.accumulation
    accumulates = accumulation.known and accumulation.it > 1
    lowest, highest = peak(components.it, accumulates=accumulates)
    states = {name: band for name, band in components.it.items() if name not in _BY_LENGTH}
    needed = peak(states)[0] < min(lowest, target.gpu.usable_bytes if target.gpu else math.inf)
    return replace(components, it=(lowest, highest), likely=components.likely or needed)


def _sixteen_bit(recipe: Recipe) -> bool:
    return recipe.mixed_precision.it in ("fp16", "bf16") or recipe.model.dtype.it in _SIXTEEN_BIT


# --- seconds -----------------------------------------------------------------------------------------------------


def _communication(recipe: Recipe, counted: Value, target: Target, step: Step) -> Value:
    """Seconds a step on the wire of one rank."""
    ranks = ranks_of(recipe)
    if not ranks.known:
        return ranks
    if ranks.it <= 1:
        return replace(ranks, it=(0.0, 0.0))
    if not counted.known:
        return counted
    evidence = Evidence()
    evidence.take(counted)
    evidence.take(ranks)
    trainable = trainable_band(recipe, counted.it, evidence)
    if recipe.wrap is not None and recipe.wrap.replicated.known:
        trainable = (evidence.take(recipe.wrap.replicated).it,) * 2
    exchange = exchange_of(recipe, counted.it, trainable, step, evidence)
    if isinstance(exchange, Value):
        return exchange
    if exchange.nodes > 1:
        evidence.take(recipe.instance)
    seconds = seconds_of(exchange, links_of(recipe, target))
    return seconds if isinstance(seconds, Value) else evidence.conclude(seconds)


def _compute(recipe: Recipe, counted: Value, target: Target) -> Value:
    """Seconds a step of matrix products: low at the rate measured for large products, high at the effective one."""
    for needed in (recipe.micro_batch, recipe.length, recipe.accumulation):
        if not needed.known:
            return needed
    each = token_seconds(recipe, counted, target)
    if not each.known:
        return each
    evidence = Evidence([each])
    tokens = math.prod(evidence.take(it).it for it in (recipe.micro_batch, recipe.length, recipe.accumulation))
    return evidence.conclude((each.it[0] * tokens, each.it[1] * tokens))


def token_seconds(recipe: Recipe, counted: Value, target: Target) -> Value:
    """Seconds of matrix products for one token, as a band."""
    shape = recipe.model.shape
    for needed in (counted, recipe.mixed_precision):
        if not needed.known:
            return needed
    if shape is not None and shape.experts:
        return unknown("each token uses only some of the experts")
    evidence = Evidence()
    rates = _rates(recipe, target.gpu, evidence)
    if isinstance(rates, Value):
        return rates
    parameters = evidence.take(counted).it
    few, many = trainable_band(recipe, parameters, evidence)
    multiplied = min(parameters, shape.multiplied) if shape else parameters
    recompute = recipe.checkpointing.it is True
    low = compute_seconds(multiplied, 1, rates[1], trainable=min(few, multiplied), recompute=recompute)
    high = compute_seconds(parameters, 1, rates[0], trainable=many, recompute=recompute)
    return evidence.conclude((low, high))


def _rates(recipe: Recipe, gpu: Gpu | None, evidence: Evidence) -> Band | Value:
    """(effective, measured) FLOP/s of the dtype that the matrix products run in."""
    dtype = _MATH_DTYPE.get(evidence.take(recipe.mixed_precision).it, "")
    if recipe.mixed_precision.it == "no":
        if not recipe.model.dtype.known:
            return recipe.model.dtype
        dtype = evidence.take(recipe.model.dtype).it
    if gpu is None or dtype not in gpu.effective_flops or dtype not in gpu.measured_flops:
        return unknown(f"no rate is known for {dtype or 'this dtype'} on {gpu.name if gpu else 'this machine'}")
    return (gpu.effective_flops[dtype], gpu.measured_flops[dtype])


# --- small things ------------------------------------------------------------------------------------------------


def _known(value: Value, evidence: Evidence) -> str:
    """The text of a value, empty when unknown."""
    return str(evidence.take(value).it) if value.known else ""


def _plus(one: Band | None, other: Band | None) -> Band:
    left, right = one or (0.0, 0.0), other or (0.0, 0.0)
    return (left[0] + right[0], left[1] + right[1])
