"""Shapes from configurations: a `config.json`, or the fields that a program gives to a configuration class.

`configs.csv` holds the defaults of transformers' configuration classes, which count where a field is not given
(`scripts/build_configs.py`). Parameters are counted from the shape: products, norms, biases and embeddings of the kinds of
block that are known; another kind has no shape.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from t4lint.memory.blocks import kind_of
from t4lint.memory.shapes import Shape

LARGEST = 1_000_000  # bytes of a config.json
_TABLE = Path(__file__).parent / "configs.csv"
# One name for what families call differently.
_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "d_model", "dim"),
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers"),
    "decoder": ("num_decoder_layers", "decoder_layers"),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads", "encoder_attention_heads"),
    "kv_heads": ("num_key_value_heads",),
    "head_size": ("head_dim", "d_kv"),
    "intermediate": ("intermediate_size", "n_inner", "ffn_dim", "d_ff", "hidden_dim", "encoder_ffn_dim"),
    "vocabulary": ("vocab_size",),
    "positions": ("max_position_embeddings", "n_positions"),
}
# Kinds whose MLP has a gate, kinds with biases in their products, and kinds that learn positions.
_GATED = frozenset({"llama", "qwen3", "gemma", "gemma2", "gemma3", "olmo2", "t5-gated", "modernbert"})
_BIASED = frozenset({
    "gpt2", "gpt_neo", "bert", "mpnet", "distilbert", "opt", "gpt_neox", "bloom", "phi", "bart", "vit", "deberta-v2",
})  # fmt: skip
_POSITIONS = frozenset({"gpt2", "gpt_neo", "bert", "mpnet", "distilbert", "opt", "bart"})
_TIED = frozenset({
    "gpt2", "gpt_neo", "gemma", "gemma2", "gemma3", "bert", "mpnet", "modernbert", "deberta-v2", "distilbert", "opt", "bloom", "bart",
    "t5", "vit",
})  # fmt: skip
# An encoder and a decoder, whose layers have a second attention.
TWO_STACKS = frozenset({"t5", "t5-gated", "bart"})
_PATCH, _PATCHES = 16, 197  # pixels of a side, and tokens of 224 pixels, of the vision transformers that are counted


def shape_of_file(path: Path) -> Shape | None:
    """The shape in a `config.json`; None where it is no configuration of a known kind."""
    try:
        with path.open("rb") as stream:
            fields = json.loads(stream.read(LARGEST))
    except (OSError, ValueError, RecursionError):
        return None
    return shape_of_config(fields, str(path)) if isinstance(fields, dict) else None


def shape_of_config(fields: Mapping[str, Any], name: str = "") -> Shape | None:
    """The shape that a configuration describes; `"$class"` names its class where `model_type` is not given."""
    model_type = str(fields.get("model_type") or _type_of_class(str(fields.get("$class", ""))))
    gated = model_type == "t5" and "gated" in str(fields.get("feed_forward_proj", ""))
    if not (block := kind_of("mt5" if gated else model_type)):
        return None
    sizes = {key: _number(fields, model_type, words) for key, words in _SYNONYMS.items()}
    hidden, layers, heads, vocabulary = (sizes[key] for key in ("hidden", "layers", "heads", "vocabulary"))
    if not (hidden and layers and heads and (vocabulary or block == "vit")):
        return None
    wide = sizes["intermediate"] or 4 * hidden
    head_size = sizes["head_size"] or hidden // heads
    kv_heads = sizes["kv_heads"] or heads
    experts = _plain(fields, model_type, "num_local_experts") or _plain(fields, model_type, "num_experts")
    active = _plain(fields, model_type, "num_experts_per_tok") if experts else 0
    tied = fields.get("tie_word_embeddings")
    tied = tied if isinstance(tied, bool) else block in _TIED
    decoder = (sizes["decoder"] or layers) if block in TWO_STACKS else 0
    shape = Shape(
        id=name or f"a model of {fields.get('$class') or model_type}", family=model_type, block=block, parameters=0,
        layers=layers + decoder, hidden=hidden, heads=heads, kv_heads=kv_heads, head_size=head_size, intermediate=wide,
        vocabulary=vocabulary, tied=tied, experts=experts, active_experts=active, checkpoint_dtype="", source=name or "the code",
    )  # fmt: skip
    count = (layers + decoder) * _block_parameters(shape) + decoder * _attention_parameters(shape) + shape.embedding
    count += hidden * sizes["positions"] * (2 if decoder else 1) if block in _POSITIONS else 0
    count += hidden * (3 * _PATCH**2 + _PATCHES) if block == "vit" else 0
    return Shape(**{field: getattr(shape, field) for field in Shape.__slots__} | {"parameters": count})


def _block_parameters(shape: Shape) -> int:
    """Parameters of one block of an encoder, or of a model that is only a decoder."""
    hidden = shape.hidden
    mlp = (3 if shape.block in _GATED else 2) * hidden * shape.intermediate
    mlp = mlp * shape.experts + hidden * shape.experts if shape.experts else mlp
    biases = hidden + shape.intermediate if shape.block in _BIASED else 0
    norms = (2 if shape.block in _BIASED else 1) * hidden
    return _attention_parameters(shape) + mlp + biases + norms


def _attention_parameters(shape: Shape) -> int:
    """Parameters of an attention and its norm."""
    hidden, queries, keys = shape.hidden, shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    biases = queries + 2 * keys + hidden if shape.block in _BIASED else 0
    return hidden * (2 * queries + 2 * keys) + biases + (2 if shape.block in _BIASED else 1) * hidden


def _number(fields: Mapping[str, Any], model_type: str, words: tuple[str, ...]) -> int:
    for source in (fields, _defaults().get(model_type, {})):
        for word in words:
            value = source.get(word)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return int(value)
            if word in source and value is not None and source is fields:
                return 0  # given, but no number: nothing may be taken in its place
    return 0


def _plain(fields: Mapping[str, Any], model_type: str, word: str) -> int:
    return _number(fields, model_type, (word,))


def _type_of_class(name: str) -> str:
    """`"LlamaConfig"` → `"llama"`."""
    return next((kind for kind, fields in _defaults().items() if fields["$class"] == name), "")


@cache
def _defaults() -> Mapping[str, Mapping[str, Any]]:
    """model_type → field → default."""
    found: dict[str, dict[str, Any]] = {}
    with _TABLE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            fields = found.setdefault(row["model_type"], {"$class": row["class"]})
            fields[row["field"]] = int(row["value"])
    return found
