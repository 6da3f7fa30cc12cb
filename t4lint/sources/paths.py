"""Paths as words, without asking the file system: those of Windows and of others alike."""

from __future__ import annotations

from pathlib import PurePath


def below(path: PurePath, folder: PurePath) -> str | None:
    """The way from a folder down to a path, with `/`; None where the path is not in it, or on another drive.

    Both are absolute, without `..`. Case counts as on the system whose paths they are.
    """
    try:
        return path.relative_to(folder).as_posix()
    except ValueError:
        return None
