"""Models that are called: does autograd record the forward, is the model in training mode, in which dtype is its math.

Only the outermost call counts, which is the one that the program writes. `Module.__call__` is wrapped and no global
hook registered: those make torch.compile warn, and slow every layer down.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

from . import journal, phantom
from .frames import look
from .probe import dress
from .state import state


class _Nest(threading.local):
    """Is a module being called in this thread?"""

    def __init__(self) -> None:
        self.inside = False


_nest = _Nest()


def install(torch: Any) -> None:
    module = torch.nn.Module
    original = module.__call__
    if getattr(original, "_t4lint", False):
        return
    is_compiling = torch.compiler.is_compiling

    def probe(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _nest.inside or is_compiling():
            return original(self, *args, **kwargs)
        _nest.inside = True
        before = _tables()
        try:
            phantom.seen(self)
        except Exception as error:
            journal.trouble("weights", error)
        try:
            result = original(self, *args, **kwargs)
        finally:
            _nest.inside = False
        try:
            _say(torch, self, result, before)
        except Exception as error:
            journal.trouble("forward", error)
        return result

    module.__call__ = dress(probe, original)


def _tables() -> tuple[dict[str, float], ...]:
    """FLOPs so far by dtype: what CUDA would use and what was used, with gradients and without."""
    asked, ran = state.asked, state.ran
    return dict(asked), dict(ran), dict(state.asked_without_grad), dict(state.ran_without_grad)


def _say(torch: Any, module: Any, result: Any, before: tuple[dict[str, float], ...]) -> None:
    if state.depth:
        return  # activation checkpointing runs the forward again
    first = next(module.parameters(), None)
    if first is None:
        return  # a loss, not a model
    site = look()
    if not site.user:
        return
    recorded = _recorded(result)
    after = _tables()
    journal.bounded(
        "forward",
        site,
        grad=torch.is_grad_enabled() if recorded is None else recorded,
        training=bool(module.training),
        dtype=_most(before[0], after[0], before[2], after[2]),
        ran=_most(before[1], after[1], before[3], after[3]),
        device=first.device.type,
        layout=_layout(torch, module),
    )


_layouts: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def _layout(torch: Any, module: Any) -> str:
    """The memory format of a network of 2-d convolutions, by the first that has one; looked at in its first forward."""
    found = _layouts.get(module)
    if found is None:
        kernels = [it.weight for it in module.modules() if isinstance(it, torch.nn.Conv2d)]
        # where a dimension is 1 the formats are the same
        plain = [it for it in kernels if it.shape[1] > 1 and max(it.shape[2:]) > 1]
        last = any(it.is_contiguous(memory_format=torch.channels_last) for it in plain)
        found = _layouts[module] = "none" if not kernels else "channels_last" if last else "contiguous"
    return found


def _most(*tables: dict[str, float]) -> str | None:
    """The dtype of most of the math between two looks, given in pairs; None where there was none."""
    sums: dict[str, float] = {}
    for before, after in zip(tables[::2], tables[1::2], strict=True):
        for dtype, flops in after.items():
            sums[dtype] = sums.get(dtype, 0.0) + flops - before.get(dtype, 0.0)
    found = max(sums, key=lambda dtype: sums[dtype], default=None)
    return found if found is not None and sums[found] > 0 else None


def _recorded(result: Any, depth: int = 0) -> bool | None:
    """Does what came out belong to a graph? None where no floating-point tensor is in sight."""
    if hasattr(result, "requires_grad") and hasattr(result, "grad_fn"):
        return bool(result.requires_grad) if result.is_floating_point() else None
    if depth > 2:
        return None
    values: Any = result.values() if hasattr(result, "values") and callable(result.values) else result
    if not isinstance(result, (list, tuple)) and values is result:
        return None
    answers = [answer for item in list(values)[:16] if (answer := _recorded(item, depth + 1)) is not None]
    return any(answers) if answers else None
