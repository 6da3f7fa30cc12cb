"""What fills the card: bytes in closed form, as (low, high) bands.

The lower edge counts only what is certainly there at one moment of a step; the upper edge what may be. An
upper edge that nothing bounds is `math.inf`. Bytes per parameter were measured by following live storages of AdamW steps in torch 2.13;
the factors of activations and logits were fitted to traced peaks of ten models of 124 M to 1.1 B parameters.
"""

from __future__ import annotations

from collections.abc import Mapping

Band = tuple[float, float]

NOTHING: Band = (0.0, 0.0)
DTYPE_BYTES: Mapping[str, int] = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "int8": 1,
}  # fmt: skip

# Bytes of optimizer state, as multiples of a parameter's own size: torch's optimizers keep states in its dtype.
_STATES: Mapping[str, Band] = {
    "adam": (2, 2),
    "adamw": (2, 2),
    "nadam": (2, 2),
    "radam": (2, 2),
    "adamax": (2, 2),
    "adadelta": (2, 2),
    "adagrad": (1, 1),
    "rmsprop": (1, 3),  # momentum and centering add one each
    "lion": (1, 1),
    "sgd": (0, 1),  # momentum
    "adafactor": (0, 1),  # rows and columns only; a first moment when beta1 is given
    "lbfgs": (0, 200),  # a history of 100 pairs
}
_UNKNOWN_STATES: Band = (0, 3)
# Bytes a parameter, whatever its dtype: two 8-bit states with block constants; or two in 32 bits, which small tensors
# keep, and embeddings under transformers' Trainer.
_EIGHT_BIT: Band = (2, 2.1)
_THIRTY_TWO_BIT = 8

# Bytes a parameter of quantised linear layers: 4 bits with constants are 0.52 to 0.55 (nf4, double quantisation or not).
_QUANTISED: Mapping[str, Band] = {"4bit": (0.5, 0.57), "8bit": (1.0, 1.1), "fp8": (1.0, 1.1)}

# torch's default `foreach` implementation makes temporaries of a parameter's size: peak 20 B instead of 16.
_FOREACH = 1.0
# Autocast keeps 16-bit copies of the weights during the forward.
_AUTOCAST_COPY = 2
# Activations a token, layer and hidden unit: 34 B in 16 bits (Korthikanti et al., arXiv 2205.05198, without the
# attention term), twice that in float32; attention scores of the eager form add 5 B a head and pair of tokens.
_ACTIVATIONS_16BIT = 34
_ACTIVATIONS_32BIT = 68
_SCORES_16BIT = 5


def state_bytes(
    parameters: float,
    trainable: float,
    *,
    mixed_precision: str = "no",
    optimizer: str = "",
    weights_dtype: str = "",
    quantization: str = "none",
    embedding: float = 0,
) -> dict[str, Band]:
    """Bytes of weights, gradients and optimizer states by the recipe; no activations.

    `parameters` and `trainable` are counts; `embedding` counts those of the vocabulary, which quantisation and 8-bit
    optimizers leave in 16 or 32 bits (0 when unknown). Empty strings are unknown. Adam in float32, with or without
    autocast: 16 bytes a trainable parameter at least, and 20 where the optimizer runs in its `foreach` form.
    """
    size = _size(weights_dtype)
    frozen = parameters - trainable
    gradients = _times(size, trainable)
    bands = {
        "weights": _add(_frozen(frozen, size, quantization, embedding), _times(size, trainable)),
        "gradients": gradients,
        "optimizer": _optimizer_states(optimizer, trainable, size, embedding),
        "optimizer temporaries": (0.0, gradients[1] * _FOREACH),
    }
    if mixed_precision in ("fp16", "bf16", "fp8") and size[1] > _AUTOCAST_COPY:
        bands["autocast copies"] = (0.0, float(_AUTOCAST_COPY * parameters))
    return bands


def logits_bytes(batch: float, length: float, vocabulary: float, *, sixteen_bit: bool | None = None) -> Band:
    """Bytes of a causal language model's logits and what its loss makes of them.

    Low: 16-bit logits and the float32 copy that transformers' loss makes of them (6 B), or the logits alone in float32
    (4 B; also when the precision is unknown). High: with the log-softmax, the gradient in float32 and in 16 bits
    (16 B). Source: transformers loss/loss_utils.py (`logits.float()`), and traced peaks.
    """
    return ((6 if sixteen_bit else 4) * batch * length * vocabulary, 16 * batch * length * vocabulary)


