"""Build `t4lint/memory/configs.csv`: the defaults of transformers' configuration classes that decide a model's shape.

python scripts/build_configs.py
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import transformers

from t4lint.memory.blocks import _KINDS, _blocks
from t4lint.memory.configs import _SYNONYMS

TARGET = Path(__file__).resolve().parent.parent / "t4lint" / "memory" / "configs.csv"
FIELDS = [
    *(word for words in _SYNONYMS.values() for word in words),
    "num_local_experts",
    "num_experts",
    "num_experts_per_tok",
]
TYPES = sorted({kind for kind, *_ in _blocks()} | set(_KINDS) | {"gemma3_text"})


def main() -> None:
    rows = []
    for model_type in TYPES:
        try:
            config: Any = transformers.AutoConfig.for_model(model_type)
        except (ValueError, KeyError):
            continue  # a kind of block of ours, not a model_type
        # What follows from another field is no default: it must stay when the heads and the width change.
        other: Any = transformers.AutoConfig.for_model(model_type, num_attention_heads=2, hidden_size=96)
        for field in FIELDS:
            value = getattr(config, field, None)
            if field in ("head_dim", "num_key_value_heads", "n_inner", "d_kv") and getattr(other, field, None) != value:
                continue
            if isinstance(value, int) and not isinstance(value, bool):
                rows.append({"model_type": model_type, "class": type(config).__name__, "field": field, "value": value,
                             "source": f"transformers {transformers.__version__}"})  # fmt: skip
    with TARGET.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["model_type", "class", "field", "value", "source"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(len(rows), "defaults of", len({row["model_type"] for row in rows}), "configurations")


if __name__ == "__main__":
    main()
