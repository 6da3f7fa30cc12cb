"""Installs a wheel into a new environment and tries it far from the checkout: what a person gets from `pip install t4lint`.

scripts/try_wheel.py dist      the wheel in that folder
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TRAIN = """\
from transformers import Trainer, TrainingArguments
args = TrainingArguments("out", fp16=True, tf32=True)
Trainer(args=args).train()
"""
RULE = "training-arguments-tf32"


def main(folder: Path) -> None:
    """Raise AssertionError, or CalledProcessError, when something is not as it should be."""
    (wheel,) = sorted(folder.glob("t4lint-*.whl"))
    with tempfile.TemporaryDirectory() as name:
        place = Path(name).resolve()
        installed = Installed(place)
        installed.pip("install", str(wheel.resolve()))
        installed.works(version=wheel.name.split("-")[1])


class Installed:
    """An environment with t4lint, and a folder to work in."""

    def __init__(self, place: Path) -> None:
        venv.create(place / "venv", with_pip=True)
        self.bin = place / "venv" / ("Scripts" if os.name == "nt" else "bin")
        self.work = place / "work"
        self.work.mkdir()
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "GITHUB_", "T4LINT"))
        }
        self.environment = {**kept, "PYTHONUTF8": "1"}

    def pip(self, *arguments: str) -> None:
        command = [str(self.bin / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
        subprocess.run(command, cwd=self.work, env=self.environment, check=True)

    def t4lint(self, *arguments: str, code: int = 0) -> str:
        """What a command prints; it must end with that code."""
        command = [str(self.bin / "t4lint"), *arguments]
        done = subprocess.run(
            command, cwd=self.work, env=self.environment, capture_output=True, text=True, encoding="utf-8", check=False
        )
        assert done.returncode == code, f"{arguments} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def works(self, version: str) -> None:
        """What t4lint is for, once through."""
        assert self.t4lint("--version") == f"t4lint {version}\n"
        rules = self.json("rules", "--output-format", "json")["rules"]
        shipped = [it for it in (ROOT / "rules").glob("*/*.py") if not it.name.startswith("_")]
        assert len(rules) == len(shipped), f"{len(rules)} rules of {len(shipped)}"
        assert self.json("settings", "--schema")["title"] == "t4lint"
        assert "t4" in self.t4lint("targets")
        train = self.work / "train.py"
        train.write_text(TRAIN, encoding="utf-8")
        (finding,) = self.json(".", "--output-format", "json", code=1)["findings"]
        assert (finding["rule"], finding["line"]) == (RULE, 2), finding
        assert "## Sources" in self.t4lint("explain", RULE)
        self.t4lint(".", "--fix")
        assert train.read_text(encoding="utf-8") == TRAIN.replace(", tf32=True", "")
        listed = subprocess.run(
            [str(self.bin / "python"), "-m", "pip", "list", "--format=json"],
            env=self.environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        names = {it["name"].lower() for it in json.loads(listed.stdout)}
        assert not names & {"torch", "transformers"}, "t4lint must not pull in what it lints"

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self.t4lint(*arguments, code=code))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist"))
    print("the wheel works")
