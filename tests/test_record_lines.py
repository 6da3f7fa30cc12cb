"""Which statements ran: on every Python that is here, and nothing else of the program changes."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from t4lint.record.launch import Recording, record
from t4lint.verify import lines_of

pytestmark = pytest.mark.heavy


def pythons() -> list[str]:
    """This one, and one of each other kind that is installed: lines are told by other means before 3.12."""
    found = {sys.version_info[:2]: sys.executable}
    names = [f"python3.{minor}" for minor in range(10, 15)]
    homes = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))
    for candidate in [*filter(None, map(shutil.which, names)), *map(str, homes)]:
        asked = [candidate, "-c", "import sys; print(*sys.version_info[:2])"]
        said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
        if len(said) == 2 and (int(said[0]), int(said[1])) >= (3, 10):
            found.setdefault((int(said[0]), int(said[1])), candidate)
    return [found[version] for version in sorted(found)]


PYTHONS = pythons()
FILES = {
    "pyproject.toml": "",
    "train.py": '''
        """A program."""
        from __future__ import annotations

        import sys
        from helper import work

        if len(sys.argv) > 5:
            print("never")
        for number in range(3):
            value = work(
                number,
                1,
            )
        def unused():
            return 1
        print(__name__, __doc__, __spec__, __package__, __file__ == sys.argv[0], sys.path[0] != sys.argv[0], value)
        print([name for name in globals() if "t4lint" in name], work.__code__.co_firstlineno)
        raise SystemExit(3)
    ''',
    "helper.py": """
        def work(a, b):
            if a > 100:
                return 0
            return a + b
    """,
}
# of train.py: the import, a branch not taken, the call over four lines, a body that nobody calls, the last statement
WANTED = {"train.py": [(6, 6), (9, 9), (11, 14), (16, 16), (19, 19)], "helper.py": [(4, 4), (5, 5)]}


def project(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).write_text(textwrap.dedent(text))
    return folder


def run(folder: Path, *command: str, wanted: dict[str, list[tuple[int, int]]] | None = None) -> Recording:
    lines = {folder / name: ranges for name, ranges in (wanted or {}).items()}
    return record(command, cwd=folder, steps=0, timeout=60, lines=lines)


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: path.replace("/", " ").split()[-3])
def test_what_ran(tmp_path: Path, python: str) -> None:
    folder = project(tmp_path, FILES)
    plain = subprocess.run([python, "train.py"], cwd=folder, capture_output=True, text=True, check=False)
    done = run(folder, python, "train.py", wanted=WANTED)
    assert (done.stdout, done.outcome.exit_code) == (plain.stdout, 3), done.stderr
    assert lines_of(done) == {("train.py", 6), ("train.py", 11), ("train.py", 19), ("helper.py", 5)}
    assert not [entry for entry in done.journal.records if entry.k == "trouble"]
    module = run(folder, python, "-m", "train", wanted=WANTED)
    assert lines_of(module) >= {("helper.py", 5), ("train.py", 11)}, module.stderr


SPAWNS = """
    import multiprocessing
    import os

    def work(number):
        return number + 1, os.path.basename(__file__)

    if __name__ == "__main__":
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.map(work, [1, 2]))
        raise ValueError("the end")
"""


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: path.replace("/", " ").split()[-3])
def test_processes_are_spawned_and_exceptions_placed_as_without(tmp_path: Path, python: str) -> None:
    folder = project(tmp_path, {"pyproject.toml": "", "train.py": SPAWNS})
    done = run(folder, python, "train.py", wanted={"train.py": [(5, 5), (9, 9), (10, 10)]})
    assert done.stdout == "[(2, 'train.py'), (3, 'train.py')]\n", done.stderr
    assert (done.outcome.how, done.outcome.line) == ("exception", 11)
    assert lines_of(done) >= {("train.py", 9), ("train.py", 10)}


def test_a_program_that_does_not_compile(tmp_path: Path) -> None:
    folder = project(tmp_path, {"pyproject.toml": "", "train.py": "a = 1\nb = = 2\n"})
    for python in PYTHONS:
        done = run(folder, python, "train.py", wanted={"train.py": [(1, 1)]})
        assert done.outcome.exit_code == 1 and "SyntaxError" in done.stderr


def test_a_notebook(tmp_path: Path) -> None:
    import json

    cells = [["a = 1\n", "if a > 1:\n", "    b = 2\n"], ["c = 3\n", "print(c)"]]
    made = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": cell} for cell in cells
    ]
    text = json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    (tmp_path / "train.ipynb").write_text(text)
    written = {source: number for number, source in enumerate(text.splitlines(), 1)}
    b, c = (next(n for line, n in written.items() if wanted in line) for wanted in ("b = 2", "c = 3"))
    done = run(tmp_path, "train.ipynb", wanted={"train.ipynb": [(b, b), (c, c)]})
    assert done.stdout == "3\n", done.stderr
    assert lines_of(done) == {("train.ipynb", c)}
