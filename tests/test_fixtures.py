"""Every fixture is linted, and what is found must be what its marks say; those that run are run.

A fixture is a program `bad_*.py` or `good_*.py`, or a folder of that name, under `fixtures/<rule>/`. A line that ends in
`# expect: rule-name` must have that finding, and no other line may have any; `# expect: rule-name at ds.json:4` stands for a
line of a file that takes no comments. The rules on by default run, the folder's
own where it is off by default, and those of a line `# extend-select: rule-name`. `# target: NAME` names another target
than `t4`. `# runs: python` on the first line says that the program runs on a CPU with torch alone.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from t4lint.engine import Options, check, rules, select

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
# in a notebook the line is a JSON string
MARK = re.compile(r'#\s*expect:\s*([a-z0-9-]+(?:\s*,\s*[a-z0-9-]+)*)\s*(?:\\n)?(?:",?)?$')
ELSEWHERE = re.compile(r"#\s*expect:\s*([a-z0-9-]+) at (\S+):(\d+)\s*$")
TARGET = re.compile(r"^#\s*target:\s*(\S+)$", re.MULTILINE)
EXTENDED = re.compile(r"^#\s*extend-select:\s*(\S+)$", re.MULTILINE)
EXPECTATIONS = "expect.json"  # of files that take no comments: {"ds.json": {"3": "rule-name"}}
RUNS = "# runs: python"
PROGRAMS = sorted(
    path for path in FIXTURES.glob("*/*") if path.name.startswith(("bad_", "good_")) and ".fixed" not in path.name
)
NAMES = [f"{path.parent.name}/{path.name}" for path in PROGRAMS]
OFF = {rule.name for rule in rules() if not rule.default}

Place = tuple[str, int, str]


def files_of(program: Path) -> list[Path]:
    return [program] if program.is_file() else sorted(path for path in program.rglob("*") if path.is_file())


def expected(program: Path) -> set[Place]:
    places = set()
    base = program.parent if program.is_file() else program
    for file in files_of(program):
        if file.name == EXPECTATIONS:
            listed = json.loads(file.read_text(encoding="utf-8"))
            places |= {(name, int(line), rule) for name, lines in listed.items() for line, rule in lines.items()}
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if found := MARK.search(line):
                name = file.relative_to(base).as_posix()
                places |= {(name, number, rule.strip()) for rule in found[1].split(",")}
            if found := ELSEWHERE.search(line):
                places.add((found[2], int(found[3]), found[1]))
    return places


def target(program: Path) -> str:
    found = [TARGET.search(file.read_text(encoding="utf-8")) for file in files_of(program)]
    return next((match[1] for match in found if match), "t4")


def extended(program: Path) -> tuple[str, ...]:
    named = [name for file in files_of(program) for name in EXTENDED.findall(file.read_text(encoding="utf-8"))]
    return (*named, *({program.parent.name} & OFF))


def copied(program: Path, folder: Path) -> Path:
    """Alone in a folder, so that no other fixture is part of the project."""
    if program.is_file():
        shutil.copy(program, folder / program.name)
    else:
        shutil.copytree(program, folder, dirs_exist_ok=True)
    return folder


@pytest.mark.parametrize("program", PROGRAMS, ids=NAMES)
def test_findings(program: Path, tmp_path: Path) -> None:
    options = Options(target=target(program), cwd=tmp_path, min_confidence="likely", extend_select=extended(program))
    report = check([copied(program, tmp_path)], options)
    assert not report.problems, report.problems
    found = {
        (finding.location.path, finding.location.line, finding.rule): finding.message for finding in report.findings
    }
    marks = expected(program)
    missing = [f"missing     {path}:{line}  {rule}" for path, line, rule in sorted(marks - found.keys())]
    surplus = [
        f"unexpected  {path}:{line}  {rule}: {found[path, line, rule]}"
        for path, line, rule in sorted(found.keys() - marks)
    ]
    if missing or surplus:
        pytest.fail("\n".join([str(program.relative_to(FIXTURES)), *missing, *surplus]), pytrace=False)


def test_rules_that_are_off_stay_silent_unless_named() -> None:
    silent = {rule for program in PROGRAMS if program.parent.name in OFF for _, _, rule in expected(program)}
    assert silent <= OFF
    assert not OFF & {rule.name for rule in select(())}
    assert {rule.name for rule in select((), extend=tuple(OFF))} >= OFF


@pytest.mark.parametrize("program", PROGRAMS, ids=NAMES)
def test_marks(program: Path) -> None:
    rules = {rule for _, _, rule in expected(program)}
    if program.name.startswith("bad_"):
        assert rules == {program.parent.name}
    else:
        assert not rules


@pytest.mark.heavy
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_fixtures_that_run(tmp_path: Path) -> None:
    """All in one go: torch is imported once, and each program runs in a fork of that process."""
    programs = [path for path in PROGRAMS if path.is_file() and path.read_text(encoding="utf-8").startswith(RUNS)]
    assert programs
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, *map(str, programs)],
        capture_output=True, text=True, timeout=600, cwd=tmp_path, check=False,
    )  # fmt: skip
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    assert done.returncode == 0, done.stderr
    assert not failed, "\n".join(failed) + "\n" + done.stderr


RUNNER = """
import os, runpy, signal, sys, traceback, warnings
import torch
warnings.simplefilter("ignore")
for path in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        sys.argv = [path]
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            runpy.run_path(path, run_name="__main__")
            code = 0
        except BaseException:
            traceback.print_exc()
            code = 1
        os._exit(code)
    if os.waitpid(child, 0)[1] != 0:
        print("FAILED", path, flush=True)
"""
