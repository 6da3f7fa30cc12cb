"""The checks on cost and on findings in real code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import compare, ecosystem, instructions
from benchmarks.measuring import measured
from benchmarks.tools import TOOLS

# Instructions may grow by this much before somebody has to look: new facts cost something, a quadratic loop costs more.
MOST_GROWTH = 1.25


@pytest.mark.heavy
def test_linting_a_fixed_file_takes_no_more_instructions_than_recorded() -> None:
    """After a change that is worth it: `python -m benchmarks.instructions --write`."""
    recorded = instructions.recorded().get(instructions.version())
    if recorded is None:
        pytest.skip(f"nothing is recorded for Python {instructions.version()}")
    assert instructions.count() <= MOST_GROWTH * recorded


def test_instructions_are_counted_alike() -> None:
    def work() -> None:
        sum(number * number for number in range(1000))

    counter = instructions._monitored if hasattr(sys, "monitoring") else instructions._traced
    once = counter(work)
    assert once == counter(work) and 3_000 < once < 30_000


def test_a_command_is_measured_and_stopped(tmp_path: Path) -> None:
    busy = "sum(range(3_000_000)); x = bytearray(50_000_000); print('done')"
    done = measured([sys.executable, "-c", busy], cwd=tmp_path)
    assert done.output == "done\n" and done.code == 0
    assert done.measured is not None and done.measured.cpu > 0 and done.measured.memory > 50_000_000
    assert measured([sys.executable, "-c", "while True: pass"], cwd=tmp_path, seconds=0.5).measured is None


def test_tools_are_pinned() -> None:
    assert all("==" in tool.packages[0] for tool in TOOLS)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    for name, value in (("a-1.0", "True"), ("b-2.0", "False")):
        (tmp_path / "corpus" / name).mkdir(parents=True)
        (tmp_path / "corpus" / name / "pyproject.toml").write_text("[project]\nname = 'x'\n")
        (tmp_path / "corpus" / name / "train.py").write_text(
            f"from transformers import TrainingArguments\nTrainingArguments('out', bf16={value})\n"
        )
    return tmp_path / "corpus"


def test_findings_that_come_and_go(corpus: Path) -> None:
    before = ecosystem.check(ecosystem.ROOT, corpus / "a-1.0")
    after = ecosystem.Found([], ["new.py: does not exist"], before.measured)
    assert [line.split()[1] for line in before.findings] == ["warning[bf16-mixed-precision]"] and not before.problem
    row, came, went = ecosystem.compared("a", before, after)
    assert row.startswith("| a | 1 | 0 | +1 | -1 |")
    assert came == after.problems and went == before.findings
    assert ecosystem.minus(["x", "x", "y"], ["x"]) == ["x", "y"]


@pytest.mark.heavy
def test_the_ecosystem_check_compares_two_commits(corpus: Path, tmp_path: Path) -> None:
    """The last commit against itself: nothing comes, nothing goes."""
    if subprocess.run(
        ["git", "-C", str(ecosystem.ROOT), "rev-parse", "HEAD"], capture_output=True, check=False
    ).returncode:
        pytest.skip("not a git checkout")
    output = tmp_path / "table.md"
    assert ecosystem.main(["HEAD", "HEAD", "--corpus", str(corpus), "--output", str(output)]) == 0
    assert "| a-1.0 | 1 | 1 | +0 | -0 |" in output.read_text() and "## New" not in output.read_text()


def test_the_inputs_of_the_comparison(corpus: Path, tmp_path: Path) -> None:
    body = "".join(f"x{number} = {number}\n" for number in range(470))
    (corpus / "b-2.0" / "own.py").write_text("import train, torch\nloss.backward()\n" + body)
    (corpus / "b-2.0" / "plain.py").write_text("import torch\nloss.backward()\n" + body)
    assert (compare.one_file(corpus, tmp_path) / "train.py").read_text().startswith("import torch")
    grown = compare.first_lines(corpus, 3, tmp_path / "grown")
    assert compare.count(compare.python_files(grown)) == 474
    assert len(compare.python_files(compare.many_files(corpus, tmp_path / "many"))) == 4


def test_parsers_of_the_comparison_run(corpus: Path, tmp_path: Path) -> None:
    bench = compare.Bench(tmp_path, tmp_path, 1)
    for how in compare.PARSE:
        assert bench.parse(how, compare.python_files(corpus), corpus) is not None
