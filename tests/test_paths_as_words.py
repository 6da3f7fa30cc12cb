"""Paths of Windows and macOS, as pure paths: no file is asked for."""

from __future__ import annotations

from pathlib import PurePath, PurePosixPath, PureWindowsPath

import pytest

from t4lint.sources.paths import below

WINDOWS, POSIX = PureWindowsPath, PurePosixPath


@pytest.mark.parametrize(
    ("path", "folder", "expected"),
    [
        (WINDOWS(r"C:\Users\me\project\src\train.py"), WINDOWS(r"C:\Users\me\project"), "src/train.py"),
        (WINDOWS(r"c:\users\ME\project\train.py"), WINDOWS(r"C:\Users\me\project"), "train.py"),
        (WINDOWS(r"D:\data\train.py"), WINDOWS(r"C:\Users\me"), None),
        (WINDOWS(r"\\server\share\a\train.py"), WINDOWS(r"\\server\share"), "a/train.py"),
        (WINDOWS(r"\\server\share\train.py"), WINDOWS("C:\\"), None),
        (WINDOWS(r"C:\projects\train.py"), WINDOWS(r"C:\project"), None),
        (WINDOWS("C:\\train.py"), WINDOWS("C:\\"), "train.py"),
        (POSIX("/Users/me/Project/train.py"), POSIX("/Users/me/Project"), "train.py"),
        (POSIX("/Users/me/project/train.py"), POSIX("/Users/me/Project"), None),
        (POSIX("/Volumes/Café/train.py"), POSIX("/Volumes/Café"), "train.py"),
        (POSIX("/a"), POSIX("/a"), "."),
    ],
)
def test_below(path: PurePath, folder: PurePath, expected: str | None) -> None:
    assert below(path, folder) == expected