def activation_bytes(
    batch: float,
    length: float,
    layers: int,
    hidden: int,
    heads: int,
    *,
    sixteen_bit: bool,
    checkpointing: bool,
) -> Band:
    """Bytes that a transformer keeps for backward, without logits.

    For blocks that were not traced. Low: each block's input in 16 bits, which stays even with checkpointing. High: all
    of each block, in eager attention and without checkpointing; with it, one block's worth
    besides the inputs.
    """
    tokens = batch * length
    block = (_ACTIVATIONS_16BIT if sixteen_bit else _ACTIVATIONS_32BIT) * tokens * hidden
    block += (1 if sixteen_bit else 2) * _SCORES_16BIT * batch * heads * length**2
    inputs = tokens * hidden * layers
    high = 4 * inputs + 2 * block if checkpointing else block * layers
    low = float(2 * inputs)
    return (low, max(low, float(high)))


def peak(components: Mapping[str, Band], *, accumulates: bool = False) -> Band:
    """Bytes at the worst moment of a step.

    Low: weights and optimizer states stay; gradients meet activations and logits only where several micro-batches make
    a step, because they are freed before the next forward. High: everything at once.
    """
    low = {name: band[0] for name, band in components.items()}
    stays = low.get("weights", 0) + low.get("optimizer", 0)
    forward = low.get("logits", 0) + low.get("activations", 0)
    gradients = low.get("gradients", 0)
    lowest = stays + (forward + gradients if accumulates else max(forward, gradients))
    return (lowest, sum(band[1] for band in components.values()))


def optimizer_kind(name: str) -> str:
    """`"torch.optim.AdamW"`, `"adamw_torch_fused"`, `"paged_adamw_8bit"` → `"adamw"`; empty when unknown."""
    last = name.lower().rpartition(".")[2].removeprefix("deepspeedcpu").removeprefix("fused")
    words = [word for word in last.replace("-", "_").split("_") if word not in ("paged", "fused")]
    first = words[0].removeprefix("paged").removesuffix("8bit").removesuffix("32bit") if words else ""
    return first if first in _STATES else ""


def _optimizer_states(optimizer: str, trainable: float, size: Band, embedding: float) -> Band:
    name = optimizer.lower()
    if "offload" in name or "cpu" in name:
        return NOTHING
    if not (kind := optimizer_kind(optimizer)):
        low, high = _UNKNOWN_STATES
    elif "8bit" in name:
        low, high = _EIGHT_BIT
        whole = min(embedding, trainable) if embedding else trainable
        # Paged states may leave the card.
        return (0.0 if "paged" in name else low * trainable, high * (trainable - whole) + _THIRTY_TWO_BIT * whole)
    else:
        low, high = _STATES[kind]
        if "paged" in name:
            low = 0
    return (low * size[0] * trainable, high * size[1] * trainable)


def _frozen(frozen: float, size: Band, quantization: str, embedding: float) -> Band:
    """Bytes of weights that get no gradient, quantised or not."""
    if quantization in ("none", ""):
        low = (size[0] if quantization else 0.5) * frozen
        return (low, size[1] * frozen)
    low, high = _QUANTISED.get(quantization, (0.25, 2.0))
    whole = min(embedding, frozen)
    rest = frozen - whole
    # Without a count of what stays whole, the upper edge takes all of it in 16 bits.
    upper = high * rest + 4 * whole if embedding else max(high, 2.0) * frozen
    return (low * rest + 2 * whole, upper)


def _size(dtype: str) -> Band:
    """Bytes of one element; 2 to 4 when the dtype is unknown."""
    exact = DTYPE_BYTES.get(dtype)
    return (2.0, 4.0) if exact is None else (float(exact), float(exact))


def _times(size: Band, count: float) -> Band:
    return (size[0] * count, size[1] * count)


def _add(one: Band, other: Band) -> Band:
    return (one[0] + other[0], one[1] + other[1])
