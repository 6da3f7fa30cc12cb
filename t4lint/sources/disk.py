"""What is asked of the file system while files are checked, and the answers: what a result rests on.

Everything that a check reads, looks for or lists goes through here. Within `watched()` each question is noted once with its
answer, also where the answer is "there is none"; a kept result holds as long as `still()` finds the same answers.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOENT
from hashlib import blake2b
from pathlib import Path

from t4lint.sources import git_index

Asked = dict[str, str]
"""Questions with their answers. A question is a letter and an absolute path: what is in a file (r), its first bytes (p, with
their number), what kind of thing it is (k), what a folder lists (l), where a path leads to (w), whether git tracks it (t)."""

# Folders that nothing ever looks into, whose coming and going changes no result: caches that tools and Python leave behind.
LEFT_BEHIND = frozenset({
    ".git", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".t4lint_cache", "__pycache__",
})  # fmt: skip

_watching: list[Asked] = []


@contextmanager
def watched() -> Iterator[Asked]:
    """Note what is asked inside."""
    asked: Asked = {}
    _watching.append(asked)
    try:
        yield asked
    finally:
        _watching[:] = [other for other in _watching if other is not asked]


def still(asked: Asked) -> bool:
    """Does the file system give the same answers today?"""
    return all(_answer(question) == answer for question, answer in asked.items())


def condensed(asked: Asked) -> Asked:
    """The questions without those that others answer too: a folder that was listed tells what is in it, and what is not."""
    return {question: answer for question, answer in asked.items() if not _is_told(question, answer, asked)}


def _is_told(question: str, answer: str, asked: Asked) -> bool:
    """Does the list of its folder tell the answer? Not if it has changed since it was given: then the list may be newer."""
    if question[0] != "k" and answer != _failed(FileNotFoundError(ENOENT, "")):
        return False
    folder, name = os.path.split(question[1:] if question[0] != "p" else question.partition(":")[2])
    return f"l{folder}" in asked and name not in LEFT_BEHIND and _answer(question) == answer


def note_all(asked: Asked) -> None:
    """Note what another process has asked."""
    for noted in _watching:
        for question, answer in asked.items():
            noted.setdefault(question, answer)


# --- questions ---------------------------------------------------------------------------------------------------


def read_bytes(file: Path) -> bytes:
    """What is in a file. Raises OSError, or ValueError for a name that no file can have."""
    try:
        data = Path(file).read_bytes()
    except (OSError, ValueError) as error:
        _note("r", file, _failed(error))
        raise
    _note("r", file, _digest(data) if _watching else "")
    return data


def read_start(file: Path, most: int) -> bytes:
    """The first bytes of a file, at most so many. Raises as `read_bytes`; also where it is no regular file."""
    try:
        data = _start(str(file), most)
    except (OSError, ValueError) as error:
        _note(f"p{most}:", file, _failed(error))
        raise
    _note(f"p{most}:", file, _digest(data) if _watching else "")
    return data


def kind(file: Path) -> str:
    """`f` for a file, `d` for a folder, `o` for anything else, `-` where there is nothing; links are followed."""
    if _watching and _is_missing(os.path.dirname(os.path.abspath(file)), _watching[-1]):  # noqa: PTH100, PTH120
        return "-"
    found = _kind(str(file))
    _note("k", file, found)
    return found


def _is_missing(folder: str, asked: Asked) -> bool:
    """Is a folder not there? Only the first one on the way that is not is asked for: most names that programs import
    are no files of the project, and of `torch/nn/functional.py` it is enough to know that there is no `torch`.
    """
    known = asked.get(f"k{folder}")
    if known is None:
        above = os.path.dirname(folder)  # noqa: PTH120
        if above == folder:
            return False
        if _is_missing(above, asked):
            return True
        known = _kind(folder)
        _note("k", folder, known)
    return known == "-"


def is_file(file: Path) -> bool:
    return kind(file) == "f"


def is_folder(file: Path) -> bool:
    return kind(file) == "d"


def exists(file: Path) -> bool:
    return kind(file) != "-"


def entries(folder: Path) -> list[os.DirEntry[str]]:
    """What a folder lists, by name. Raises OSError or ValueError."""
    try:
        with os.scandir(folder) as listed:
            found = sorted(listed, key=lambda entry: entry.name)
    except (OSError, ValueError) as error:
        _note("l", folder, _failed(error))
        raise
    if _watching:
        _note("l", folder, _listed(found))
    return found


def names(folder: Path) -> list[str]:
    """The names in a folder, sorted; none where it cannot be listed."""
    try:
        return [entry.name for entry in entries(folder)]
    except (OSError, ValueError):
        return []


def real(path: Path) -> Path:
    """Where a path leads to when its links are followed. Raises OSError or RuntimeError where they lead in a circle."""
    found = Path(path).resolve()
    if _watching:
        _note("w", path, str(found))
    return found


def is_tracked(path: Path) -> bool:
    """Does git track a file, or anything in a folder?"""
    try:
        found = git_index.tracks(Path(os.path.abspath(path)))  # noqa: PTH100
    except (OSError, ValueError):
        found = False
    _note("t", path, str(found))
    return found


# --- answers -----------------------------------------------------------------------------------------------------


def _note(letter: str, path: Path | str, answer: str) -> None:
    if _watching:
        question = letter + os.path.abspath(path)  # noqa: PTH100  (links stay)
        for asked in _watching:
            asked.setdefault(question, answer)


def _answer(question: str) -> str:
    """What is answered today."""
    letter, path = question[0], question[1:]
    try:
        if letter == "k":
            return _kind(path)
        if letter == "l":
            with os.scandir(path) as listed:
                return _listed(sorted(listed, key=lambda entry: entry.name))
        if letter == "w":
            return str(Path(path).resolve())
        if letter == "t":
            return str(git_index.tracks(Path(path)))
        if letter == "p":
            most, _, path = path.partition(":")
            return _digest(_start(path, int(most)))
        return _digest(Path(path).read_bytes())
    except (OSError, ValueError, RuntimeError) as error:
        return _failed(error)


def _start(path: str, most: int) -> bytes:
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
        raise IsADirectoryError(path)
    with Path(path).open("rb") as stream:
        return stream.read(most)


def _kind(path: str) -> str:
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except (OSError, ValueError):
        return "-"
    return "f" if stat.S_ISREG(mode) else "d" if stat.S_ISDIR(mode) else "o"


def _listed(found: list[os.DirEntry[str]]) -> str:
    """Names and kinds; of a link also where it points, since a walk takes each real file once."""
    lines = []
    for entry in found:
        if entry.name in LEFT_BEHIND:
            continue
        try:
            link = os.readlink(entry.path) if entry.is_symlink() else ""  # noqa: PTH115
            lines.append(f"{entry.name}\0{entry.is_dir():d}{entry.is_file():d}{link}")
        except OSError as error:
            lines.append(f"{entry.name}\0{_failed(error)}")
    return _digest("\n".join(lines).encode("utf-8", "surrogateescape"))


def _failed(error: Exception) -> str:
    return f"!{type(error).__name__} {getattr(error, 'errno', None)}"


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
