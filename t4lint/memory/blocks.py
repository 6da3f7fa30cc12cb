"""What one block of a transformer keeps for backward, by kind of block, precision and way of training.

`blocks.csv` is made by `scripts/build_blocks.py` from traces of real models on a GPU that is not there; its docstring says
what the columns are. Bytes are those of one token and one layer.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_TABLE = Path(__file__).parent / "blocks.csv"
# transformers' model_type → the kind of block that it has, where the names differ
_KINDS: Mapping[str, str] = {
    "roberta": "bert", "xlm-roberta": "bert", "electra": "bert", "camembert": "bert", "deberta": "deberta-v2", "mistral": "llama",
    "mixtral": "llama", "qwen2": "llama", "qwen2_moe": "llama", "phi3": "llama", "smollm3": "llama", "qwen3_moe": "qwen3",
    "stablelm": "llama", "olmo": "llama", "granite": "llama", "gemma3_text": "gemma3", "falcon": "gpt_neox", "codegen": "gptj",
    "mbart": "bart", "pegasus": "bart", "marian": "bart", "whisper": "bart",
    "mt5": "t5-gated", "umt5": "t5-gated", "deit": "vit", "vit_mae": "vit", "beit": "vit", "dinov2": "vit", "clip": "vit",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Widths:
    """The widths of a block; `queries` and `keys` are those of all heads together."""

    hidden: int
    queries: int
    keys: int
    intermediate: int
    heads: int


@dataclass(frozen=True, slots=True)
class Block:
    """Coefficients of one kind of block, in bytes a token and layer and unit of each width."""

    kind: str
    hidden: float
    queries: float
    keys: float
    intermediate: float
    heads: float
    pairs: float
    sample: float
    scores: float
    outside: float
    working: float
    working_wide: float
    checkpointed: float

    def kept(self, widths: Widths, length: float = 0, *, eager: bool = False) -> float:
        """Bytes a token and layer at the end of the forward."""
        linear = (
            self.hidden * widths.hidden
            + self.queries * widths.queries
            + self.keys * widths.keys
            + self.intermediate * widths.intermediate
            + self.heads * widths.heads
        )
        once = self.sample * widths.hidden / length if length else 0.0
        return linear + once + self._pairs(eager) * widths.heads * length

    def work(self, widths: Widths, length: float = 0, *, eager: bool = False) -> float:
        """Bytes a token that the backward of one block needs more at its peak."""
        linear = self.working * widths.hidden + self.working_wide * widths.intermediate
        # The backward of a softmax makes its gradient in float32 or 16 bits beside what is kept.
        return max(0.0, linear) + (2 * self.scores * widths.heads * length if eager else 0)

    def _pairs(self, eager: bool) -> float:
        """Bytes a pair of tokens and head: of eager attention where it is asked for, or where the family has no other."""
        return max(self.pairs, self.scores) if eager else self.pairs


def kind_of(model_type: str) -> str:
    """The kind of block behind a model_type of transformers; empty where none was traced."""
    kind = _KINDS.get(model_type, model_type)
    return kind if any(key[0] == kind for key in _blocks()) else ""


def find_block(kind: str, *, sixteen_bit_weights: bool, autocast: bool, trained: bool) -> Block | None:
    """The coefficients for a kind, or those of the nearest way in which it was traced; None where the kind was not.

    16-bit weights keep the same with and without autocast, and a base that is trained keeps at least what a frozen one does.
    """
    ways = ((sixteen_bit_weights, autocast, trained), (sixteen_bit_weights, True, trained))
    for sixteen, cast, train in (*ways, *((one, two, True) for one, two, _ in ways)):
        if block := _blocks().get((kind, sixteen, cast, train)):
            return block
    return None


@cache
def _blocks() -> Mapping[tuple[str, bool, bool, bool], Block]:
    with _TABLE.open(encoding="utf-8", newline="") as file:
        return {
            (row["kind"], row["weights"] == "float16", row["autocast"] == "yes", row["trained"] == "yes"): _block(row)
            for row in csv.DictReader(file)
        }


def _block(row: dict[str, str]) -> Block:
    """A width that is bound to the hidden one has no coefficient of its own."""
    numbers = {name: float(row.get(name) or 0) for name in Block.__slots__ if name != "kind"}
    return Block(kind=row["kind"], **numbers)
