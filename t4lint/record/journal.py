"""Read a journal. What a program wrote is checked here; lines that are cut off or foreign are counted and skipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

# What fields of `d` are, where code that reads them relies on it. A program can write into its journal what it likes.
_TABLES = ("libraries", "components", "ranks", "environment", "arguments")
_NUMBERS = ("limit", "reserved", "allocated", "peak", "segment")
_NEEDED = {"out_of_memory": ("limit", "reserved", "segment")}


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

    @model_validator(mode="after")
    def _is_ours(self) -> Record:
        """Raise ValueError where a field is of another type than the recorder writes."""
        tables = all(isinstance(self.d.get(name, {}), Mapping) for name in _TABLES)
        numbers = all(_is_number(self.d[name]) for name in _NUMBERS if self.d.get(name) is not None)
        if not tables or not numbers or any(self.d.get(name) is None for name in _NEEDED.get(self.k, ())):
            raise ValueError("a field is of another type")
        if any(line < 0 or Path(path).is_absolute() or ".." in Path(path).parts for path, line in self.u):
            raise ValueError("a place is outside of the project")
        if not all(_is_number(it) for it in self.d.get("components", {}).values()):
            raise ValueError("a component is no number")
        return self


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and -1e18 < value < 1e18


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
