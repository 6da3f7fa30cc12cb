"""Hold what the interpreter predicts of real scripts against what the recorder sees of them.

    python scripts/differential.py FOLDER_OR_FILE... [--commands FILE] [--timeout SECONDS] [--only WORD]

Looks in each folder for scripts that train, runs each (in a sandbox, offline, on the CPU, three optimizer steps) and
compares those that reach a step or a backward. `--commands` names a file with one line a script, `PATH ARGUMENTS`, for
scripts that need arguments (scripts/differential.txt has those of public repositories); PATH is matched against the end
of a script's path, and where a `{}` is among the arguments it stands for the script
(`ddp.py -m torch.distributed.run --nproc_per_node 2 {}`). Exits with 1 where the two witnesses disagree.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from t4lint.devices import find_target
from t4lint.findings import Problem
from t4lint.interpret.project import Project
from t4lint.interpret.run import interpret
from t4lint.interpret.worlds import Worlds
from t4lint.record.compare import KINDS, Comparison, compare
from t4lint.record.launch import Recording, project_root, record
from t4lint.record.observe import trace_of
from t4lint.sources.document import Document
from t4lint.sources.shell import launches
from t4lint.trace import Backward, Step, Trace

LIBRARIES = ("torch", "transformers", "trl", "accelerate", "peft", "lightning")
TRAINS = re.compile(r"\.backward\(|\bTrainer\(|\.step\(\)")
PROGRAM = re.compile(r"^if __name__\s*==|^(?:for|while|with) |^\w[\w.]*\(", re.MULTILINE)


NOTHING = Comparison(0, ())


@dataclass(frozen=True)
class Result:
    """One script. `why` says why it was not compared."""

    script: Path
    why: str = ""
    comparison: Comparison = NOTHING


def scripts(paths: Sequence[Path]) -> Iterator[Path]:
    """Files that were named, and in folders those that look like programs that train."""
    for path in paths:
        if path.is_file():
            yield path
            continue
        for file in sorted(path.rglob("*.py")):
            text = file.read_text(encoding="utf-8", errors="replace")
            if TRAINS.search(text) and PROGRAM.search(text) and not file.name.startswith("test_"):
                yield file


def arguments_of(script: Path, commands: dict[str, list[str]]) -> list[str]:
    """What the script is to be given: the longest path of the file of commands that its own ends with."""
    named = [name for name in commands if script.as_posix().endswith("/" + name)]
    return commands[max(named, key=len)] if named else []


def predicted(argv: list[str], script: Path) -> list[Trace] | str:
    """The worlds that the interpreter sees for exactly this command."""
    versions = {name: version for name in LIBRARIES if (version := _version(name))}
    document = Document("<command line>", script.parent / "<command line>", "shell", shlex.join(argv) + "\n")
    launch = next((found for found in launches(document, script.parent) if found.file is not None), None)
    project = Project(project_root(script.parent, argv), script.parent)
    result = interpret(project, script, find_target("cpu"), versions, launch)
    if isinstance(result, Problem):
        return result.message
    return Worlds(result.machine, result.segments[0], {}, launched=True).traces(KINDS)


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def check(script: Path, arguments: list[str], timeout: float) -> Result:
    """Record and compare one script."""
    if "{}" in arguments:
        argv = [sys.executable, *(script.name if word == "{}" else word for word in arguments)]
    else:
        argv = [sys.executable, script.name, *arguments]
    recording = record(argv, cwd=script.parent, steps=3, timeout=timeout)
    observed = trace_of(recording, find_target("cpu"))
    if not any(isinstance(event, (Step, Backward)) for event in observed.events):
        return Result(script, f"no step: {_how(recording)}")
    worlds = predicted(argv, script)
    if isinstance(worlds, str):
        return Result(script, worlds)
    whole = recording.outcome.how == "finished"
    return Result(script, "", compare(worlds, observed, whole=whole))


def _how(recording: Recording) -> str:
    outcome = recording.outcome
    return f"{outcome.how}: {outcome.detail}"[:160]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--commands", type=Path)
    parser.add_argument("--timeout", type=float, default=60.0)
    parser.add_argument("--only", default="", help="only scripts whose path holds this")
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    commands = _commands(args.commands)
    results = []
    for script in scripts([path.resolve() for path in args.paths]):
        if args.only in script.as_posix():
            result = check(script, arguments_of(script, commands), args.timeout)
            results.append(result)
            print("\n".join(_lines(result)), flush=True)
    compared = [result.comparison for result in results if not result.why]
    wrong = sum(len(one.disagreements) for one in compared)
    facts = sum(one.facts for one in compared)
    print(
        f"{len(compared)} of {len(results)} scripts reached a step or a backward; {facts} facts compared, {wrong} disagreements"
    )
    return 1 if wrong else 0


def _commands(file: Path | None) -> dict[str, list[str]]:
    lines = file.read_text(encoding="utf-8").splitlines() if file else []
    words = [shlex.split(line, comments=True) for line in lines]
    return {line[0]: line[1:] for line in words if line}


def _lines(result: Result) -> Iterator[str]:
    if result.why:
        yield f"-- {result.script}: {result.why}"
        return
    yield f"{'XX' if result.comparison.disagreements else 'ok'} {result.script}: {result.comparison.facts} facts"
    for disagreement in result.comparison.disagreements:
        yield f"     {disagreement}"


if __name__ == "__main__":
    sys.exit(main())
