"""A file that was read: its text, and how positions in it are named."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from t4lint.sources.positions import PositionMap
from t4lint.trace import NOT_SAID, Location, Value

Kind = Literal["python", "shell"]
UNKNOWN_TEXT = "\ufffd"  # stands in a text for a part of it that is not known
FILLED_IN_EARLY = "filled in by the batch script, where it is 0"  # of a word that has a text all the same


@dataclass(frozen=True, slots=True)
class Document:
    """A text file. `path` is how people see it: relative to the working directory where possible, with `/`.

    `text` has its line endings as in the file and no byte order mark. `positions` is set where the text was put together
    from parts of the file (a notebook's cells): its places are those of the map, not those of the text.
    """

    path: str
    file: Path
    kind: Kind
    text: str
    positions: PositionMap | None = None


@dataclass(frozen=True, slots=True)
class Container:
    """What the container of a command gives it.

    `shared_memory`: the size of /dev/shm in bytes, or "host"; `network`: "host", "bridge" (ports are published one by one)
    or "flat" (containers reach each other); `ports`: those published, as a tuple of numbers.
    """

    shared_memory: Value
    network: Value
    ports: Value


@dataclass(frozen=True, slots=True)
class ShellFragment:
    """Shell commands that stand inside a file of another kind, as a script of their own with exact places.

    `file` is the file that they stand in, whose folder paths are relative to.
    """

    path: str
    file: Path
    positions: PositionMap
    in_container: bool = False
    container: Container | None = None
    pods: Value = NOT_SAID  # how many pods of a job run the commands, or are workers of its `mpirun`
    slots: Value = NOT_SAID  # processes in each of them that an MPI job allows
    gpus: Value = NOT_SAID  # 0 where the container or the job hands none over
    files: tuple[Document, ...] = ()  # that the file holds and mounts: the programs of a ConfigMap

    @property
    def text(self) -> str:
        """The commands, with what is in force before them (exports, `cd`) written out above."""
        return self.positions.text


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command line after expansion; `text` is None where it cannot be known, `why` says why.

    `note` is how provenance shows it, e.g. `--bf16 True`.
    """

    text: str | None
    location: Location
    why: str = ""


@dataclass(frozen=True, slots=True)
class LaunchCommand:
    """One command that starts a Python training script.

    `launcher`: python, torchrun, accelerate, deepspeed, torch.distributed.launch. `script` is the script as written,
    `file` the file it resolves to (None when it is not there), `module` is set for `-m`. `arguments` are the script's own.
    `environment` holds exported and prefixed variables in force at the command. `launcher_flags` maps a launcher's own
    flags (without dashes, `-` as `_`) to their words; a bare switch has the text "true".
    """

    where: Location
    launcher: str
    script: str
    file: Path | None
    arguments: tuple[Word, ...]
    environment: dict[str, Word]
    launcher_flags: dict[str, Word]
    nodes: Value
    processes_per_node: Value
    text: str
    in_container: bool = False
    container: Container | None = None
    tasks_per_node: Value = NOT_SAID  # how often `srun` starts the command on each node
    # Of a command that starts no script of the project: a program of an installed library (`programs.py`), or
    # `module:function` of a console script that the project declares. `file` is a name for it that no file has.
    program: str = ""
    gpus: Value = NOT_SAID  # 0 where the command is surely left without one
    written: tuple[Document, ...] = ()  # files that the script has written before, by heredocs
