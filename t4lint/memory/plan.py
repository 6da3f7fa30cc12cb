"""The peak of one training step, in closed form, for a plan whose numbers are all known.

The step has moments at which memory peaks: the end of the forward, the backward of the loss, the gradient of the output
layer, the end of the backward, and the optimizer's step. `usage` adds up what lives at each of them. The bytes of blocks
come from traces (`blocks.csv`), those of states and logits from what was measured or read in the libraries; each component
says how sure it is, and the sum is a band. docs/memory.md holds it against traces and published measurements.

Bytes everywhere; parameters, tokens and layers are counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from t4lint.memory.blocks import Block, Widths, find_block
from t4lint.memory.estimate import Band, optimizer_kind

MIB, GIB = 2**20, 2**30
# cuBLAS takes 8.1 MiB on Turing (c10/cuda, CUBLAS_WORKSPACE_CONFIG :4096:2:16:8); cuDNN and attention some more.
_WORKSPACE: Band = (0.0, 64.0 * MIB)
# Blocks that were traced: other versions, dropout rates and padding masks move them by about so much.
_BLOCK_SPREAD: Band = (0.88, 1.15)
# Image models, of what their traces keep: convolutions take workspaces, and their tensors of many sizes leave holes in the
# allocator's segments; both were measured on other GPUs (docs/memory.md), not on a T4.
_IMAGE_SPREAD: Mapping[str, Band] = {"cnn": (1.0, 1.6), "vit": (0.95, 1.2), "unet": (0.9, 1.4), "dit": (0.9, 1.3)}
# What is typical, where that is not the middle: the few convolutions that take the most are far from the others. The median of the
# calibrated half, by the slopes between its batches (1.18; 1.20 in the half that was held out).
_IMAGE_TYPICAL: Mapping[str, float] = {"cnn": 1.18}
# Blocks of a kind that was not traced: taken from the nearest kind.
_GUESS_SPREAD: Band = (0.6, 1.7)
# The caching allocator cannot use all of what it holds (replayed traces; expandable segments are nearer to the lower edge).
_FRAGMENTATION = 1.06
# Elements of DeepSpeed's buckets, runtime/zero/config.py 0.19: reduce_bucket_size and allgather_bucket_size.
_ZERO_BUCKET = 5e8
_WITH_ACTIVATIONS = ("forward", "backward", "output layer", "first block")  # moments at which all of them are there
_CHUNKED_TOKENS = 256  # a chunk of TRL's chunked cross-entropy and of Liger's, in tokens
STATES_16BIT_MASTER = 12  # bytes a parameter of float32 master weights and two moments beside 16-bit weights
EMBEDDINGS_IN_QUANTISED = 2


@dataclass(frozen=True, slots=True)
class Adapters:
    """LoRA: the sums of input and output widths of all adapted layers of the whole model, and how they are made."""

    parameters: float
    inputs: float
    outputs: float
    dropout: bool = True
    dora: bool = False
    in_float32: bool = True
    whole: float = 0  # parameters of modules that are trained whole beside them


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One training step in numbers."""

    parameters: float
    trainable: float
    embedding: float = 0  # parameters that are rows of a vocabulary
    layers: int = 0
    widths: Widths | None = None
    kind: str = ""  # of block; empty: not traced
    guessed: bool = False  # is the kind only the nearest one
    vocabulary: int = 0  # of the logits; 0 where the head is small
    image_kept: float = 0  # bytes a sample that an image model keeps, in place of blocks
    image_work: float = 0
    image_kind: str = "cnn"
    weights: str = "float32"  # dtype of the weights that are not quantised
    autocast: bool = False
    quantization: str = "none"
    double_quantization: bool | None = None
    optimizer: str = "adamw"
    fused: bool | None = None  # None: torch's default, `foreach`
    batch: float = 1
    length: float = 1
    accumulation: float = 1
    checkpointing: bool = False
    eager: bool = False
    chunked_loss: bool = False
    copies_logits: bool = False  # accelerate's float32 copy of what a forward under autocast returns
    keeps_gradients: bool = False
    adapters: Adapters | None = None
    ranks: int = 1
    sharding: str = "none"  # none, ddp, zero1, zero2, zero3, fsdp
    bucket_view: bool = False
    offload: frozenset[str] = frozenset()  # "optimizer", "weights"

    @property
    def tokens(self) -> float:
        return self.batch * self.length


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes by component at the worst moment, and by moment; `expected` is the best single number for the peak.

    `skew`: bytes that the middle of the band of activations is above what is typical.
    """

    components: Mapping[str, Band]
    moments: Mapping[str, Band]
    moment: str
    expected: float
    skew: float = 0.0
    notes: tuple[str, ...] = field(default=())

    @property
    def peak(self) -> Band:
        """What PyTorch must be able to reserve."""
        return self.moments[self.moment]

    def typical(self, component: str) -> float:
        """The best single number for a component at the worst moment, in bytes; those of all make the expected peak."""
        return _middle(self.components[component]) - (self.skew if component == "activations" else 0.0)


def usage(plan: Plan) -> Usage:
    """What a step needs."""
    stays = {"weights": _weights(plan), "optimizer state": _optimizer_state(plan)}
    if plan.adapters is not None:
        stays["adapters"] = _exactly(plan.adapters.parameters * (4 if plan.adapters.in_float32 else 2))
    if quantised := _constants(plan):
        stays["quantization constants"] = quantised
    gradients = _gradients(plan)
    copies = _autocast_copies(plan)
    kept, work = _activations(plan)
    logits = _logits(plan)
    buckets = _buckets(plan)
    early = gradients if plan.accumulation > 1 or plan.keeps_gradients else None
    moments: dict[str, dict[str, Band]] = {
        "forward": {**stays, "gradients": early or (0, 0), "autocast copies": copies, "activations": kept,
                    "logits": logits[0]},
        "backward": {**stays, "gradients": early or (0, 0), "autocast copies": copies, "activations": kept,
                     "logits": logits[1], "communication buckets": buckets},
        "output layer": {**stays, "gradients": early or _head_gradient(plan), "autocast copies": copies,
                         "activations": _plus(kept, work if plan.layers <= 1 else (0, 0)), "logits": logits[2],
                         "communication buckets": buckets},
        "first block": {**stays, "gradients": early or _head_gradient(plan), "autocast copies": copies,
                        "activations": _plus(kept, work), "communication buckets": buckets},
        "end of backward": {**stays, "gradients": gradients, "communication buckets": buckets,
                            "activations": _plus(_one_block(plan, kept), work)},
        "optimizer": {**stays, "gradients": gradients, "optimizer temporaries": _temporaries(plan, gradients),
                      "communication buckets": buckets},
    }  # fmt: skip
    bands = {name: _total(parts) for name, parts in moments.items()}
    worst = max(bands, key=lambda name: _middle(bands[name]))
    peak = (max(band[0] for band in bands.values()), max(band[1] for band in bands.values()))
    workspace = _WORKSPACE
    components = {name: band for name, band in moments[worst].items() if band[1] > 0}
    bands[worst] = (peak[0], peak[1] * _FRAGMENTATION + workspace[1])
    skew = _skew(plan) if worst in _WITH_ACTIVATIONS else 0.0
    return Usage(components, bands, worst, _middle(_total(moments[worst])) - skew, skew)


def forward_alone(plan: Plan, *, recorded: bool) -> Mapping[str, Band]:
    """Bytes by component of a forward that nothing goes backward through: an evaluation between two steps.

    `recorded`: autograd is on, and keeps what a backward would need; without it only one block's tensors are there at a time.
    The optimizer's state is there too; gradients are taken for dropped.
    """
    kept, work = _activations(plan)
    one = _plus(_one_block(plan, kept), (0.0, work[1]))
    logits = _logits(plan)[0]
    returned = (2.0 if plan.autocast or _size(plan.weights) == 2 else 4.0) * plan.tokens * plan.vocabulary
    components = {
        "weights": _weights(plan),
        "optimizer state": _optimizer_state(plan),
        "adapters": _exactly(plan.adapters.parameters * 4.0) if plan.adapters is not None else (0.0, 0.0),
        "quantization constants": _constants(plan) or (0.0, 0.0),
        "autocast copies": _autocast_copies(plan) if recorded else (0.0, _autocast_copies(plan)[1]),
        "activations": kept if recorded else one,
        "logits": (min(returned, logits[0]), logits[1]),  # without labels no loss is made of them
    }
    return {name: band for name, band in components.items() if band[1] > 0}


# --- states -------------------------------------------------------------------------------------------------------


def _weights(plan: Plan) -> Band:
    share = plan.ranks if plan.sharding in ("zero3", "fsdp") else 1
    if "weights" in plan.offload:
        return _exactly(2.0 * _gathered(plan))
    base = plan.parameters - (plan.adapters.parameters if plan.adapters else 0)
    size = _size(plan.weights)
    if plan.quantization == "none":
        extra = 4.0 * plan.adapters.whole if plan.adapters else 0.0
        whole = size * base
        return _exactly((whole + extra) / share + (size * _gathered(plan) if share > 1 else 0))
    bits = {"4bit": 0.5, "8bit": 1.0, "fp8": 1.0}.get(plan.quantization, 1.0)
    linear = base - plan.embedding
    return _exactly(bits * linear + max(size, EMBEDDINGS_IN_QUANTISED) * plan.embedding + _whole(plan))


def _whole(plan: Plan) -> float:
    return 4.0 * plan.adapters.whole if plan.adapters else 0.0


def _gathered(plan: Plan) -> float:
    """Parameters that a sharded run holds whole at one time: two blocks."""
    return 2 * (plan.parameters - plan.embedding) / max(plan.layers, 1) + plan.embedding / 2


def _constants(plan: Plan) -> Band | None:
    """nf4: one float32 for 64 weights, or, quantised once more, about 1/64 byte a weight; int8: one a row."""
    linear = plan.parameters - plan.embedding
    if plan.quantization == "4bit":
        once, twice = linear / 16, linear / 64 + linear / 4096
        if plan.double_quantization is None:
            return (twice, once)
        return _exactly(twice if plan.double_quantization else once)
    return _exactly(linear / 1000) if plan.quantization == "8bit" else None


def _gradients(plan: Plan) -> Band:
    share = plan.ranks if plan.sharding in ("zero2", "zero3", "fsdp") else 1
    return _exactly(_trained_size(plan) * plan.trainable / share)


def _trained_size(plan: Plan) -> float:
    """Bytes of an element of what is trained."""
    if plan.adapters is not None:
        return 4.0 if plan.adapters.in_float32 else 2.0
    if plan.sharding.startswith("zero") and plan.autocast:
        return 2.0  # DeepSpeed trains 16-bit copies of float32 masters
    return float(_size(plan.weights))


def _optimizer_state(plan: Plan) -> Band:
    name, count = plan.optimizer.lower(), plan.trainable
    share = plan.ranks if plan.sharding != "none" and plan.sharding != "ddp" else 1
    if "optimizer" in plan.offload:
        return (0.0, 0.0)
    master = 4.0 * count if plan.sharding.startswith("zero") and plan.autocast and plan.adapters is None else 0.0
    kind = optimizer_kind(plan.optimizer)
    size = 4.0 if master else _trained_size(plan)
    if "8bit" in name and kind in ("adam", "adamw", "lion", "sgd"):
        states = 1 if kind in ("lion", "sgd") else 2
        # Vocabulary rows stay in 32 bits under transformers' Trainer; block constants are 2 x 4 bytes for 256 weights.
        whole = min(plan.embedding, count) if plan.adapters is None else 0.0
        low, high = states * count * 1.016, states * (count - whole) * 1.016 + 4 * states * whole
        return (0.0 if "paged" in name else low, high)
    factors: Mapping[str, Band] = {
        "adam": (2, 2), "adamw": (2, 2), "nadam": (2, 2), "radam": (2, 2), "adamax": (2, 2), "adadelta": (2, 2),
        "adagrad": (1, 1), "rmsprop": (1, 2), "lion": (1, 1), "sgd": (0, 1), "adafactor": (0, 0.02),
    }  # fmt: skip
    low, high = factors.get(kind, (0, 3))
    if "paged" in name:
        low = 0
    return ((low * size * count + master) / share, (high * size * count + master) / share)


def _temporaries(plan: Plan, gradients: Band) -> Band:
    """What the optimizer's step makes: `foreach` a copy of the parameters' size, measured; others one tensor's."""
    name = plan.optimizer.lower()
    largest = max(plan.embedding / 2, _per_layer(plan) / 4) if plan.adapters is None else plan.trainable / 50
    single = (0.0, 4.0 * largest)
    if plan.fused or "fused" in name or "8bit" in name or "bnb" in name or "optimizer" in plan.offload:
        return (0.0, 0.02 * gradients[1])
    if optimizer_kind(name) == "adafactor":
        return (largest * 4.0, 3 * 4.0 * largest)
    if plan.fused is None and plan.sharding in ("none", "ddp") and "hf" not in name:
        return gradients if optimizer_kind(name) in ("adam", "adamw", "nadam", "radam") else (0.0, gradients[1])
    return single


