"""Which files git tracks, as its index says: a file that is tracked is part of the project, whatever .gitignore says of it.

The format is git's Documentation/gitformat-index.txt, versions 2 and 3; of version 4, whose names are compressed, nothing is known.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

LARGEST = 64_000_000  # bytes
_LENGTH = 0xFFF  # the bits of an entry's flags that hold the length of its name; longer ones fill them


def tracks(path: Path) -> bool:
    """Is a file tracked, or anything in a folder? `path` is absolute; without an index nothing is."""
    found = index_above(path.parent)
    if found is None:
        return False
    root, index = found
    try:
        state = index.stat()
        data = _bytes(str(index), state.st_mtime_ns, state.st_size)
    except OSError:
        return False
    name = path.relative_to(root).as_posix().encode("utf-8", "surrogateescape")
    return _holds(data, name)


def index_above(folder: Path) -> tuple[Path, Path] | None:
    """The root of the repository that a folder lies in, and its index."""
    for root in (folder, *folder.parents):
        git = root / ".git"
        if git.is_dir():
            return root, git / "index"
        if git.is_file():  # of a worktree or a submodule
            text = git.read_text("utf-8", errors="replace").strip()
            return (root, root / text.removeprefix("gitdir:").strip() / "index") if text.startswith("gitdir:") else None
    return None


@lru_cache(maxsize=4)
def _bytes(index: str, changed: int, size: int) -> bytes:
    if size > LARGEST:
        return b""
    data = Path(index).read_bytes()
    return data if data[:4] == b"DIRC" and data[4:8] in (b"\0\0\0\2", b"\0\0\0\3") else b""


def _holds(data: bytes, name: bytes) -> bool:
    """An entry is its fields, flags with the length of the name, and the name with a zero after it."""
    at = data.find(name)
    while at >= 0:
        end = data.find(b"\0", at)
        whole = data[at:end]
        lengths = {int.from_bytes(data[before : before + 2], "big") & _LENGTH for before in (at - 2, at - 4)}
        if min(len(whole), _LENGTH) in lengths and (whole == name or whole.startswith(name + b"/")):
            return True
        at = data.find(name, at + 1)
    return False
