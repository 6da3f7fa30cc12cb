"""Model families: the dtype that their checkpoints are stored in, and whether they leave the range of float16.

`families.csv` holds one pattern over checkpoint names a row, first match first, each with its source and the month in
which it was checked: both facts change as models come out. A name is only a sign of what the checkpoint holds, so what
follows from it is only likely; the column `published` names the checkpoints whose own published configuration was read,
in a package or a public repository that prints it. Where it is empty, no such print was found: the dtype is what is commonly
known of the family, and not what a file said. No weights were looked into.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_TABLE = Path(__file__).parent / "families.csv"


@dataclass(frozen=True, slots=True)
class Family:
    """`dtype` is empty where the checkpoints of the family differ; `overflow`: "forward", "backward" or "none".
    `keeps`: modules that transformers keeps in float32 when it loads the family in float16 (`_keep_in_fp32_modules`), empty for none.
    """

    name: str
    dtype: str
    overflow: str
    keeps: str
    source: str
    published: frozenset[str] = frozenset()  # checkpoints, in lower case, whose own configuration says the dtype


@cache
def _rows() -> tuple[tuple[re.Pattern[str], Family], ...]:
    with _TABLE.open(encoding="utf-8", newline="") as file:
        return tuple(
            (
                re.compile(row["pattern"]),
                Family(
                    row["family"],
                    row["dtype"],
                    row["overflow"],
                    row["keeps"],
                    row["source"],
                    frozenset(row["published"].split()),
                ),
            )
            for row in csv.DictReader(file)
        )


@cache
def find_family(checkpoint: str) -> Family | None:
    """The family of a checkpoint by its name; None for names that say nothing."""
    name = checkpoint.strip().lower()
    return next((family for pattern, family in _rows() if pattern.search(name)), None)
