"""Fixes in real files: a fault with a known fix is put into other people's modules and taken out again by `--fix`.

The files are those of the libraries that the heavy tests run against, and of the corpus that T4LINT_CORPUS names (see
scripts/corpus.py), if it is there. Each gets the fault of a fixture in the middle or at the end, as it is, with CRLF, or
as a notebook. Afterwards the finding is gone, the file parses, fixing again changes nothing, and no byte has changed but those
that the fixture's own fix changes, and imports.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import pytest

from t4lint.changes import OnlyNew, fix, write
from t4lint.engine import Options, check
from tests.test_fix import RESULTS, is_python, is_unsafe, program_of

pytestmark = pytest.mark.heavy

LIBRARIES = ("transformers", "trl", "accelerate", "peft", "torch")
FILES, SHARDS = 120, 8
LEAST = 100  # in so many of them the fault must have been seen
MOST_LINES = 300  # of a file: each is interpreted several times


class Fault(NamedTuple):
    """A program with a fault, and what its fix makes of it, without the lines that must come first in a file."""

    rule: str
    before: str
    after: str


@cache
def faults() -> list[Fault]:
    found = []
    for result in RESULTS:
        program = program_of(result)
        if program.suffix == ".py":
            before, after = (_body(path.read_text(encoding="utf-8")) for path in (program, result))
            found.append(Fault(program.parent.name, before, after))
    assert any(is_unsafe(program_of(result)) for result in RESULTS)
    return found


def _body(text: str) -> str:
    text = re.sub(r"^# (?:fix|runs): .*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"^from __future__ .*\n", "", text, flags=re.MULTILINE)


def real_files() -> list[Path]:
    """Modules of middling length, the same ones in every run."""
    folders = [
        Path(spec.origin).parent for name in LIBRARIES if (spec := importlib.util.find_spec(name)) and spec.origin
    ]
    if corpus := os.environ.get("T4LINT_CORPUS"):
        folders.append(Path(corpus))
    found = [file for folder in folders for file in folder.rglob("*.py") if 2000 < file.stat().st_size < 20_000]
    found.sort(key=lambda file: blake2b("/".join(file.parts[-3:]).encode(), digest_size=8).digest())
    return found[:FILES]


def put(text: str, fault: str, at_end: bool) -> tuple[str, str]:
    """A module in two parts, between which the fault goes: after its first imports, or at its end."""
    lines = text.splitlines(keepends=True)
    place = len(lines)
    if not at_end:
        tree = ast.parse(text)
        first = next((it for it in tree.body if not isinstance(it, (ast.Import, ast.ImportFrom, ast.Expr))), None)
        place = (
            len(lines) if first is None else min(it.lineno for it in [first, *getattr(first, "decorator_list", [])]) - 1
        )
    return "".join(lines[:place]), "".join(lines[place:])


def notebook(cells: list[str]) -> str:
    made = [
        {"cell_type": "code", "id": str(number), "metadata": {"a": "é"}, "outputs": [{"data": [1.50, "é"]}],
         "execution_count": number, "source": cell.splitlines(keepends=True)}
        for number, cell in enumerate(cells)
    ]  # fmt: skip
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1, ensure_ascii=False)


def cells_of(text: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"]]


def without_sources(text: str) -> object:
    whole = json.loads(text)
    for cell in whole["cells"]:
        del cell["source"]
    return whole


def without(lines: list[str], left_out: set[str]) -> list[str]:
    return [line for line in lines if line not in left_out]


def fixed(folder: Path, rule: str) -> bool:
    """Fix everything of a rule; has anything changed?"""
    options, nothing = Options(cwd=folder, select=(rule,)), OnlyNew(None, (), None, folder, "likely")
    done = fix([folder], options, nothing, unsafe=True)
    report = write(done, [folder], options, nothing)
    assert not report.problems
    return bool(done.outcome.after)


def cases(shard: int) -> Iterator[tuple[int, Path, Fault]]:
    known = faults()
    for number, file in enumerate(real_files()):
        if number % SHARDS == shard:
            yield number, file, known[number * 7 % len(known)]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_fault_comes_and_goes(shard: int, tmp_path: Path) -> None:
    seen = total = 0
    for number, file, fault in cases(shard):
        text = file.read_text(encoding="utf-8")
        if text.count("\n") > MOST_LINES or not text.endswith("\n") or "\r" in text or "\f" in text:
            text = text.replace("\r\n", "\n").replace("\f", "").rstrip("\n") + "\n"
        total += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        seen += _comes_and_goes(folder, text, fault, number)
    assert seen >= total * LEAST // FILES, f"{seen} of {total}"


def _comes_and_goes(folder: Path, text: str, fault: Fault, number: int) -> bool:
    before, after = put(text, fault.before, at_end=number % 3 == 0)
    as_notebook, newline = number % 4 == 3, "\r\n" if number % 5 == 4 else "\n"
    file = folder / ("a.ipynb" if as_notebook else "a.py")
    parts = [before, fault.before, after]
    whole = notebook(parts) if as_notebook else "".join(parts)
    file.write_bytes(whole.replace("\n", newline).encode())
    options = Options(cwd=folder, select=(fault.rule,))
    as_it_was = replace(options, texts={file.name: notebook([text]) if as_notebook else text})
    old = len(check([folder], as_it_was).findings)
    if len(check([folder], options).findings) <= old:
        return False  # e.g. code before it ends the program, or the file shadows a library
    if not fixed(folder, fault.rule):
        return False  # another rule would speak up in this file
    now = file.read_bytes().decode()
    assert now.count("\r\n") == (now.count("\n") if newline == "\r\n" else 0)
    now = now.replace("\r\n", "\n")
    if as_notebook:
        assert without_sources(now) == without_sources(whole)
        now = "".join(cells_of(now))
    expected = before + fault.after + after
    assert is_python(now.encode()) or not is_python(fault.before.encode())
    # An import that the fix needs goes among those of the file, unless it is there.
    changed = set(fault.after.splitlines()) ^ set(fault.before.splitlines())
    imports = {line for line in changed if line.startswith(("import ", "from "))}
    assert without(now.splitlines(), imports) == without(expected.splitlines(), imports), fault.rule
    assert not fixed(folder, fault.rule), "fixing again changes nothing"
    return True
