"""`verify --changed`: the commands behind the findings on changed lines, and one report of their runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from t4lint.changed import MOST, commands, merged, verified
from t4lint.cli import main
from t4lint.findings import Finding, Problem, Report, RunInfo, Verdict
from t4lint.record.launch import OF_THE_RUNNER, Limits, child_environment
from t4lint.trace import Location
from tests.test_pull_request import git

ROOT = Path(__file__).resolve().parents[1]


def finding(name: str, runs: tuple[int, ...] = (), verdict: str = "") -> Finding:
    said = Verdict(verdict, "phantom", "certain") if verdict else None  # type: ignore[arg-type]
    return Finding(
        name, "warning", "certain", Location("a.py", 1, 1, 1, 2), "", "", runs=runs, fingerprint=name, verdict=said
    )


def report(*findings: Finding, runs: tuple[str, ...] = (), **more: object) -> Report:
    made = Report("t4", findings, (), tuple(RunInfo("a.py", command) for command in runs), 1)
    return replace(made, **more)  # type: ignore[arg-type]


def test_only_commands_that_stand_for_themselves_are_run() -> None:
    runs = (
        "python a.py",
        "torchrun --nnodes=2 b.py",
        "python c.py --lr $LR",
        "python lesson.ipynb",
        "python a.py",
        "x 'y",
    )
    chosen, said = commands(report(finding("one", (0, 1, 2, 3, 4, 5)), runs=runs))
    assert chosen == [["python", "a.py"], ["lesson.ipynb"]]
    assert len(said) == 3 and "needs several machines: torchrun --nnodes=2 b.py" in said[0]


def test_runs_without_a_finding_are_left_alone() -> None:
    chosen, said = commands(report(finding("one", (1,)), runs=("python a.py", "python b.py")))
    assert (chosen, said) == ([["python", "b.py"]], ())
    assert commands(report())[0] == [] and commands(report(finding("files only")))[1] != ()


def test_at_most_some_are_run() -> None:
    runs = tuple(f"python {number}.py" for number in range(MOST + 2))
    chosen, said = commands(report(finding("one", tuple(range(len(runs)))), runs=runs))
    assert len(chosen) == MOST and len(said) == 2


def test_of_two_verdicts_the_one_that_says_most_stands() -> None:
    checked = report(finding("a", (0,)), finding("b", (0,)), finding("c"), notes=("same",))
    first = report(finding("a", verdict="refuted"), finding("b", verdict="not exercised"), notes=("same", "other"))
    second = report(finding("a", verdict="confirmed"), finding("d", verdict="confirmed"), problems=(Problem("", "x"),))
    made = merged(checked, [first, second])
    said = {it.rule: it.verdict.verdict if it.verdict else None for it in made.findings}
    assert said == {"a": "confirmed", "b": "not exercised", "c": None, "d": "confirmed"}
    assert made.notes == ("same", "other") and made.problems == (Problem("", "x"),)


def test_what_only_a_run_saw_counts_on_changed_lines_only() -> None:
    checked = report(finding("a", (0,)), runs=("python a.py",))
    ran = report(finding("a", verdict="confirmed"), finding("elsewhere", verdict="confirmed"))

    def only(given: Report) -> Report:
        return replace(given, findings=tuple(it for it in given.findings if it.rule == "a"))

    assert [it.rule for it in verified(checked, only, lambda words: ran).findings] == ["a"]


def test_the_files_of_the_runner_are_not_handed_on(tmp_path: Path) -> None:
    given = {**dict.fromkeys(OF_THE_RUNNER, "x"), "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "x", "GITHUB_SHA": "1"}
    for network in (False, True):
        made = child_environment(given, tmp_path, tmp_path, Limits(network=network))
        assert not set(OF_THE_RUNNER) & set(made) and made["GITHUB_SHA"] == "1"


def test_it_needs_a_reference_and_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["verify", "--changed"], ["verify", "--changed", "--diff-base", "main", "--", "python", "a.py"]):
        assert main(words) == 2
        assert "--changed finds the commands itself" in capsys.readouterr().err


SCRIPT = """
import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (x,) in DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=4, pin_memory={pin}):
    model(x.cuda()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.heavy
def test_a_branch_is_verified_on_a_phantom(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    (tmp_path / "train.py").write_text(SCRIPT.format(pin=True))
    (tmp_path / "old.py").write_text(SCRIPT.format(pin=False) + "raise SystemExit('never run')\n")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "-m", "main")
    git(tmp_path, "checkout", "--quiet", "-b", "feature")
    (tmp_path / "train.py").write_text(SCRIPT.format(pin=False))
    called = [sys.executable, "-m", "t4lint", "verify", "--changed", "--diff-base", "main", "--device", "phantom"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        [*called, "--output-format", "json"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    made = json.loads(done.stdout)
    assert done.stderr.count("verify runs your command") == 1, done.stderr
    assert [(it["path"], it["rule"], it["verdict"]["verdict"]) for it in made["findings"]] == [
        ("train.py", "pin-memory-disabled", "confirmed")
    ], done.stderr
