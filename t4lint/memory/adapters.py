"""LoRA adapters in numbers: what peft 0.21 puts on the layers of a model, by the names of its modules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from t4lint.memory.configs import TWO_STACKS
from t4lint.memory.plan import Adapters
from t4lint.memory.shapes import Shape
from t4lint.trace import Value

# The layers of a block by name: (input width, output width), as sums of h(idden), q(ueries), k(eys), i(ntermediate).
_SPLIT: Mapping[str, tuple[str, str]] = {
    "q_proj": ("h", "q"), "k_proj": ("h", "k"), "v_proj": ("h", "k"), "o_proj": ("q", "h"),
    "gate_proj": ("h", "i"), "up_proj": ("h", "i"), "down_proj": ("i", "h"),
}  # fmt: skip
_LAYERS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "llama": _SPLIT, "qwen3": _SPLIT, "gemma": _SPLIT, "gemma2": _SPLIT, "gemma3": _SPLIT, "olmo2": _SPLIT,
    "gpt2": {"c_attn": ("h", "hhh"), "c_proj": ("hi", "hh"), "c_fc": ("h", "i")},
    "gpt_neox": {"query_key_value": ("h", "hhh"), "dense": ("h", "h"), "dense_h_to_4h": ("h", "i"), "dense_4h_to_h": ("i", "h")},
    "bloom": {"query_key_value": ("h", "hhh"), "dense": ("h", "h"), "dense_h_to_4h": ("h", "i"), "dense_4h_to_h": ("i", "h")},
    "bert": {"query": ("h", "h"), "key": ("h", "h"), "value": ("h", "h"), "dense": ("hhi", "hih")},
    "opt": {"q_proj": ("h", "h"), "k_proj": ("h", "h"), "v_proj": ("h", "h"), "out_proj": ("h", "h"), "fc1": ("h", "i"), "fc2": ("i", "h")},
    "phi": {"q_proj": ("h", "h"), "k_proj": ("h", "h"), "v_proj": ("h", "h"), "dense": ("h", "h"), "fc1": ("h", "i"), "fc2": ("i", "h")},
    "vit": {"query": ("h", "h"), "key": ("h", "h"), "value": ("h", "h"), "dense": ("hhi", "hih"),  # and, since transformers 5:
            "q_proj": ("h", "h"), "k_proj": ("h", "h"), "v_proj": ("h", "h"), "o_proj": ("h", "h"), "fc1": ("h", "i"), "fc2": ("i", "h")},
    "distilbert": {"q_lin": ("h", "h"), "k_lin": ("h", "h"), "v_lin": ("h", "h"), "out_lin": ("h", "h"), "lin1": ("h", "i"),
                   "lin2": ("i", "h")},
    "deberta-v2": {"query_proj": ("h", "h"), "key_proj": ("h", "h"), "value_proj": ("h", "h"), "dense": ("hhi", "hih")},
    "mpnet": {"q": ("h", "h"), "k": ("h", "h"), "v": ("h", "h"), "o": ("h", "h"), "dense": ("hi", "ih")},
    "modernbert": {"Wqkv": ("h", "hhh"), "Wi": ("h", "ii"), "Wo": ("hi", "hh")},
    "gptj": {"q_proj": ("h", "h"), "k_proj": ("h", "h"), "v_proj": ("h", "h"), "out_proj": ("h", "h"), "fc_in": ("h", "i"),
             "fc_out": ("i", "h")},
    "gpt_neo": {"q_proj": ("h", "h"), "k_proj": ("h", "h"), "v_proj": ("h", "h"), "out_proj": ("h", "h"), "c_fc": ("h", "i"),
                "c_proj": ("i", "h")},
    # A layer of the encoder and one of the decoder together: three attentions and two MLPs.
    "t5": {"q": ("hhh", "qqq"), "k": ("hhh", "qqq"), "v": ("hhh", "qqq"), "o": ("qqq", "hhh"), "wi": ("hh", "ii"), "wo": ("ii", "hh")},
    "t5-gated": {"q": ("hhh", "qqq"), "k": ("hhh", "qqq"), "v": ("hhh", "qqq"), "o": ("qqq", "hhh"), "wi_0": ("hh", "ii"),
                 "wi_1": ("hh", "ii"), "wo": ("ii", "hh")},
    "bart": {"q_proj": ("hhh", "hhh"), "k_proj": ("hhh", "hhh"), "v_proj": ("hhh", "hhh"), "out_proj": ("hhh", "hhh"),
             "fc1": ("hh", "ii"), "fc2": ("ii", "hh")},
}  # fmt: skip
# What peft takes where no target is given (peft 0.21 utils/constants.py).
_DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "llama": ("q_proj", "v_proj"), "qwen3": ("q_proj", "v_proj"), "gemma": ("q_proj", "v_proj"),
    "gemma2": ("q_proj", "v_proj"), "gemma3": ("q_proj", "v_proj"), "gpt2": ("c_attn",), "gpt_neox": ("query_key_value",),
    "bloom": ("query_key_value",), "bert": ("query", "value"), "opt": ("q_proj", "v_proj"), "phi": ("q_proj", "v_proj"),
    "deberta-v2": ("query_proj", "value_proj"), "gptj": ("q_proj", "v_proj"), "gpt_neo": ("q_proj", "v_proj"), "t5": ("q", "v"),
    "t5-gated": ("q", "v"), "bart": ("q_proj", "v_proj"),
}  # fmt: skip
_WHOLE_VOCABULARY = frozenset({"embed_tokens", "lm_head", "wte", "embed_in", "embed_out", "word_embeddings", "shared"})


def lora(
    shape: Shape, targets: Iterable[str] | str | None, rank: int, *, dropout: bool = True, dora: bool = False,
    in_float32: bool = True, saved: Iterable[str] = (),
) -> Adapters | None:  # fmt: skip
    """The adapters of a model; None where its layers, or one of the targets, are not known.

    A layer with `i` inputs and `o` outputs gets `rank * (i + o)` parameters, and `o` more with DoRA. Of `saved` modules
    (`modules_to_save`) the embedding and the output layer are counted: they are trained whole.
    """
    layers = _LAYERS.get(shape.block)
    widths = shape.widths
    if layers is None or widths is None or shape.experts:
        return None
    if targets is None:
        names: Iterable[str] = _DEFAULTS.get(shape.block, ())
    elif targets == "all-linear":
        names = [name for name in layers if shape.block != "vit" or name not in ("query", "key", "value", "dense")]
    elif isinstance(targets, str):
        return None  # a regular expression
    else:
        names = [name.rpartition(".")[2] for name in targets]
    vocabulary = [name for name in names if name in _WHOLE_VOCABULARY]
    names = [name for name in names if name not in _WHOLE_VOCABULARY]
    if any(name not in layers for name in names) or not (names or vocabulary):
        return None
    width = {"h": widths.hidden, "q": widths.queries, "k": widths.keys, "i": widths.intermediate}
    blocks = shape.layers / 2 if shape.block in TWO_STACKS else shape.layers
    inputs = sum(width[letter] for name in names for letter in layers[name][0]) * blocks
    outputs = sum(width[letter] for name in names for letter in layers[name][1]) * blocks
    parameters = rank * (inputs + outputs) + (outputs if dora else 0)
    parameters += len(vocabulary) * rank * (shape.vocabulary + shape.hidden)
    whole = vocabulary_parameters(shape, saved)
    return Adapters(parameters + whole, inputs, outputs, dropout, dora, in_float32, whole)


def vocabulary_parameters(shape: Shape, modules: Iterable[str]) -> int:
    """Parameters of the embedding and the output layer that a list of module names makes trainable."""
    named = {name.rpartition(".")[2] for name in modules} & _WHOLE_VOCABULARY
    return len(named) * shape.vocabulary * shape.hidden


def adapters_of(fields: Mapping[str, Value], shape: Shape) -> Adapters | None:
    """The adapters that the fields of a LoraConfig ask for; None where their size cannot be told."""

    def plain(name: str, default: Any) -> Any:
        value = fields.get(name)
        return value.it if value is not None and value.known and value.it is not None else default

    rank = plain("r", 8)  # peft's default
    targets = fields.get("target_modules")
    if targets is not None and not targets.known:
        return None
    names = targets.it if targets is not None else None
    if isinstance(names, (set, tuple, frozenset)):
        names = list(names)
    saved = plain("modules_to_save", ())
    return lora(
        shape, names, int(rank) if isinstance(rank, (int, float)) and isfinite(rank) else 8, dropout=bool(plain("lora_dropout", 0.0)),
        dora=plain("use_dora", False) is True, saved=saved if isinstance(saved, (list, tuple)) else (),
    )  # fmt: skip
