"""The files of a project: which are looked at, which may start others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from t4lint.engine.options import Options
from t4lint.findings import Problem
from t4lint.sources import disk
from t4lint.sources.files import SHELL_SUFFIXES, SUFFIXES, find, kind_of, read

if TYPE_CHECKING:
    pass

ROOT_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg", ".hg")
# Files that show commands to people, with places to fill in.
PROSE = (".md", ".rst", ".ipynb", ".txt")
# Texts of programs that may start other programs, and of commands that start training.
COMMANDS = ("subprocess", "os.system", "os.popen", "nox")
LAUNCHES = re.compile(r"[\"' ](?:python3?|torchrun|accelerate|deepspeed)\b|sys\.executable")
SOURCE_SUFFIXES = (*SUFFIXES, ".ipynb")
MAX_SHELL_FILES = 500
MAX_PYTHON_FILES = 3000  # that are searched for the name of a configuration
MAX_LAUNCH_FILES = 300


def children(folder: Path) -> list[Path]:
    """What a folder holds, by name; nothing where it cannot be listed."""
    return [folder / name for name in disk.names(folder)]


def is_shell(file: Path, text: str) -> bool:
    return kind_of(file, text[:200].encode("utf-8", "replace")) == "shell"


def is_script(text: str) -> bool:
    """Does a file say that it is run, and not only imported?"""
    return '__name__ == "__main__"' in text or "__name__ == '__main__'" in text


def is_source(name: str) -> bool:
    """Is a file of this name looked for in folders?"""
    return name.endswith(SOURCE_SUFFIXES)


def launches_others(file: Path, text: str) -> bool:
    """Can a file start scripts: a shell script, a notebook, or one that was named and holds shell commands?"""
    from t4lint.sources.launch_files import is_launch_file

    return file.suffix.lower() == ".ipynb" or is_shell(file, text) or is_launch_file(file.name)


def launch_files(root: Path, wanted: Callable[[str], bool]) -> list[Path]:
    """The files of a project that may hold launch commands, bounded."""
    if any(disk.exists(root / mark) for mark in ROOT_MARKS):
        below: Iterable[Path] = find([root], problems=[], wanted=wanted)
    else:
        folders = [root, *(folder for folder in children(root) if disk.is_folder(folder))]
        files = (file for folder in folders for file in children(folder) if wanted(file.name.lower()))
        below = (file for file in files if disk.is_file(file))
    return list(islice(below, MAX_LAUNCH_FILES))


def python_files(root: Path) -> list[Path]:
    """The Python files of a project, bounded."""
    marked = any(disk.exists(root / mark) for mark in ROOT_MARKS)
    below = find([root], problems=[]) if marked else iter(file for file in children(root) if file.suffix == ".py")
    return list(islice((file for file in below if file.suffix == ".py"), MAX_PYTHON_FILES))


def shell_files(root: Path, given: Mapping[Path, str]) -> list[Path]:
    """The shell files of a project: those that were given, and those found below its root."""
    files = [file for file, text in given.items() if is_shell(file, text)]
    if any(disk.exists(root / mark) for mark in ROOT_MARKS):
        below: Iterable[Path] = (file for file in find([root], problems=[]) if file.suffix in SHELL_SUFFIXES)
    else:
        folders = [root, *(folder for folder in children(root) if disk.is_folder(folder))]
        below = sorted(file for folder in folders for file in children(folder) if file.suffix in SHELL_SUFFIXES)
    for file in below:
        if len(files) >= MAX_SHELL_FILES:
            break
        files.append(file)
    return list(dict.fromkeys(files))


def text_of(path: str, options: Options, sources: Mapping[str, str]) -> str | None:
    """The text of a file by its path as shown: the one that stands in its place, else the file's own."""
    if path in options.texts:
        return options.texts[path]
    if path in sources and not path.endswith(".ipynb"):  # of a notebook they hold only the code
        return sources[path]
    document = read(options.cwd / path, path)
    return None if isinstance(document, Problem) else document.text