def _per_layer(plan: Plan) -> float:
    return (plan.parameters - plan.embedding) / max(plan.layers, 1)


def _head_gradient(plan: Plan) -> Band:
    """The gradient of the output layer, which comes first: in 16 bits under autocast, then in that of the weights."""
    if not plan.vocabulary or plan.adapters is not None or plan.trainable < plan.parameters / 2 or plan.widths is None:
        return (0.0, 0.0)
    count = plan.vocabulary * plan.widths.hidden
    size = _trained_size(plan)
    return (size * count, (size + (2 if plan.autocast and size == 4 else 0)) * count)


def _autocast_copies(plan: Plan) -> Band:
    """16-bit copies of the float32 weights that products use; with checkpointing, one block's in the backward."""
    if not plan.autocast or _size(plan.weights) == 2 or plan.quantization != "none" or plan.sharding.startswith("zero"):
        return (0.0, 0.0)
    products = plan.parameters - plan.embedding + (plan.vocabulary * plan.widths.hidden if plan.widths else 0)
    products = min(products, plan.parameters)
    if plan.checkpointing:
        return (2.0 * products / max(plan.layers, 1), 2.0 * products)
    return _exactly(2.0 * products / (plan.ranks if plan.sharding == "fsdp" else 1))


def _buckets(plan: Plan) -> Band:
    """DDP copies gradients into buckets unless they are views of them; ZeRO and FSDP have buckets of their own."""
    gradients = _trained_size(plan) * plan.trainable
    if plan.sharding == "ddp":
        return (0.0, 0.0) if plan.bucket_view else _exactly(gradients)
    if plan.sharding in ("zero1", "zero2", "zero3"):
        bucket = min(_ZERO_BUCKET, plan.trainable) * 2.0
        return (bucket, 3 * bucket)
    if plan.sharding == "fsdp":
        return (_trained_size(plan) * _per_layer(plan), 3 * _trained_size(plan) * _per_layer(plan))
    return (0.0, 0.0)


