"""Places in files, and where a value came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

How = Literal[
    "literal",  # written in the code at `location`
    "default",  # the default of a parameter, field or library argument
    "flag",  # given on a command line
    "key",  # a key of a configuration file
    "environment",  # an environment variable
    "target",  # what the target GPU or instance answers
    "version",  # follows from the version of a library
    "derived",  # computed from other values
    "observed",  # seen by the recorder in a run
]


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A span of a file.

    `path` is relative to the working directory where possible, with `/`. Lines and columns are 1-based; columns count
    Unicode code points; the end is exclusive. In a notebook `line` is the physical line of the .ipynb file, `cell` the
    0-based index over all cells and `cell_line` the 1-based line inside the cell.
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    cell: int | None = None
    cell_line: int | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """One step in the provenance of a value, and so a place where an edit can go.

    `note` is a short phrase for people, e.g. `--bf16 True` or `default of transformers.TrainingArguments.fp16`.
    """

    how: How
    note: str
    location: Location | None = None
