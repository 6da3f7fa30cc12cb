"""How many parameters a layer of torch.nn has, read from its constructor."""

from __future__ import annotations

import math
from collections.abc import Callable

from t4lint.interpret.values import NONE, Const, ListValue
from t4lint.libraries.api import Call

# where each class takes its switches by position (torch 2.13)
BIAS = {"Linear": 2, "Bilinear": 3, "LSTM": 3, "GRU": 3, "RNN": 4, "MultiheadAttention": 3}
CONV_BIAS = 7
AFFINE = {"LayerNorm": 2, "RMSNorm": 2}
AFFINE_OTHERS = 3
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}  # matrices of a recurrent layer, each of input and of hidden state


def layer_parameters(call: Call, name: str) -> int | None:
    """Weights and biases of one layer, from its constructor (torch.nn, the same formulas since 1.0); None where unknown."""

    def number(key: str, position: int | None, default: int | None = None) -> int | None:
        value = call.machine.resolve(call.arguments.get(key, position) or NONE)
        if value is NONE or (isinstance(value, Const) and value.value is None):
            return default
        return int(value.value) if isinstance(value, Const) and isinstance(value.value, (bool, int)) else None

    bias = number("bias", CONV_BIAS if name.startswith("Conv") else BIAS.get(name), 1)
    if name.startswith("Conv"):
        channels = number("in_channels", 0), number("out_channels", 1)
        volume, groups = _volume(call, int(name[-2])), number("groups", 6, 1)
        return _if_known(lambda i, o, k, g, b: i * o * k // g + b * o if g else None, *channels, volume, groups, bias)
    if name.endswith("Norm") or "Norm" in name[:-2]:
        return _normalization(call, name, number)
    if name in GATES:
        widths = number("input_size", 0), number("hidden_size", 1), number("num_layers", 2, 1)
        ways = _if_known(lambda both: 1 + both, number("bidirectional", None, 0))
        plain = 0 if number("proj_size", None, 0) == 0 else None
        return _if_known(lambda *it: _recurrent(GATES[name], *it), *widths, ways, bias, plain)
    if name == "MultiheadAttention":
        plain = None if call.given("kdim") or call.given("vdim") else 0
        return _if_known(lambda d, b, _: 4 * d * d + 4 * b * d, number("embed_dim", 0), bias, plain)
    if name in ("TransformerEncoderLayer", "TransformerDecoderLayer"):
        attentions = 1 if name == "TransformerEncoderLayer" else 2
        wide, inner = number("d_model", 0), number("dim_feedforward", 2, 2048)
        return _if_known(lambda d, f, b: _transformer_layer(attentions, d, f, b), wide, inner, bias)
    match name:
        case "Linear":
            return _if_known(lambda i, o, b: i * o + b * o, number("in_features", 0), number("out_features", 1), bias)
        case "Embedding" | "EmbeddingBag":
            return _if_known(lambda rows, width: rows * width, number("num_embeddings", 0), number("embedding_dim", 1))
        case "Bilinear":
            first, second, outputs = number("in1_features", 0), number("in2_features", 1), number("out_features", 2)
            return _if_known(lambda i, j, o, b: i * j * o + b * o, first, second, outputs, bias)
        case "PReLU":
            return number("num_parameters", 0, 1)
    return None if name.startswith(("Transformer", "Lazy")) else 0


Number = Callable[..., int | None]


def _normalization(call: Call, name: str, number: Number) -> int | None:
    """A weight and a bias for each channel, where the layer has any."""
    if name.startswith(("LocalResponseNorm", "CrossMapLRN")):
        return 0
    key = "elementwise_affine" if name in AFFINE else "affine"
    affine = number(key, AFFINE.get(name, AFFINE_OTHERS), int(not name.startswith("InstanceNorm")))
    if name in ("LayerNorm", "RMSNorm"):
        each = 1 if name == "RMSNorm" else _if_known(lambda bias: 1 + bias, number("bias", None, 1))
        return _if_known(lambda a, e, width: a * e * width, affine, each, _size(call, "normalized_shape", 0))
    width = number("num_channels", 1) if name == "GroupNorm" else number("num_features", 0)
    return _if_known(lambda a, w: 2 * a * w, affine, width)


def _size(call: Call, key: str, position: int) -> int | None:
    """The product of a shape that is given as a number or as a list of numbers."""
    shape = call.machine.resolve(call.arguments.get(key, position) or NONE)
    if isinstance(shape, Const) and isinstance(shape.value, int):
        return int(shape.value)
    if not (isinstance(shape, ListValue) and shape.complete):
        return None
    sides = [
        side.value
        for side in map(call.machine.resolve, shape.items)
        if isinstance(side, Const) and isinstance(side.value, int)
    ]
    return math.prod(sides) if len(sides) == len(shape.items) else None


def _if_known(formula: Callable[..., int | None], *numbers: int | None) -> int | None:
    return None if None in numbers else formula(*numbers)


def _transformer_layer(attentions: int, wide: int, inner: int, bias: int) -> int:
    """Attentions of four square matrices, two linear layers between, and a norm for each of these parts."""
    attention = 4 * wide * wide + 4 * bias * wide
    return attentions * attention + 2 * wide * inner + bias * (inner + wide) + (attentions + 1) * (1 + bias) * wide


def _recurrent(gates: int, inputs: int, hidden: int, layers: int, ways: int, bias: int, _: int) -> int:
    """The first layer reads the input, each further one the hidden states of all directions."""
    widths = [inputs] + [ways * hidden] * (layers - 1)
    return sum(ways * gates * hidden * (width + hidden + 2 * bias) for width in widths)


def _volume(call: Call, dimensions: int) -> int | None:
    """Elements of a convolution's kernel, given as one number or as one for each dimension."""
    side = call.machine.resolve(call.arguments.get("kernel_size", 2) or NONE)
    elements = _size(call, "kernel_size", 2)
    return elements if elements is None or isinstance(side, ListValue) else int(elements**dimensions)
