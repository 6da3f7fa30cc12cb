"""Shapes of common checkpoints, by the names that people write.

`checkpoints.csv` is made by `scripts/build_checkpoints.py` from published packages; each row names its source.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from t4lint.memory.blocks import Widths

_TABLE = Path(__file__).parent / "checkpoints.csv"
# Organisations that republish the checkpoints of others under the same name.
_MIRRORS = frozenset({"unsloth"})
# What quantised copies add to the name of the checkpoint that they were made from.
_QUANTISED = re.compile(r"(-unsloth)?-bnb-[48]bit$|-awq$|-gptq(-int[48])?$|-fp8$")

# What copies that were only stored anew add.
_COPIED = re.compile(r"([-_](sharded|small-shards|shards|bf16|fp16|f16|[0-9]+gb|bnb-[48]bit|4bit|8bit|awq|gptq))+$")
SHORTEST_NAME = 4  # "t5", "gpt" or "vit" as the name of a folder say too little


@dataclass(frozen=True, slots=True)
class Shape:
    """A checkpoint's shape; 0 where the source does not say. `layers` counts encoder and decoder together.

    `tied` is None where no source states whether the output layer shares the embedding; `parameters` is then a lower
    bound that counts it once.
    """

    id: str
    family: str
    block: str  # the kind of block in blocks.csv; empty where it was not traced
    parameters: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate: int
    vocabulary: int
    tied: bool | None
    experts: int
    active_experts: int  # that a token goes through
    checkpoint_dtype: str
    source: str

    @property
    def widths(self) -> Widths | None:
        """The widths of a block, as a token meets them: all active experts together; None for other models."""
        if not (self.layers and self.hidden and self.heads and self.intermediate):
            return None
        size = self.head_size or self.hidden // self.heads
        wide = self.intermediate * max(self.active_experts, 1)
        return Widths(self.hidden, self.heads * size, (self.kv_heads or self.heads) * size, wide, self.heads)

    @property
    def embedding(self) -> int:
        """Parameters that are rows of a vocabulary: the embedding, and the output layer where it is its own."""
        return self.vocabulary * self.hidden * (2 if self.tied is False and self.vocabulary else 1)

    @property
    def multiplied(self) -> int:
        """Parameters that a token is multiplied with: all but an embedding that is only looked up."""
        return self.parameters - (self.vocabulary * self.hidden if self.tied is False else 0)


def find_shape(name: str) -> Shape | None:
    """The shape of a checkpoint: by its id, with or without the organisation, in any case.

    A quantised copy (`unsloth/...-bnb-4bit`) has the shape of what it was made from. A name under another organisation
    is another checkpoint, and so unknown.
    """
    organisation, _, short = name.strip().lower().rstrip("/").rpartition("/")
    for candidate in (short, _QUANTISED.sub("", short)):
        for shape in shapes().get(candidate, ()):
            if organisation in ("", *_MIRRORS, shape.id.lower().rpartition("/")[0]):
                return shape
    return None


def presumed_shape(name: str) -> Shape | None:
    """The shape that the name of a copy promises: under another organisation, or in a folder of this machine.

    Parts of a path are read from its end: `./models/Llama-2-7b-hf`, `/kaggle/input/llama-3/transformers/8b-chat-hf/1`, where
    Kaggle writes the model, the framework, the variation and its number. It is a copy by its name only, so who uses it
    says that it is likely.
    """
    parts = [part for part in name.strip().lower().split("/") if part]
    local = name.startswith(("/", "./", "../", "~")) or len(parts) > 2
    variations = [f"{parts[at - 2]}-{parts[at]}" for at in range(2, len(parts))] if "kaggle" in parts else []
    for part in (*(reversed(parts) if local else parts[-1:]), *variations):
        short = _COPIED.sub("", part)
        for candidate in (part, short, f"{short}-hf", f"meta-{short}", short.removesuffix("-hf")):
            if len(candidate) >= SHORTEST_NAME and (found := shapes().get(candidate)):
                return found[0]
    return None


@cache
def shapes() -> Mapping[str, tuple[Shape, ...]]:
    """All shapes by name without organisation, lower case."""
    known: dict[str, tuple[Shape, ...]] = {}
    with _TABLE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            shape = _shape(row)
            for name in (row["id"].rpartition("/")[2], *row["aliases"].split()):
                key = name.lower()
                known[key] = (*known.get(key, ()), shape)
                if key.startswith("meta-llama-"):
                    bare = key.removeprefix("meta-")
                    known[bare] = (*known.get(bare, ()), shape)
    return known


def _shape(row: dict[str, str]) -> Shape:
    return Shape(
        id=row["id"],
        family=row["family"],
        block=row["block"],
        parameters=int(row["parameters"]),
        layers=int(row["layers"] or 0),
        hidden=int(row["hidden"] or 0),
        heads=int(row["heads"] or 0),
        kv_heads=int(row["kv_heads"] or 0),
        head_size=int(row["head_size"] or 0),
        intermediate=int(row["intermediate"] or 0),
        vocabulary=int(row["vocabulary"] or 0),
        tied={"yes": True, "no": False}.get(row["tied"]),
        experts=int(row["experts"] or 0),
        active_experts=int(row["active_experts"] or 0),
        checkpoint_dtype=row["checkpoint_dtype"],
        source=row["source"],
    )