# --- activations --------------------------------------------------------------------------------------------------


def _activations(plan: Plan) -> tuple[Band, Band]:
    """(kept at the end of the forward, needed more in the backward of one block)."""
    if plan.image_kept:
        kept = plan.batch * plan.image_kept
        return _spread(kept, _IMAGE_SPREAD[plan.image_kind]), _spread(plan.batch * plan.image_work, (0.5, 1.5))
    block = _block(plan)
    if block is None or plan.widths is None:
        return (0.0, math.inf), (0.0, math.inf)
    each = _kept_of_block(plan, block)
    outside = block.outside * plan.widths.hidden * plan.tokens
    work = block.work(plan.widths, plan.length, eager=plan.eager) * plan.tokens + _dequantised(plan)
    spread = _GUESS_SPREAD if plan.guessed else _BLOCK_SPREAD
    if plan.checkpointing:
        kept = plan.layers * block.checkpointed * plan.widths.hidden * plan.tokens + outside
        return _spread(kept, (0.95, 1.1)), _plus(_spread(each, spread), _spread(work, (0.7, 1.3)))
    low, high = _spread(each * plan.layers, spread)
    mask = 4 * plan.batch * plan.length**2  # a padding mask, expanded once for all layers
    return (low + outside, high + outside + mask), _spread(work, (0.7, 1.3))


