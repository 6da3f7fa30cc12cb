"""Read a journal. What a program wrote is checked here; lines that are cut off or foreign are counted and skipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError


class Record(BaseModel):
    """One line, schema version 1. `u` are the user's frames, innermost first, as (path below the root, line)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: Literal[1]
    k: str
    t: float
    pid: int
    rank: int | None = None
    st: int = 0
    mi: int = 0
    ph: str = "setup"
    n: int = 1
    u: tuple[tuple[str, int], ...] = ()
    e: str = ""
    lib: tuple[str, int] | None = None
    d: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Journal:
    """The records in order, and how many lines could not be read."""

    records: tuple[Record, ...]
    corrupt: int = 0


def read(path: Path) -> Journal:
    """Read a journal file; one that is not there is empty."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return Journal(())
    records: list[Record] = []
    corrupt = 0
    for line in lines:
        try:
            records.append(Record.model_validate_json(line))
        except ValidationError:
            corrupt += 1
    return Journal(tuple(sorted(records, key=lambda record: record.t)), corrupt)
