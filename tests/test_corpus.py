"""Over published training code interpretation never raises, keeps its budgets and finds the same twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from t4lint.interpret.machine import MAX_EVENTS, MAX_STEPS

SCRIPTS = Path(__file__).parent.parent / "scripts"
FILES_A_PACKAGE = 7
FEWEST = 150  # training files that the property must have been seen on


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus: where T4LINT_CORPUS says, else fetched from the index."""
    place = Path(os.environ.get("T4LINT_CORPUS") or tmp_path_factory.mktemp("corpus"))
    made = subprocess.run([sys.executable, SCRIPTS / "corpus.py", place], capture_output=True, text=True, check=False)
    if made.returncode == 3:
        pytest.skip("the package index cannot be reached, and T4LINT_CORPUS names no corpus")
    assert made.returncode == 0, made.stderr
    return place


def start(folder: Path, seed: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, str(SCRIPTS / "interpret_corpus.py"), str(folder), str(FILES_A_PACKAGE)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def finished(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    output, errors = process.communicate(timeout=900)
    assert process.returncode == 0, errors[-3000:]
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.heavy
def test_published_training_code(folder: Path) -> None:
    first, second = [finished(process) for process in [start(folder, "1"), start(folder, "2")]]
    assert sum(package["files"] for package in first) >= FEWEST
    for package, again in zip(first, second, strict=True):
        assert package["steps"] <= MAX_STEPS + 1
        assert package["events"] <= MAX_EVENTS
        assert not [problem for problem in package["problems"] if "please report" in problem]
        assert package["findings"] == again["findings"], package["package"]
