"""Configurations of checkpoints by their names, from the table that t4lint ships (memory/checkpoints.csv).

The table has sizes; what else a configuration holds are the defaults of transformers for the kind of model.
"""

# os.path is loaded anyway; pathlib would cost every process its import.
# ruff: noqa: PTH100, PTH118, PTH120, PTH123

from __future__ import annotations

import csv
import os
from typing import Any

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "memory", "checkpoints.csv")

# By family, or family and block, of the table: transformers' own name of the kind of model.
TYPES = {
    "bert": "bert", "roberta": "roberta", "xlm-roberta": "xlm-roberta", "electra": "electra", "distilbert": "distilbert",
    "deberta": "deberta", "deberta-v2": "deberta-v2", "gpt2": "gpt2", "opt": "opt", "bloom": "bloom", "t5": "t5", "mt5": "mt5",
    "bart": "bart",
    "whisper": "whisper", "vit": "vit", "pythia": "gpt_neox", "mistral": "mistral", "mathstral": "mistral",
    "mixtral": "mixtral", "gemma": "gemma", "codegemma": "gemma", "falcon": "falcon", "olmo": "olmo",
    "stablelm": "stablelm", "qwen": "qwen2", "qwen2": "qwen2", "qwq": "qwen2", "phi": "phi3",
    "falcon llama": "llama", "olmo olmo2": "olmo2", "gemma gemma2": "gemma2", "gemma gemma3": "gemma3_text",
    "qwen qwen3": "qwen3", "phi phi": "phi", "stablelm gpt_neox": "gpt_neox", "stablecode gpt_neox": "gpt_neox",
}  # fmt: skip
# The other families are what their blocks are called, where transformers calls them so.
BLOCKS = {"gemma3": "gemma3_text", **{it: it for it in ("gpt2", "gpt_neo", "gpt_neox", "gptj", "modernbert", "mpnet")}}
OTHERWISE = "llama"
# Published in 32 bits as a rule; the others in bfloat16. transformers from 5.0 on loads what is published.
WIDE = frozenset({
    "bert", "roberta", "xlm-roberta", "electra", "distilbert", "deberta", "deberta-v2", "gpt2", "gpt_neo", "gptj", "t5", "mt5",
    "bart", "whisper", "vit", "mpnet", "modernbert",
})  # fmt: skip
TWO_SIDED = frozenset({"bart", "whisper"})  # the table counts encoder and decoder together


def row_of(name: str) -> dict[str, str] | None:
    """The table's row for a checkpoint: with its organisation, or without one."""
    organisation, _, short = name.strip().lower().rpartition("/")
    with open(TABLE, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            names = [row["id"], *row["aliases"].split()]
            for known in names:
                owner, _, own = known.lower().rpartition("/")
                if own == short and organisation in ("", owner) and row["layers"]:
                    return row
    return None


def configuration(name: str) -> dict[str, Any] | None:
    """The fields of a `config.json` for a checkpoint of the table; None where it is not in it."""
    row = row_of(name)
    if row is None:
        return None
    family = row["family"]
    kind = TYPES.get(f"{family} {row['block']}") or TYPES.get(family) or BLOCKS.get(row["block"], OTHERWISE)
    if kind == "qwen3" and row["experts"]:
        kind = "qwen3_moe"
    fields: dict[str, Any] = {"model_type": kind, "dtype": row["checkpoint_dtype"] or _dtype(kind)}
    fields.update(_sizes(row, kind))
    fields.update(_positions(kind))
    if row["tied"]:
        fields["tie_word_embeddings"] = row["tied"] == "yes"
    if row["block"] == "t5-gated":
        fields["feed_forward_proj"] = "gated-gelu"
    return fields


def _dtype(kind: str) -> str:
    if kind == "opt":
        return "float16"
    return "float32" if kind in WIDE else "bfloat16"


def _sizes(row: dict[str, str], kind: str) -> dict[str, Any]:
    """Sizes under the names that transformers knows for all kinds, and those that some have for themselves."""
    layers, hidden, heads = int(row["layers"]), int(row["hidden"]), int(row["heads"])
    wide, keys, size = int(row["intermediate"]), int(row["kv_heads"] or heads), int(row["head_size"] or 0)
    fields: dict[str, Any] = {"vocab_size": int(row["vocabulary"])} if row["vocabulary"] else {}
    if kind in TWO_SIDED:
        sides = {"layers": layers // 2, "attention_heads": heads, "ffn_dim": wide}
        named = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in sides.items()}
        return {**fields, "d_model": hidden, **named}
    fields.update(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads)
    if kind in ("t5", "mt5"):
        return {
            **fields,
            "num_hidden_layers": layers // 2,
            "num_decoder_layers": layers // 2,
            "d_ff": wide,
            "d_kv": size,
        }
    if kind == "opt":
        return {**fields, "ffn_dim": wide, "word_embed_proj_dim": hidden}
    if kind == "distilbert":
        return {**fields, "hidden_dim": wide}
    if kind == "falcon":
        return {
            **fields,
            "num_kv_heads": keys,
            "new_decoder_architecture": keys not in (1, heads),
            "multi_query": keys == 1,
        }
    if kind == "gpt_neo":  # every other layer attends to its surroundings only
        return {**fields, "attention_types": [[["global", "local"], layers // 2]]}
    if kind == "deberta":  # every published one; the defaults of transformers are those of a BERT
        fields.update(relative_attention=True, pos_att_type=["c2p", "p2c"], position_biased_input=False)
    if kind in ("gpt2", "gptj", "bloom"):
        return fields
    fields["intermediate_size"] = wide
    if keys != heads or kind not in WIDE:
        fields["num_key_value_heads"] = keys
    if size and size * heads != hidden:
        fields["head_dim"] = size
    if row["experts"]:
        experts = int(row["experts"])
        fields.update(num_local_experts=experts, num_experts=experts, num_experts_per_tok=int(row["active_experts"]))
        if kind == "qwen3_moe":
            fields["moe_intermediate_size"] = wide
    if kind == "electra":  # the small one has narrower embeddings, the others' are as wide as the model
        fields["embedding_size"] = 128 if hidden == 256 else hidden
    return fields


def _positions(kind: str) -> dict[str, Any]:
    """How long a sequence may be where the default is shorter than what is published."""
    if kind == "mpnet":
        return {"max_position_embeddings": 514}
    if kind == "roberta" or kind == "xlm-roberta":
        return {
            "max_position_embeddings": 514,
            "type_vocab_size": 1,
            "pad_token_id": 1,
            "bos_token_id": 0,
            "eos_token_id": 2,
        }
    if kind in ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi3", "olmo", "olmo2", "mixtral"):
        return {"max_position_embeddings": 4096}
    return {}
