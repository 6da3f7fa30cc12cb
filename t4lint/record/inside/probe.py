"""Put a probe around a function of a library, so that it fails open."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from . import journal
from .frames import below_root

Before = Callable[[tuple[Any, ...], dict[str, Any]], Any]
After = Callable[[tuple[Any, ...], dict[str, Any], Any, Any, "BaseException | None"], None]

# `warnings.warn(stacklevel=2)` skips frames whose file name holds both "importlib" and "_bootstrap": so a warning about
# the user's call still names the user's line, although a probe stands in between.
FILENAME = "<t4lint probe, unseen by warnings like importlib._bootstrap>"


def unseen(function: Any) -> Any:
    """Make the frames of a probe invisible to `warnings`."""
    function.__code__ = function.__code__.replace(co_filename=FILENAME)
    return function


def compiling() -> bool:
    """Is torch.compile tracing us? It then must see the original only."""
    torch: Any = sys.modules["torch"]
    return bool(torch.compiler.is_compiling())


def around(original: Any, before: Before | None, after: After | None, label: str, user_only: bool = False) -> Any:
    """`original` with a look before and a look after. The looks may raise only what is no `Exception`: the stop.

    `user_only`: nothing is looked at where another than the user's own code calls; libraries do so dozens of times in a step.
    """
    is_compiling, caller = _is_compiling(), sys._getframe

    def probe(*args: Any, **kwargs: Any) -> Any:
        if is_compiling() or (user_only and below_root(caller(1).f_code.co_filename) is None):
            return original(*args, **kwargs)
        note = None
        if before is not None:
            try:
                note = before(args, kwargs)
            except Exception as error:
                journal.trouble(label, error)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            _after_raise(after, args, kwargs, note, error, label)
            raise
        if after is not None:
            try:
                after(args, kwargs, note, result, None)
            except Exception as error:
                journal.trouble(label, error)
        return result

    return dress(probe, original)


def _after_raise(
    after: After | None, args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, error: BaseException, label: str
) -> None:
    if after is None:
        return
    try:
        after(args, kwargs, note, None, error)
    except Exception as own:
        journal.trouble(label, own)


def dress(probe: Any, original: Any) -> Any:
    """Give a probe the name, signature and helpers (`cache_clear`) of what it stands for."""
    functools.update_wrapper(probe, original)
    for name in ("cache_clear", "cache_info"):
        if hasattr(original, name):
            setattr(probe, name, getattr(original, name))
    probe._t4lint = True
    return unseen(probe)


def wrap(
    owner: Any, name: str, before: Before | None = None, after: After | None = None, *, user_only: bool = False
) -> None:
    """Replace `owner.name` by the probe, once. A library without it is left alone."""
    original = inspect.getattr_static(owner, name, None)
    if original is None:
        return
    label = f"{getattr(owner, '__name__', owner)}.{name}"
    try:
        if isinstance(original, (classmethod, staticmethod)):
            if not getattr(original.__func__, "_t4lint", False):
                setattr(owner, name, type(original)(around(original.__func__, before, after, label, user_only)))
        elif not getattr(original, "_t4lint", False):
            setattr(owner, name, around(original, before, after, label, user_only))
    except Exception as error:
        journal.trouble(label, error)


def given(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name, with defaults: as the call asked for them."""
    bound = inspect.signature(original).bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def _is_compiling() -> Callable[[], bool]:
    torch: Any = sys.modules.get("torch")
    found = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    return found if found is not None else lambda: False
