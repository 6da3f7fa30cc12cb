"""Memory and time of the steps, by phase, and the loss where an effect is measured.

Nothing is reset: a program that asks torch for its own peak gets the answer that it would get without us. The phase in
which the high-water mark rose last is the one that needs most. On a GPU that mark is the allocator's, elsewhere that of
the process.
"""

from __future__ import annotations

import os
import random
import sys
import time
from typing import Any

from . import card, journal, phantom
from .state import state


class _Meter:
    def __init__(self) -> None:
        self.measuring = os.environ.get("T4LINT_MEASURE") == "1"
        self.marks: dict[str, int] = {}  # the high-water mark at the end of each phase of this step, bytes
        self.highest = 0
        self.highest_in = "setup"
        self.last = 0.0  # when the step before ended
        self.losses: list[Any] = []


_meter = _Meter()


def seed(torch: Any) -> None:
    """Where effects are measured, runs start from the same random numbers, unless the program seeds them itself."""
    if _meter.measuring:
        random.seed(0)
        torch.manual_seed(0)
        numpy: Any = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(0)


def border(ended: str) -> None:
    """A phase has ended."""
    mark = _mark()
    _meter.marks[ended] = mark
    if mark > _meter.highest:
        _meter.highest, _meter.highest_in = mark, ended


def loss(value: Any) -> None:
    """The loss of a micro-batch, before it is scaled."""
    if _meter.measuring and hasattr(value, "detach") and value.numel() == 1:
        _meter.losses.append(value.detach())


def step_ended(optimizer: Any) -> None:
    """Tell of the step: each of the first ones, later some, all of them where effects are measured."""
    border("optimizer")
    now = time.perf_counter()
    seconds = now - _meter.last if _meter.last else None
    step = state.step
    if _meter.measuring or step <= journal.EVERY_STEP or step & (step - 1) == 0:
        allocated = card.on_gpu()
        journal.emit(
            "memory",
            counted="allocated" if allocated else "resident",
            phases=dict(_meter.marks),
            peak=_meter.highest,
            peak_in=_meter.highest_in,
            reserved=sys.modules["torch"].cuda.max_memory_reserved() if allocated else None,
            seconds=seconds,
            loss=_mean_loss(),
            counts=dict(state.counts),
            flops=state.flops(),
            holds=_holds(optimizer) if allocated and not phantom.there() else None,
        )
    state.counts.clear()
    _meter.marks.clear()
    _meter.losses.clear()
    _meter.last = time.perf_counter()


def _holds(optimizer: Any) -> dict[str, int]:
    """Bytes on the GPU of what the optimizer trains, their gradients, and its own state."""
    found = {"weights": 0, "gradients": 0, "optimizer": 0}
    trained = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    states = [value for kept in optimizer.state.values() if isinstance(kept, dict) for value in kept.values()]
    gradients = [parameter.grad for parameter in trained]
    for name, tensors in (("weights", trained), ("gradients", gradients), ("optimizer", states)):
        found[name] = sum(it.numel() * it.element_size() for it in tensors if getattr(it, "is_cuda", False))
    return found


def _mean_loss() -> float | None:
    if not _meter.losses:
        return None
    return sum(float(value) for value in _meter.losses) / len(_meter.losses)


def _mark() -> int:
    """Bytes: what torch has had allocated on the GPU at most, else what the process has had in memory."""
    if card.on_gpu():
        return int(sys.modules["torch"].cuda.max_memory_allocated())
    try:
        import resource
    except ImportError:  # not on Windows
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024  # KiB on Linux
