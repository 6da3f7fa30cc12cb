"""Arguments by version, from the tables beside the rules of this family."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from t4lint.trace import Call, Trace, Value

ARGUMENTS = frozenset({
    "TrainingArguments", "Seq2SeqTrainingArguments", "SFTConfig", "DPOConfig", "GRPOConfig", "KTOConfig", "RewardConfig",
    "ORPOConfig", "CPOConfig", "BCOConfig", "RLOOConfig", "SentenceTransformerTrainingArguments", "CrossEncoderTrainingArguments",
    "SparseEncoderTrainingArguments",
})  # fmt: skip


class Row(NamedTuple):
    """A line of a table: `takes` names the call, `since` the version that the statement holds from."""

    library: str
    takes: str
    argument: str
    since: str
    replacement: str
    rename: str
    source: str


@cache
def rows(table: str) -> tuple[Row, ...]:
    with Path(__file__).with_name(table).open(encoding="utf-8", newline="") as file:
        return tuple(Row(**line) for line in csv.DictReader(file))


def taken(trace: Trace, table: str) -> Iterator[tuple[Call, Row, Value]]:
    """Each argument of the table that a call gives."""
    for call in trace.all(Call):
        for row in rows(table):
            value = call.arguments.get(row.argument)
            if value is not None and takes(row.library, row.takes, call):
                yield call, row, value


def takes(library: str, what: str, call: Call) -> bool:
    """Is it a call of this kind, of the library itself?"""
    top, last = call.function.partition(".")[0], call.function.rpartition(".")[2]
    if what == "TrainingArguments":
        return top in ("transformers", "trl", "sentence_transformers") and last in ARGUMENTS
    if what == "symbol":
        return top == library and call.role == "symbol"
    if what == "from_pretrained":
        return top == "transformers" and last == "from_pretrained"
    if what == "Trainer" and library == "transformers":
        return call.function in ("transformers.Trainer", "transformers.Seq2SeqTrainer")
    return top == library and last == what


def written(value: Value, argument: str) -> Value | None:
    """The value, where its place is that of the argument's name; None where it only comes from there: the call is to be edited."""
    note = value.origins[0].note if value.origins else ""
    found = re.match(r"""(--|["'])?([\w-]+)""", note)
    return value if found and found[2].replace("-", "_") == argument else None


def named(call: Call) -> str:
    last = call.function.rpartition(".")[2]
    return last if last != "from_pretrained" else ".".join(call.function.split(".")[-2:])