def _block(plan: Plan) -> Block | None:
    trained = plan.adapters is None and plan.trainable > plan.parameters / 2
    sixteen = _size(plan.weights) == 2 or plan.quantization != "none"
    sixteen = sixteen or (plan.sharding.startswith("zero") and plan.autocast)
    return find_block(plan.kind, sixteen_bit_weights=sixteen, autocast=plan.autocast, trained=trained)


def _kept_of_block(plan: Plan, block: Block) -> float:
    assert plan.widths is not None
    each = block.kept(plan.widths, plan.length, eager=plan.eager) * plan.tokens
    if plan.adapters is not None:
        each += _adapted(plan, plan.adapters) / max(plan.layers, 1)
    return each


def _skew(plan: Plan) -> float:
    """Bytes that the middle of the band of activations is above what is typical."""
    if not plan.image_kept or plan.image_kind not in _IMAGE_TYPICAL:
        return 0.0
    return plan.batch * plan.image_kept * (sum(_IMAGE_SPREAD[plan.image_kind]) / 2 - _IMAGE_TYPICAL[plan.image_kind])


def _adapted(plan: Plan, adapters: Adapters) -> float:
    """Traced on peft 0.21: the input in the adapters' dtype (16 bits under autocast), a dropout mask; DoRA the outputs too."""
    size = 2 if plan.autocast or not adapters.in_float32 else 4
    kept = (size + (1 if adapters.dropout else 0)) * adapters.inputs
    return plan.tokens * (kept + ((size + 2) * adapters.outputs if adapters.dora else 0))


