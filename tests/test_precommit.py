"""The hook as people get it: real pre-commit, a repository of its own for the hook, and a commit that must fail."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy

CHECKOUT = Path(__file__).resolve().parent.parent
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "venv", "build", "dist", "node_modules", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info"
)
TAG = "v0.0.1"

README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
HOME, RELEASE = "https://github.com/t4lint/t4lint", "v0.1.0"


def config(repository: str) -> str:
    """What the README tells a newcomer to write, with this checkout in the place of the project's home."""
    (block,) = re.findall(r"```yaml\n(repos:\n.*?)```", README, re.DOTALL)
    assert HOME in block and RELEASE in block
    written: str = block.replace(HOME, repository).replace(RELEASE, TAG)
    fix = "# - id: t4lint-fix "
    assert fix in written, "the other hook, to be put in the place of the first"
    return written.replace(f"    {fix}", "      - id: t4lint-fix\n        stages: [manual] ")


BAD = """\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("gpt2")
args = TrainingArguments(output_dir="out", bf16=True)
Trainer(model=model, args=args, train_dataset=[]).train()
"""
GOOD = BAD.replace("bf16=True", "fp16=True")
RULE = "bf16-mixed-precision"


class Repository:
    """A git repository that knows nothing of the settings of the person who runs the tests."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        home.mkdir(exist_ok=True)
        person = {f"GIT_{role}_{what}": "t4lint" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PRE_COMMIT"))}
        self.environment = {
            **inherited,
            **person,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "PRE_COMMIT_HOME": str(home),
            "NO_COLOR": "1",
        }
        self.run("git", "init", "--quiet")

    def run(self, *command: str) -> str:
        done = self.attempt(*command)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def attempt(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )

    def commit(self, name: str, text: str) -> subprocess.CompletedProcess[str]:
        """Commit one new file; what an earlier attempt left behind is out of the way."""
        self.run("git", "reset", "--quiet", "--hard")
        (self.folder / name).write_text(text, encoding="utf-8")
        self.run("git", "add", name)
        return self.attempt("git", "commit", "--quiet", "-m", name)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A project that uses the hook, from a tag of this checkout as it is now, committed or not."""
    root = tmp_path_factory.mktemp("pre-commit")
    shutil.copytree(CHECKOUT, root / "hook", ignore=LEFT_OUT)
    hook = Repository(root / "hook", root / "home")
    hook.run("git", "add", "--all")
    hook.run("git", "commit", "--quiet", "-m", "hook")
    hook.run("git", "tag", TAG)

    project = Repository(root / "project", root / "home")
    project_config = project.folder / ".pre-commit-config.yaml"
    project_config.write_text(config(hook.folder.as_posix()), encoding="utf-8")
    project.run("git", "add", project_config.name)
    project.run("git", "commit", "--quiet", "-m", "configuration")
    project.run(sys.executable, "-m", "pre_commit", "install", "--install-hooks")
    return project


def test_a_bad_file_stops_the_commit_and_the_rule_is_named(project: Repository) -> None:
    done = project.commit("bad.py", BAD)
    assert done.returncode != 0, done.stdout
    assert RULE in done.stdout


def test_a_good_file_is_committed(project: Repository) -> None:
    done = project.commit("good.py", GOOD)
    assert done.returncode == 0, done.stdout
    assert "good.py" in project.run("git", "ls-files")


def test_other_files_are_not_looked_at(project: Repository) -> None:
    done = project.commit("notes.txt", BAD)
    assert done.returncode == 0, done.stdout
    assert "Skipped" in done.stdout


def test_a_launch_script_is_looked_at(project: Repository) -> None:
    done = project.commit("run.sh", "#!/bin/bash\npython good.py\n")
    assert "Skipped" not in done.stdout
    assert done.returncode == 0, done.stdout


def test_a_notebook_and_a_configuration_are_looked_at(project: Repository) -> None:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": BAD.splitlines(keepends=True)}
    whole = {"cells": [cell], "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}
    done = project.commit("bad.ipynb", json.dumps(whole, indent=1))
    assert done.returncode != 0 and "bad.ipynb:cell 1:4" in done.stdout, done.stdout
    args = 'TrainingArguments(output_dir="out", fp16=True)'
    reader = GOOD.replace(args, 'HfArgumentParser(TrainingArguments).parse_yaml_file("a.yaml")[0]')
    done = project.commit("reads.py", "from transformers import HfArgumentParser\n" + reader)
    assert done.returncode == 0, done.stdout
    done = project.commit("a.yaml", "output_dir: out\nbf16: true\n")
    assert done.returncode != 0 and f"[{RULE}]" in done.stdout and "a.yaml:2" in done.stdout, done.stdout


def test_the_fixing_hook_fixes(project: Repository) -> None:
    text = GOOD.replace("fp16=True", "fp16=True, tf32=True")
    (project.folder / "train.py").write_text(text)
    project.run("git", "add", "train.py")
    done = project.attempt(
        sys.executable, "-m", "pre_commit", "run", "t4lint-fix", "--hook-stage", "manual", "--files", "train.py"
    )
    assert done.returncode != 0 and "files were modified by this hook" in done.stdout, done.stdout
    assert (project.folder / "train.py").read_text() == GOOD
