"""`-i`: each fix with a question, in a real terminal."""

from __future__ import annotations

import os
import select
import sys
import time
from pathlib import Path

import pytest

from t4lint import cli

pty = pytest.importorskip("pty", reason="pseudo-terminals are not there")

ROOT = Path(__file__).resolve().parents[1]
TEXT = """\
from transformers import Trainer, TrainingArguments
Trainer(args=TrainingArguments("a", fp16=True, tf32=True)).train()
Trainer(args=TrainingArguments("b", fp16=True, tf32=True)).train()
Trainer(args=TrainingArguments("c", fp16=True, dataloader_pin_memory=False)).train()
"""
LINES = TEXT.splitlines()


def answered(folder: Path, answers: list[str], *flags: str) -> tuple[int, str]:
    """The exit code and the screen of `t4lint -i`, with an answer for each question."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "100"}
        os.execve(sys.executable, [sys.executable, "-m", "t4lint", ".", "-i", *flags], environment)
    screen, left, deadline = "", list(answers), time.monotonic() + 120
    try:
        while time.monotonic() < deadline:
            if not select.select([terminal], [], [], 1)[0]:
                continue
            data = os.read(terminal, 65536)
            if not data:
                break
            screen += data.decode()
            while left and screen.count("[y,n,a,d,i,q,?] ") > len(answers) - len(left):
                os.write(terminal, left.pop(0).encode() + b"\n")
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), screen


@pytest.fixture
def train(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text(TEXT)
    return file


def test_yes_no_and_ignore(train: Path) -> None:
    code, screen = answered(train.parent, ["y", "?", "i", "n"])
    after = train.read_text().splitlines()
    assert after[1] == LINES[1].replace(", tf32=True", "")
    assert after[2] == LINES[2] + "  # t4lint: ignore[training-arguments-tf32]"
    assert after[3] == LINES[3]
    assert code == 1 and "pin-memory-disabled" in screen
    assert "-Trainer" in screen and "+Trainer" in screen and "fix this and every other finding of its rule" in screen
    assert "Fixed 1 finding in 1 file" in screen


def test_all_of_a_rule_and_stop(train: Path) -> None:
    _, screen = answered(train.parent, ["a", "q"])
    assert train.read_text().splitlines() == [it.replace(", tf32=True", "") for it in LINES]
    assert screen.count("[y,n,a,d,i,q,?] ") == 2


def test_none_of_a_rule(train: Path) -> None:
    answered(train.parent, ["d", "y"])
    assert train.read_text() == TEXT.replace("dataloader_pin_memory=False", "dataloader_pin_memory=True")


def test_stopping_at_once_writes_nothing(train: Path) -> None:
    before = train.stat()
    answered(train.parent, ["q"])
    assert train.read_text() == TEXT and train.stat().st_mtime_ns == before.st_mtime_ns


def test_without_a_terminal(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([str(train), "-i"]) == 2
    assert "-i asks questions, and stdin is no terminal" in capsys.readouterr().err
