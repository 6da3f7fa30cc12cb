"""The tools that t4lint is measured against, each pinned, each in an environment of its own.

python -m benchmarks.tools FOLDER      makes the environments below FOLDER, and says which do not install
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple


class Tool(NamedTuple):
    """`command` is what is run before the paths, in its environment; `packages` are what pip installs there."""

    name: str
    packages: tuple[str, ...]
    command: tuple[str, ...]
    libcst: bool = False  # does it walk libcst trees, as t4lint does?


# TorchFix and flake8: only TorchFix's own checks. semgrep: one rule of the same kind as t4lint's, from a file, no network.
TOOLS = (
    Tool("TorchFix", ("torchfix==0.7.0", "setuptools<81"), ("torchfix", "--select", "ALL"), libcst=True),
    Tool("Fixit", ("fixit==2.2.1",), ("fixit", "lint"), libcst=True),
    Tool("torch-preflight", ("torch-preflight==0.5.0",), ("torch-preflight",), libcst=True),
    Tool("pylint", ("pylint==4.1.4",), ("pylint", "--persistent=n", "-j1")),
    Tool("flake8", ("flake8==7.5.0",), ("flake8", "-j1")),
    Tool("ruff", ("ruff==0.17.6",), ("ruff", "check")),
    Tool("semgrep", ("semgrep==1.185.0",), ("semgrep", "scan", "--metrics=off", "--disable-version-check", "-j1", "--config")),
)  # fmt: skip
SEMGREP_RULE = """\
rules:
  - id: bf16-argument
    languages: [python]
    severity: WARNING
    message: bf16 is asked for
    pattern: $F(..., bf16=True, ...)
"""
INSTALL_SECONDS = 900


def environment(folder: Path, tool: Tool) -> Path:
    return folder / f"{tool.name.lower()}-{tool.packages[0].partition('==')[2]}"


def install(folder: Path, tool: Tool) -> str:
    """Make the environment of a tool unless it is there; what went wrong, or nothing."""
    place = environment(folder, tool)
    if (place / "installed").is_file():
        return ""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True, capture_output=True)
        pip = [
            str(place / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            *tool.packages,
        ]
        done = subprocess.run(pip, check=False, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{type(error).__name__}: {error}"
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["pip failed"])[-1]
    (place / "installed").write_text("")
    return ""


def command(folder: Path, tool: Tool) -> list[str]:
    """The command line of a tool, before the paths."""
    words = [str(environment(folder, tool) / "bin" / tool.command[0]), *tool.command[1:]]
    if tool.name == "semgrep":
        rule = folder / "semgrep.yaml"
        rule.write_text(SEMGREP_RULE, encoding="utf-8")
        words.append(str(rule))
    return words


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__)
        return 2
    for tool in TOOLS:
        failed = install(Path(arguments[0]), tool)
        print(f"{tool.packages[0]}: {failed or 'installed'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
