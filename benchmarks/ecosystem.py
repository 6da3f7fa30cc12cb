"""What a change does to findings in real code: a pinned corpus, checked by the code before and after it.

    python -m benchmarks.ecosystem BASE HEAD [--corpus FOLDER] [--projects N] [--output FILE]

BASE and HEAD are git references; `.` for HEAD is the working tree as it is. Each is checked out into a folder of its own and run
with this Python. The corpus is that of `scripts/corpus.py` (fetched if it is not there), or the folders in FOLDER, each a project.
Prints a table in Markdown, then each finding that came or went. The exit code is 1 when any did.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measuring import Measured, measured

ROOT = Path(__file__).resolve().parent.parent
MAX_LISTED = 100  # findings of one kind that are listed
SECONDS = 900  # of one project


class Found(NamedTuple):
    """What a version of t4lint says about a project. `findings` are sorted; `problem` is set where it could not say it."""

    findings: list[str]
    problems: list[str]
    measured: Measured | None
    problem: str = ""


@contextmanager
def checkout(reference: str) -> Iterator[Path]:
    """The code of a git reference in a folder; the working tree for `.`."""
    if reference == ".":
        yield ROOT
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "checkout"
        git("worktree", "add", "--detach", "--force", str(place), reference)
        try:
            yield place
        finally:
            git("worktree", "remove", "--force", str(place))


def git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def check(code: Path, project: Path) -> Found:
    """The findings of one version in one project, each as a line of text."""
    command = [sys.executable, "-m", "t4lint", ".", "--output-format", "json", "--exit-zero", "--isolated"]
    environment = {**os.environ, "PYTHONPATH": str(code), "T4LINT_NO_CACHE": "1"}
    done = measured(command, cwd=project, environment=environment, seconds=SECONDS)
    try:
        report = json.loads(done.output)
    except ValueError:
        return Found([], [], done.measured, done.errors.strip()[-300:] or f"no report within {SECONDS} s")
    problems = [f"{it['path']}: {it['message']}" for it in report["errors"]]
    return Found(sorted(map(line, report["findings"])), sorted(problems), done.measured)


def line(finding: dict[str, Any]) -> str:
    place = f"{finding['path']}:{finding['line']}:{finding['column']}"
    return f"{place} {finding['severity']}[{finding['rule']}] ({finding['confidence']}) {finding['message']}"


def compared(name: str, before: Found, after: Found) -> tuple[str, list[str], list[str]]:
    """A row of the table, the findings that came and those that went."""
    came = minus(after.findings + after.problems, before.findings + before.problems)
    went = minus(before.findings + before.problems, after.findings + after.problems)
    times = [f"{it.measured.cpu:.1f} s" if it.measured else "" for it in (before, after)]
    counts = [str(len(it.findings)) if not it.problem else "failed" for it in (before, after)]
    return f"| {name} | {counts[0]} | {counts[1]} | +{len(came)} | -{len(went)} | {times[0]} | {times[1]} |", came, went


def minus(some: list[str], others: list[str]) -> list[str]:
    """Those of a list that another does not have, as often as it lacks them."""
    left = list(others)
    return [it for it in some if it not in left or left.remove(it)]  # type: ignore[func-returns-value]


def projects(corpus: Path, most: int | None) -> list[Path]:
    found = [folder for folder in sorted(corpus.iterdir()) if folder.is_dir() and folder.name != "wheels"]
    return found[:most]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ecosystem", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("base")
    parser.add_argument("head")
    parser.add_argument("--corpus", type=Path, default=Path(tempfile.gettempdir()) / "t4lint-corpus")
    parser.add_argument("--projects", type=int)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args(arguments)
    if not args.corpus.is_dir() or not projects(args.corpus, 1):
        fetched = subprocess.run([sys.executable, str(ROOT / "scripts" / "corpus.py"), str(args.corpus)], check=False)
        if fetched.returncode != 0:
            return fetched.returncode
    rows = [
        "| project | findings before | after | new | gone | CPU before | after |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    came: list[str] = []
    went: list[str] = []
    failed = False
    with checkout(args.base) as base, checkout(args.head) as head:
        for project in projects(args.corpus.resolve(), args.projects):
            before, after = check(base, project), check(head, project)
            row, new, gone = compared(project.name, before, after)
            rows.append(row)
            came += [f"+ {project.name}/{it}" for it in new]
            went += [f"- {project.name}/{it}" for it in gone]
            failed = failed or bool(after.problem)
            print(row, file=sys.stderr, flush=True)
            for found in (before, after):
                if found.problem:
                    print(f"  {found.problem}", file=sys.stderr)
    text = "\n".join([*rows, *listed("New", came), *listed("Gone", went)]) + "\n"
    print(text)
    if args.output is not None:
        args.output.write_text(text, encoding="utf-8")
    return 1 if came or went or failed else 0


def listed(title: str, findings: list[str]) -> list[str]:
    if not findings:
        return []
    more = [f"... and {len(findings) - MAX_LISTED} more"] if len(findings) > MAX_LISTED else []
    return ["", f"## {title}", "", "```diff", *findings[:MAX_LISTED], *more, "```"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
