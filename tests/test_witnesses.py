"""The strongest test there is: what the interpreter claims to know of a program must be what the recorder saw.

Every fixture that runs on a CPU is interpreted for the target `cpu`, with the installed versions, and recorded there;
`t4lint/record/compare.py` says what must agree. `scripts/differential.py` does the same to real scripts.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import sys
from pathlib import Path

import pytest

from t4lint.devices import find_target
from t4lint.interpret.project import Project
from t4lint.interpret.run import interpret
from t4lint.interpret.worlds import Worlds
from t4lint.record.compare import KINDS, compare
from t4lint.trace import Trace

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
PROGRAMS = sorted(
    path
    for path in FIXTURES.glob("*/*.py")
    if path.read_text(encoding="utf-8").startswith("# runs: python")
    and path.name.startswith(("bad_", "good_"))
    and ".fixed" not in path.name
)


def predicted(program: Path) -> list[Trace]:
    """The worlds that the interpreter sees; the run must be one of them."""
    versions = {name: importlib.metadata.version(name) for name in ("torch", "transformers", "trl", "accelerate")}
    result = interpret(Project(program.parent, program.parent), program, find_target("cpu"), versions)
    assert not hasattr(result, "message"), result
    return Worlds(result.machine, result.segments[0], {}, launched=True).traces(KINDS)  # type: ignore[union-attr]


def observed(program: Path) -> Trace:
    from t4lint.record.launch import record
    from t4lint.record.observe import trace_of

    recording = record([sys.executable, program.name], cwd=program.parent, steps=3, timeout=120)
    assert recording.outcome.how in ("finished", "stopped"), (recording.outcome, recording.stderr)
    return trace_of(recording, find_target("cpu"))


@pytest.mark.heavy
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_two_witnesses_agree(program: Path, tmp_path: Path) -> None:
    copy = tmp_path / program.name
    shutil.copy(program, copy)
    found = compare(predicted(copy), observed(copy))
    if found.disagreements:
        pytest.fail("\n".join([str(program.relative_to(FIXTURES)), *found.disagreements]), pytrace=False)
