"""Values are presumed to be finite: what asks for NaN and infinity has an answer, and what is made of the answer too.

`isnan`, `isinf`, `x != x`, `x.abs() != inf` and sums of them guard most training programs, and loss scaling by hand. The
answer is the same for each element: it is kept as one number, however large the tensor is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from . import shadow

aten = torch.ops.aten

# what an operation says of finite numbers; those with two tensors only where both are the same
ASKS: dict[Any, bool] = {aten.isnan.default: False, aten.isinf.default: False}
SAME: dict[Any, bool] = {aten.eq.Tensor: True, aten.ne.Tensor: False}
INFINITE: dict[Any, bool] = {aten.eq.Scalar: False, aten.ne.Scalar: True}
# shapes and types: the number stays; `clone` and the like
KEEPS = frozenset({
    "_to_copy", "clone", "detach", "view", "_unsafe_view", "reshape", "expand", "squeeze", "unsqueeze", "select", "slice", "t",
    "alias", "permute", "transpose", "any", "all", "max", "min", "amax", "amin", "stack", "cat",
})  # fmt: skip
JOINS = {
    "logical_or": max, "bitwise_or": max, "__or__": max, "logical_and": min, "bitwise_and": min, "__and__": min, "mul": min,
}  # fmt: skip


def number(tensor: Any) -> int | None:
    """The one number that all elements are, where that follows from finite values."""
    known = getattr(tensor, "_t4lint_finite", None)
    return known if known is None else int(known)


def known(func: Any, args: Sequence[Any], tensors: Sequence[Any]) -> int | None:
    """What this operation makes of it: the number of its result."""
    name = func._schema.name.removeprefix("aten::")
    first = args[0] if args else None
    if isinstance(first, FakeTensor) and first.is_floating_point():
        if func in ASKS:
            return int(ASKS[func])
        if func in SAME:
            return int(SAME[func]) if args[1] is first else None
        if func in INFINITE:
            return int(INFINITE[func]) if isinstance(args[1], float) and math.isinf(args[1]) else None
    numbers = [_of(it) for it in tensors]
    if not numbers or any(it is None for it in numbers):
        return None
    there = [it for it in numbers if it is not None]
    if name in KEEPS:
        return there[0] if len(set(there)) == 1 else None
    if name in JOINS and len(tensors) == 2:
        return int(JOINS[name](there))
    if name == "logical_not":
        return int(not there[0])
    return 0 if name in ("sum", "add") and len(tensors) == len(args) and not any(there) else None


def keep(out: Any, value: int) -> None:
    """Put it behind the result, and all of the values where they are few."""
    for tensor in out if isinstance(out, (tuple, list)) else (out,):
        if isinstance(tensor, FakeTensor) and tensor.dtype not in (torch.complex64, torch.complex128):
            tensor._t4lint_finite = value
            if tensor.numel() <= shadow.LARGEST_FLOAT:
                shadow.attach(tensor, torch.full(tensor.shape, value, dtype=tensor.dtype), FakeTensor)


def _of(tensor: Any) -> int | None:
    """Also of a single value that is known anyway."""
    found = number(tensor)
    if found is not None:
        return found
    value = shadow.of(tensor) if isinstance(tensor, FakeTensor) else tensor
    if value is None or value.numel() != 1 or float(value) not in (0.0, 1.0):
        return None
    return int(value)
