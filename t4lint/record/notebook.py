"""A notebook in the place of a command: run as a script, its cells in order, without the lines that IPython handles."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from t4lint.findings import Problem
from t4lint.sources.notebook import NotebookDocument, read_notebook
from t4lint.sources.positions import PositionMap

RUNNER = Path(__file__).parent / "inside" / "notebook.py"


@dataclass(frozen=True, slots=True)
class Ready:
    """How to run it: the command, where, and where its lines are written."""

    command: list[str]
    folder: Path
    places: Mapping[str, PositionMap] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def is_notebook(argv: Sequence[str]) -> bool:
    """Does the command name a notebook instead of a program?"""
    return bool(argv) and argv[0].endswith(".ipynb")


def ready(argv: Sequence[str], here: Path, root: Path, copy: Path, scratch: Path, python: str) -> Ready | None:
    """What to start for a notebook; None for any other command."""
    if not is_notebook(argv):
        return None
    file = (here / argv[0]).resolve()
    below = file.relative_to(root).as_posix()
    found = read_notebook(file, below)
    if isinstance(found, Problem):
        return Ready([argv[0]], copy)
    folder = (copy / below).parent
    plan = scratch / "notebook.json"
    written = {item.name: item.text for item in found.written}
    plan.write_text(
        json.dumps({"path": str(copy / below), "text": found.text, "written": written, "arguments": list(argv[1:])}),
        encoding="utf-8",
    )
    return Ready([python, str(RUNNER), str(plan)], folder, {below: found.positions}, _notes(found))


def _notes(found: NotebookDocument) -> tuple[str, ...]:
    """What a notebook does that is left out here."""
    notes = [f"{problem.message}" for problem in found.problems]
    if found.shell:
        notes.append(f"shell commands of the notebook were not run: {len(found.shell)}")
    return tuple(notes)
