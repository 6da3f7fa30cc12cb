"""A launch that asks for no process at all: a launcher refuses it, and nothing is divided by it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from t4lint.engine import Options, check
from t4lint.fit import fit

FIXTURE = Path(__file__).parent.parent / "fixtures" / "zero3-where-zero2-fits" / "bad_two_nodes"


@pytest.mark.parametrize("digit", ["0", "-1"])
def test_no_processes(digit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("T4LINT_DEBUG", "1")
    shutil.copytree(FIXTURE, tmp_path / "run")
    script = tmp_path / "run" / "run.sh"
    before = script.read_text(encoding="utf-8")
    options = Options(cwd=tmp_path)
    assert "zero3-where-zero2-fits" in {it.rule for it in check([tmp_path], options).findings}
    for flag in ("--nnodes", "--nproc_per_node"):
        fewer = re.sub(rf"{flag}=\d+", f"{flag}={digit}", before)
        assert fewer != before
        script.write_text(fewer, encoding="utf-8")
        assert not check([tmp_path], options).problems
        fit([tmp_path], options)
