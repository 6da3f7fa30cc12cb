"""Large files stand in the copy as links to the project: cut a link before the program writes through it."""

# os.path is loaded anyway; pathlib would cost every process its import.
# ruff: noqa: PTH100, PTH108, PTH113, PTH114, PTH118, PTH120

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR


class _Guard:
    def __init__(self) -> None:
        self.copy = ""
        self.busy = False


_guard = _Guard()


def install(copy: str) -> None:
    """Only where the launcher made links; an audit hook cannot be removed and costs a little at each `open`."""
    _guard.copy = os.path.realpath(copy) + os.sep
    sys.addaudithook(_watch)


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if event != "open" or _guard.busy:
        return
    try:
        path, _, flags = args
        if isinstance(path, str) and isinstance(flags, int) and flags & _WRITING:
            cut(path, keep=not flags & os.O_TRUNC)
    except Exception:  # fails open
        pass


def cut(path: Any, keep: bool = False) -> None:
    """Replace a link out of the copy by nothing, or by a copy where the program would read the old bytes."""
    name = os.path.abspath(os.fspath(path))
    if not os.path.islink(name):
        return
    target = os.path.realpath(name)
    inside = os.path.join(os.path.realpath(os.path.dirname(name)), "").startswith(_guard.copy)
    if not inside or target.startswith(_guard.copy) or not os.path.isfile(target):
        return
    _guard.busy = True
    try:
        os.unlink(name)
        if keep:
            shutil.copyfile(target, name)
    finally:
        _guard.busy = False


def active() -> bool:
    return bool(_guard.copy)
