"""From a probe back to the person's own statement: the innermost frame under the project's root."""

# os.path is loaded anyway; pathlib would cost every process its import.
# ruff: noqa: PTH100, PTH109, PTH118, PTH120, PTH206

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Any

DEEPEST = 8  # user frames that are written
_INSIDE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PHANTOM = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(_INSIDE))), "phantom") + os.sep
_OURS = ("_t4lint_inside", "_t4lint_phantom")
_NOT_OURS = ("site-packages", "dist-packages")

# The engine that owns a call: by the module of a frame between the user's statement and the probe.
_ENGINES = (
    ("transformers.trainer", "Trainer"),
    ("trl.", "Trainer"),
    ("accelerate.", "Accelerator"),
    ("pytorch_lightning.", "Lightning"),
    ("lightning.", "Lightning"),
    ("lightning_fabric.", "Lightning"),
    ("deepspeed.", "DeepSpeed"),
)


class Site:
    """Where a probe was reached. `user`: frames of the project, innermost first, as (path below the root, line).

    `engine` owns the call, "" for the user's own; `between` are the functions on the way; `direct`: the probe was
    called by the user's code itself; `library`: the innermost library frame.
    """

    __slots__ = ("between", "direct", "engine", "library", "user")

    def __init__(
        self,
        user: list[tuple[str, int]],
        engine: str,
        between: list[tuple[str, str]],
        direct: bool,
        library: tuple[str, int] | None,
    ) -> None:
        self.user, self.engine, self.between, self.direct, self.library = user, engine, between, direct, library

    def through(self, *functions: str) -> bool:
        """Is one of these functions on the way from the user's statement to the probe?"""
        return any(name in functions for _, name in self.between)

    def within(self, module: str) -> bool:
        """Is a frame of this module (or of its submodules) on the way?"""
        return any(name == module or name.startswith(module + ".") for name, _ in self.between)


class _Roots:
    def __init__(self) -> None:
        self.roots: list[str] = []
        self.start = os.getcwd()
        self.known: dict[str, str | None] = {}


_roots = _Roots()


def set_roots(roots: list[str]) -> None:
    """The copy that runs, and the original: an editable install still points to the latter."""
    _roots.roots = [os.path.realpath(root).rstrip(os.sep) + os.sep for root in roots if root]
    _roots.known.clear()


def below_root(filename: str) -> str | None:
    """The path below the project's root with `/`, or None for what is not the person's own."""
    try:
        return _roots.known[filename]
    except KeyError:
        _roots.known[filename] = found = _resolve(filename)
        return found


def _resolve(filename: str) -> str | None:
    if filename.startswith(("<", _INSIDE, _PHANTOM)):
        return None
    path = os.path.realpath(os.path.join(_roots.start, filename))
    for root in _roots.roots:
        if path.startswith(root):
            parts = path[len(root) :].split(os.sep)
            return None if any(part in _NOT_OURS for part in parts) else "/".join(parts)
    return None


def look() -> Site:
    """Walk outwards from the probe. Never raises: without a user frame `user` is empty."""
    frame: FrameType | None = sys._getframe(1)
    user: list[tuple[str, int]] = []
    between: list[tuple[str, str]] = []
    library: tuple[str, int] | None = None
    engine = ""
    while frame is not None and len(user) < DEEPEST:
        code = frame.f_code
        path = below_root(code.co_filename)
        if path is not None:
            user.append((path, frame.f_lineno))
        elif not user:
            if code.co_filename.startswith("<frozen importlib"):
                break  # a library does this while it is imported: nobody's statement asks for it
            module: Any = frame.f_globals.get("__name__") or ""
            if not module.startswith(_OURS):
                between.append((module, code.co_name))
                if library is None and not module.startswith("torch"):
                    library = (module, frame.f_lineno)
                engine = _engine(module) or engine
        frame = frame.f_back
    return Site(user, engine, between, bool(user) and not between, library)


def nearest() -> tuple[str, int] | None:
    """The innermost line of the person's own code, without what lies between: for what happens very often."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = below_root(frame.f_code.co_filename)
        if path is not None:
            return path, frame.f_lineno
        frame = frame.f_back
    return None


def caller_is_user() -> bool:
    """A cheap first look for hot probes: does the user's own code call this?"""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_globals.get("__name__") or "").startswith(_OURS):
        frame = frame.f_back
    return frame is not None and below_root(frame.f_code.co_filename) is not None


def _engine(module: str) -> str:
    for start, name in _ENGINES:
        if module == start or module.startswith(start):
            return name
    return ""
