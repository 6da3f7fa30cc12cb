"""A pull request, from a repository with old findings to what GitHub shows: the Action's own step under a runner that has
GitHub's limits.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.test_action import Job

HEAD = "from transformers import Trainer, TrainingArguments\n"
ERROR = 'Trainer(args=TrainingArguments(output_dir="{}", fp16=True, tf32=True)).train()\n'
WARNING = 'Trainer(args=TrainingArguments(output_dir="{}", fp16=True, dataloader_pin_memory=False)).train()\n'
LIMIT = 10  # annotations of a kind that GitHub takes from a step
NEW = 200


def git(folder: Path, *arguments: str) -> str:
    person = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *person, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


class PullRequest(Job):
    """A job for a pull request: a branch from `main`, with both fetched."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.install_fake()
        git(self.workspace, "init", "--quiet", "--initial-branch", "main")
        old = HEAD + "".join(ERROR.format(number) + WARNING.format(number) for number in range(15))
        (self.workspace / "old.py").write_text(old)
        git(self.workspace, "add", "--all")
        git(self.workspace, "commit", "--quiet", "-m", "main")
        git(self.workspace, "update-ref", "refs/remotes/origin/main", "main")
        git(self.workspace, "checkout", "--quiet", "-b", "feature")

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "GITHUB_BASE_REF": "main", "GITHUB_REPOSITORY": "a/b"}

    def commit(self) -> None:
        git(self.workspace, "add", "--all")
        git(self.workspace, "commit", "--quiet", "-m", "change")

    def changed(self) -> set[tuple[str, int]]:
        """The new lines of the branch, as `git blame` tells them."""
        found: set[tuple[str, int]] = set()
        base = git(self.workspace, "rev-parse", "main").strip()
        for file in git(self.workspace, "ls-files").splitlines():
            blamed = git(self.workspace, "blame", "-l", "-s", "--root", "--", file).splitlines()
            found |= {(file, number) for number, line in enumerate(blamed, 1) if line.split()[0].lstrip("^") != base}
        return found


def shown(log: str) -> list[tuple[str, str, int, str]]:
    """What GitHub shows of a log: workflow commands at the start of a line, ten of each level."""
    found: list[tuple[str, str, int, str]] = []
    counts: Counter[str] = Counter()
    for level, properties, _ in re.findall(r"^::(error|warning|notice)(?: ([^:]*))?::(.*)$", log, re.MULTILINE):
        given = dict(it.split("=", 1) for it in properties.split(","))
        counts[level] += 1
        assert counts[level] <= LIMIT, "GitHub would drop this one without a word"
        found.append((level, given.get("file", ""), int(given.get("line", 0)), given["title"]))
    return found


@pytest.fixture
def request_(tmp_path: Path) -> PullRequest:
    made = PullRequest(tmp_path)
    edited = (made.workspace / "old.py").read_text().splitlines(keepends=True)
    edited.insert(20, ERROR.format("new"))
    (made.workspace / "old.py").write_text("".join(edited))
    made.commit()
    return made


def test_only_what_the_branch_changed_is_annotated(request_: PullRequest) -> None:
    done = request_.run("Check", args="--diff-base origin/main")
    assert done.returncode == 1, done.stderr
    assert shown(done.stdout) == [("error", "old.py", 21, "training-arguments-tf32")]


def test_a_branch_that_adds_nothing_passes(request_: PullRequest) -> None:
    git(request_.workspace, "checkout", "--quiet", "-b", "clean", "main")
    (request_.workspace / "fine.py").write_text(HEAD + WARNING.format("a").replace("False", "True"))
    request_.commit()
    done = request_.run("Check", args="--diff-base origin/main")
    assert (done.returncode, shown(done.stdout)) == (0, []), done.stdout


def test_the_changed_lines_come_first_where_everything_is_checked(request_: PullRequest) -> None:
    done = request_.run("Check")
    found = shown(done.stdout)
    assert next(it[1:3] for it in found if it[0] == "error") == ("old.py", 21)
    assert Counter(it[0] for it in found) == {"error": LIMIT, "warning": LIMIT, "notice": 1}


@pytest.mark.heavy
def test_two_hundred_findings(request_: PullRequest, validated: Callable[[Path], list[str]]) -> None:
    files = 4
    for number in range(files):
        lines = [(ERROR if line % 2 else WARNING).format(line) for line in range(NEW // files)]
        (request_.workspace / f"new {number}.py").write_text(HEAD + "".join(lines))
    request_.commit()
    done = request_.run("Check", args="--diff-base origin/main", sarif="true")
    assert done.returncode == 1, done.stderr
    found = shown(done.stdout)
    assert Counter(it[0] for it in found) == {"error": LIMIT, "warning": LIMIT, "notice": 1}
    placed = {it[1:3] for it in found if it[1]}
    assert len(placed) == 2 * LIMIT and placed <= request_.changed()
    left_out = NEW // 2 + 1 - LIMIT, NEW // 2 - LIMIT
    assert f"{left_out[0]} errors, {left_out[1]} warnings more" in done.stdout
    summary = request_.summary.read_text(encoding="utf-8")
    assert len(summary.encode()) < 2**20
    assert summary.count("training-arguments-tf32`") == NEW // 2 + 1 and "pin-memory-disabled" in summary
    file = Path(request_.outputs["check"]["sarif-file"])
    (run,) = json.loads(file.read_text(encoding="utf-8"))["runs"]
    assert len(run["results"]) == NEW + 1
    prints = [it["partialFingerprints"]["t4lint/v1"] for it in run["results"]]
    assert len(set(prints)) == NEW + 1
    assert all(not _uri(it).startswith(("/", "file:")) for it in run["results"])
    assert validated(file) == []
    # Alerts stay the same when lines move.
    moved = request_.workspace / "new 0.py"
    moved.write_text("\n\n# moved\n" + moved.read_text())
    request_.commit()
    request_.run("Check", args="--diff-base origin/main", sarif="true")
    (run,) = json.loads(file.read_text(encoding="utf-8"))["runs"]
    assert sorted(it["partialFingerprints"]["t4lint/v1"] for it in run["results"]) == sorted(prints)


def _uri(result: Any) -> str:
    uri: str = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    return uri


def test_several_outputs_in_one_run(request_: PullRequest) -> None:
    formats = ["json", "jsonl", "sarif", "gitlab", "junit", "rdjson", "markdown", "concise"]
    flags = " ".join(f"--output-format {it}:{request_.temp / it}" for it in formats)
    done = request_.run("Check", args=f"--diff-base origin/main {flags}")
    assert shown(done.stdout)
    for name in formats:
        assert "training-arguments-tf32" in (request_.temp / name).read_text(encoding="utf-8"), name


def test_without_the_action_a_workflow_is_noticed(request_: PullRequest) -> None:
    command = [sys.executable, "-m", "t4lint", "--diff-base", "origin/main"]
    root = Path(__file__).resolve().parent.parent
    environment = {**request_.environment(), "PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=request_.workspace, env=environment, capture_output=True, text=True, check=False)
    assert shown(done.stdout) == [("error", "old.py", 21, "training-arguments-tf32")]
    assert request_.summary.exists()
