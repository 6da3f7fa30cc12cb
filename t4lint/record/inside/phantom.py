"""The phantom as a device of the recorder: started where it is asked for, it writes into the same journal."""

# os.path is loaded anyway; pathlib would cost every process its import.
# ruff: noqa: PTH100, PTH112, PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from . import frames, journal
from .state import state

PACKAGE = "_t4lint_phantom"
LEAVING = 0.1  # seconds that threads get to leave Python, where nobody says whether they have
LONGEST = 5.0  # seconds that they get at most
LOOK = 0.02  # seconds between two looks at them
STILL = 4  # looks in a row that find all of them asleep, without a tick of the CPU in between


class _Device:
    """The phantom of this process, or None; `told`: has its memory been told for the last time?"""

    def __init__(self) -> None:
        self.phantom: Any = None
        self.seen: set[int] = set()


_device = _Device()


class Teller:
    """What the phantom knows of the recorder (`t4lint.phantom.tell.Tell`)."""

    def fact(self, kind: str, **data: Any) -> None:
        if state.depth and kind == "attention":
            return  # activation checkpointing runs the forward again
        if kind == "attention":
            state.counts[f"attention {data['kernel']}"] += 1
        journal.fact(kind, frames.look(), **data)

    def trouble(self, probe: str, error: BaseException) -> None:
        journal.trouble(probe, error)

    def phase(self) -> str:
        return state.phase

    def step(self) -> int:
        return state.step

    def count(self, what: str) -> None:
        state.counts[what] += 1

    def place(self) -> tuple[str, int] | None:
        return frames.nearest()


def wanted() -> bool:
    """Was a phantom asked for?"""
    return bool(os.environ.get("T4LINT_PHANTOM"))


def there() -> bool:
    """Does the program run on one?"""
    return _device.phantom is not None


def within() -> bool:
    """Does the phantom itself call, to work out a shape?"""
    return there() and bool(_device.phantom.membrane.within())


def install(torch: Any) -> None:
    """Called once torch has been imported. Where it cannot be done, the program runs on the CPU, and that is told."""
    if not wanted() or there():
        return
    card = json.loads(os.environ["T4LINT_CARD"])
    card["count"] = max(card.get("count") or 1, int(os.environ.get("LOCAL_WORLD_SIZE") or 1))
    try:
        start = _package()
        _device.phantom = start.install(torch, card, Teller())
    except Exception as error:
        journal.emit("no_phantom", reason=f"{type(error).__name__}: {error}")
        return
    journal.emit(
        "card",
        name=card["name"],
        capability=card["capability"],
        total_memory=card["total_memory"],
        count=card["count"],
        capped=None,
        phantom=True,
    )


def _package() -> Any:
    """Load the folder of the phantom as a package of its own: the person's interpreter has no t4lint."""
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "phantom")
    spec = importlib.util.spec_from_file_location(
        PACKAGE, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        raise ImportError(folder)
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)
    return importlib.import_module(f"{PACKAGE}.start")


def seen(module: Any) -> None:
    """A model is called: its parameters are weights."""
    if _device.phantom is not None and id(module) not in _device.seen:
        _device.seen.add(id(module))
        _device.phantom.weights(module)


def step(optimizer: Any) -> None:
    """Before and after an optimizer step: what is a gradient, what is the optimizer's."""
    if _device.phantom is not None:
        _device.phantom.labels(optimizer)


def tell() -> None:
    """What the card held at its fullest; the last such record of a process counts.

    The threads of autograd may still be on their way out of Python: where the interpreter ends before they have, they
    end the process with a signal.
    """
    if _device.phantom is not None:
        _wait_for_threads()
        journal.emit("held", **_device.phantom.ledger.summary())
        for number, moment in enumerate(_device.phantom.ledger.moments()):
            journal.emit("fill", number=number, **moment)


def _wait_for_threads() -> None:
    """Until all other threads of the process sleep: on a machine with much to do that may take a while."""
    end = time.monotonic() + LONGEST
    before, still = _threads(), 0
    if before is None:
        time.sleep(LEAVING)
        return
    while still < STILL and time.monotonic() < end:
        time.sleep(LOOK)
        now = _threads()
        asleep = now is not None and all(state == "S" for state, _, _ in now.values())
        still = still + 1 if asleep and now == before else 0
        before = now


def _threads() -> dict[str, tuple[str, str, str]] | None:
    """State and ticks of the CPU (user, system) of each other thread, as Linux tells them; None elsewhere."""
    folder, own = "/proc/self/task", str(threading.get_native_id())
    found = {}
    try:
        for name in os.listdir(folder):
            if name != own:
                with open(os.path.join(folder, name, "stat"), encoding="utf-8") as file:
                    fields = file.read().rpartition(")")[2].split()
                found[name] = (fields[0], fields[11], fields[12])
    except FileNotFoundError:  # one has just ended, or there is no such folder
        return found if os.path.isdir(folder) else None
    except OSError:
        return None
    return found


def _library(name: str) -> Callable[[Any], None]:
    def hook(module: Any) -> None:
        if there():
            importlib.import_module(f"{PACKAGE}.libraries").HOOKS[name](module)

    return hook


PATCHED = (
    "deepspeed.ops.op_builder.builder",
    "transformers.utils.import_utils", "safetensors.torch", "tensorboardX.writer", "torch.utils.tensorboard.writer",
)  # fmt: skip
HOOKS = {name: _library(name) for name in PATCHED}
