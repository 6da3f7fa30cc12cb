"""Programs that do what programs do, and worse: each ends in a whole report, the right code, and an unchanged project."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from t4lint import cli
from t4lint.record import watch

pytestmark = pytest.mark.heavy
pytest.importorskip("torch")

PROGRAM = """
    import os, signal, sys, time
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    START
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    train = DataLoader(data, batch_size=4, num_workers=WORKERS, pin_memory=False)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = 0
    while True:
        for x, y in train:
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            EACH
"""

CHECKPOINTS = """
torch.save(model.state_dict(), "model.pt")
open(os.path.join(os.path.dirname(os.path.abspath(__file__)), f"step{step}.txt"), "w").write("x")
os.remove("config.json")
os.makedirs("runs/now")
"""
SWALLOWS = """
try:
    optimizer.step()
except BaseException as error:
    print("swallowed", type(error).__name__)
"""
FORKS = """
child = os.fork()
if child == 0:
    loss = model(torch.randn(2, 4)).sum()
    loss.backward()
    os._exit(9)
os.waitpid(child, 0)
"""
HANDLERS = """
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, lambda *given: print("not now", flush=True))
signal.signal(signal.SIGALRM, lambda *given: None)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
"""
EATS = "blocks = []\nwhile step == 2:\n    blocks.append(bytearray(32 * 2**20))\n    time.sleep(0.02)"

# what the program does besides, at the start or at each step: how the run ends, t4lint's code, flags, workers
CASES: dict[str, tuple[str, str, str, int, tuple[str, ...], int]] = {
    "writes checkpoints": ("", CHECKPOINTS, "stopped after 1 optimizer steps", 1, ("--steps", "1"), 0),
    "spawns workers": ("", "", "stopped after 3 optimizer steps", 1, (), 2),
    "catches BaseException": ("", SWALLOWS, "stopped after 3 optimizer steps", 1, (), 0),
    "leaves with 0": ("", "if step == 2: os._exit(0)", "the program ran to its end", 1, (), 0),
    "leaves with 7": ("", "if step == 2: os._exit(7)", "exit code 7", 2, (), 0),
    "forks": ("", FORKS, "stopped after 3 optimizer steps", 1, (), 0),
    "sets signal handlers": (HANDLERS, "", "stopped after 3 optimizer steps", 1, (), 0),
    "runs forever": (HANDLERS, "while step == 2: pass", "longer than 12 s", 2, ("--timeout", "12"), 0),
    "eats memory": ("", EATS, "it took more than 0.8 GiB of memory", 2, ("--memory-limit", "0.8"), 0),
    "prints a million lines": (
        "", "if step == 2:\n    for i in range(1_000_000): print('line', i)", "stopped after 3 optimizer steps", 1, (), 0,
    ),
    "kill -9": ("", "if step == 2: os.kill(os.getpid(), 9)", "a process was killed", 2, (), 0),
}  # fmt: skip


def put(text: str, at: str, program: str) -> str:
    """`text` in the place of `at`, as deep."""
    line = next(line for line in program.splitlines() if line.strip() == at)
    indent = line[: len(line) - len(line.lstrip())]
    return program.replace(line, textwrap.indent(text.strip() or "pass", indent))


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def left_over(mark: str) -> list[int]:
    found = []
    for pid in watch._pids():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if mark.encode() in environment:
            found.append(pid)
    return found


@pytest.mark.parametrize("name", CASES)
def test_it_ends_in_a_report(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start, each, ending, code, flags, workers = CASES[name]
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("T4LINT_TEST", str(tmp_path))
    monkeypatch.setattr("t4lint.record.launch.GRACE", 1.0)
    monkeypatch.setattr(watch, "BOUND", 2**20)
    project = tmp_path / "project"
    project.mkdir()
    text = put(each, "EACH", put(start, "START", textwrap.dedent(PROGRAM).lstrip()))
    (project / "train.py").write_text(text.replace("WORKERS", str(workers)))
    (project / "config.json").write_text("{}")
    (project / "pyproject.toml").write_text("")
    before = tree(tmp_path)
    monkeypatch.chdir(project)
    began = time.monotonic()
    given = cli.main(["verify", *flags, "--output-format", "json", "--", sys.executable, "train.py"])
    said = capsys.readouterr()
    assert given == code, said.err
    assert time.monotonic() - began < 120
    line = next(line for line in said.err.splitlines() if line.startswith("  ended "))
    assert ending in line, line
    report: dict[str, Any] = json.loads(said.out)
    verdicts = {one["verdict"]["verdict"] for one in report["findings"] if one["rule"] == "pin-memory-disabled"}
    assert verdicts == {"confirmed"}, report["findings"]
    assert tree(tmp_path) == before
    time.sleep(0.2)
    assert not [pid for pid in left_over(f"T4LINT_TEST={tmp_path}") if Path(f"/proc/{pid}").exists()]
