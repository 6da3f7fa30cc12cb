"""Leave after N optimizer steps, cleanly, on each rank."""

from __future__ import annotations

import os

from . import journal, phantom
from .state import state

CHANCES = 3  # later steps at which a program that swallows the exit is asked again


class StopVerify(SystemExit):
    """Uncaught, the interpreter exits with 0, after `finally` and `atexit`; `except Exception` does not swallow it."""


class _Stop:
    def __init__(self) -> None:
        self.limit = 0
        self.pending = False
        self.asked = 0


_stop = _Stop()


def set_limit(steps: int) -> None:
    """0: never stop."""
    _stop.limit = steps


def reached() -> bool:
    """Has each optimizer had its steps? The same on every rank, because it only counts."""
    return _stop.limit > 0 and state.step >= _stop.limit * max(1, len(state.stepped))


def after_step(in_scaler: bool) -> None:
    """Called after an optimizer step. Inside `GradScaler.step` the exit waits for the call on the scaler to end."""
    if not reached():
        return
    if in_scaler and not _stop.pending and not _stop.asked:
        _stop.pending = True
    else:
        leave()


def if_pending() -> None:
    """Called where a waiting exit may happen: after `GradScaler.update`, before the next forward or backward."""
    if _stop.pending:
        leave()


def leave() -> None:
    """Raise the exit; after a few that were swallowed, end the process without asking."""
    _stop.pending = False
    _stop.asked += 1
    if _stop.asked == 1:
        journal.emit("stop", steps=state.step)
    if _stop.asked > CHANCES:
        phantom.tell()
        journal.emit("exit", hard=True)
        os._exit(0)
    raise StopVerify(0)
