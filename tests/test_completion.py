"""Completion, in real shells where they are installed."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from t4lint.cli import COMMANDS, main
from t4lint.completion import with_command

ROOT = Path(__file__).resolve().parents[1]
# Each line on stdin is completed, and the answers end with a line of dashes.
BASH = """
eval "$(t4lint completion bash)"
while IFS= read -r line; do
    COMP_LINE="$line"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9
    COMP_WORDS=($line); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _python_argcomplete t4lint "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf '%s\\n' "${COMPREPLY[@]}" ----
done
"""
FISH = """
t4lint completion fish | source
while read -l line
    complete -C "$line"
    echo ----
end
"""
ZSH = """\
PS1='>'; autoload -Uz compinit; compinit -u -D; eval "$(t4lint completion zsh)"; echo rea''dy
"""
SECONDS = 60  # that a shell may take for an answer


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A `t4lint` on the PATH."""
    folder = tmp_path_factory.mktemp("bin")
    command = folder / "t4lint"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m t4lint "$@"\n')
    command.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(folder), "TERM": "dumb"}


def shell(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


CASES = [
    ("t4lint ver", {"verify"}),
    ("t4lint check --uns", {"--unsafe-fixes"}),
    ("t4lint train.py --stat", {"--statistics"}),
    ("t4lint --min-conf", {"--min-confidence"}),
    ("t4lint check --min-confidence l", {"likely"}),
    ("t4lint explain bf16-gu", {"bf16-guard-always-true"}),
    ("t4lint check --target cola", {"colab"}),
    ("t4lint fit --target g4dn.12", {"g4dn.12xlarge"}),
    ("t4lint check --select quanti", {"quantization"}),
    ("t4lint check --select bf16-auto,quanti", {"bf16-auto,quantization"}),
    ("t4lint check --output-format sa", {"sarif"}),
    ("t4lint verify --device ph", {"phantom"}),
    ("t4lint completion f", {"fish"}),
    ("t4lint check tra", {"train.py"}),
]


@pytest.mark.parametrize(("name", "script"), [("bash", BASH), pytest.param("fish", FISH, marks=pytest.mark.heavy)])
def test_a_real_shell(name: str, script: str, environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    lines = "".join(f"{line}\n" for line, _ in CASES)
    done = subprocess.run(
        [shell(name), "-c", script], input=lines, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    answers = [{it.split("\t")[0].strip() for it in part.splitlines()} for part in done.stdout.split("----\n")]
    assert [line for (line, words), found in zip(CASES, answers, strict=False) if not words <= found] == [], done
    assert len(answers) == len(CASES) + 1


@pytest.mark.heavy
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_real_zsh(environ: dict[str, str], tmp_path: Path) -> None:
    """zsh completes only in its line editor, and that wants a terminal."""
    import pty

    program = shell("zsh")
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.execve(program, ["zsh", "-f", "-i"], environ)
    try:
        os.write(terminal, ZSH.encode())
        assert "ready" in until("ready\r\n", terminal)
        os.write(terminal, b"t4lint explain bf16-gu\t")
        assert "bf16-guard-always-true" in until("bf16-guard-always-true", terminal)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


def until(word: str, terminal: int) -> str:
    """What a terminal shows, until it has shown a word or a minute is over."""
    shown, end = "", time.monotonic() + SECONDS
    while word not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 4096).decode("utf-8", "replace")
    return shown


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_script_names_the_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", name]) == 0
    assert "t4lint" in capsys.readouterr().out


def test_an_unknown_shell_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "csh"]) == 2
    assert "bash" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("t4lint train.py --fi", "t4lint check train.py --fi"),
        ("t4lint --fi", "t4lint check --fi"),
        ("t4lint che", "t4lint che"),
        ("t4lint ", "t4lint "),
        ("t4lint fit --mod", "t4lint fit --mod"),
        ("t4lint src/", "t4lint check src/"),
        ("t4lint --version ", "t4lint --version "),
    ],
)
def test_check_is_meant_where_no_command_stands(line: str, meant: str) -> None:
    assert with_command(line, len(line), COMMANDS) == (meant, str(len(meant)))