def _dequantised(plan: Plan) -> float:
    """The largest quantised matrix in 16 bits, while it is multiplied."""
    if plan.quantization == "none" or plan.widths is None:
        return 0.0
    return 2.0 * plan.widths.hidden * max(plan.widths.intermediate, plan.widths.queries)


def _one_block(plan: Plan, kept: Band) -> Band:
    """At the end of the backward, one block's activations are left."""
    layers = max(plan.layers, 1)
    return (0.0, kept[1] / layers) if not plan.image_kept else (0.0, 0.3 * kept[1])


# --- logits -------------------------------------------------------------------------------------------------------


def _logits(plan: Plan) -> tuple[Band, Band, Band]:
    """Bytes of logits at the peak of the loss, in its backward, and when the output layer's gradient is made.

    transformers' loss makes a float32 copy of 16-bit logits; its log-softmax keeps its result and has a gradient, both in
    float32 (loss/loss_utils.py of 5.24, traced).
    """
    if not plan.vocabulary:
        return (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)
    tokens = min(plan.tokens, _CHUNKED_TOKENS) if plan.chunked_loss else plan.tokens
    unit = tokens * plan.vocabulary
    sixteen = plan.autocast or _size(plan.weights) == 2
    returned = 4.0 if plan.copies_logits and plan.autocast and not plan.chunked_loss else 0.0
    if sixteen:
        forward, backward, head = 10 + returned, 12 + returned, 6 + returned
    else:
        forward, backward, head = 8, 12, 8
    kept_alive = 2 if sixteen else 4  # the logits themselves, where the program holds on to them
    if plan.chunked_loss:
        return (0.0, forward * unit), (0.0, backward * unit), (0.0, head * unit)
    return (
        (0.95 * forward * unit, (forward + kept_alive) * unit),
        (0.95 * backward * unit, (backward + kept_alive) * unit),
        (0.5 * head * unit, (head + kept_alive) * unit),
    )


# --- arithmetic ---------------------------------------------------------------------------------------------------


def _size(dtype: str) -> int:
    return {"float64": 8, "float16": 2, "bfloat16": 2}.get(dtype, 4)


def _exactly(size: float) -> Band:
    return (size, size)


def _spread(size: float, spread: Band) -> Band:
    return (size * spread[0], size * spread[1])


def _plus(one: Band, other: Band) -> Band:
    return (one[0] + other[0], one[1] + other[1])


def _middle(band: Band) -> float:
    return (band[0] + band[1]) / 2 if math.isfinite(band[1]) else band[0]


def _total(parts: Mapping[str, Band]) -> Band:
    return (sum(band[0] for band in parts.values()), sum(band[1] for band in parts.values()))
