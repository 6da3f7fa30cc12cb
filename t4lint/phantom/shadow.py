"""Real values behind fakes: small integer and boolean tensors on the phantom keep a copy on the CPU.

Masks, token ids, labels, lengths and counters steer a program: with their values `if`, `nonzero`, `unique` and mask
indexing are exact. Everything else has no value.
"""

from __future__ import annotations

from typing import Any

LARGEST = 1 << 18  # elements of a shadow
LARGEST_FLOAT = 16  # the same for floating point: scales, steps, betas
FACTORY = 8 * LARGEST  # elements that a factory may have to make on the way


def of(tensor: Any) -> Any:
    """The value behind a fake, or None."""
    return getattr(tensor, "_t4lint_shadow", None)


def attach(out: Any, value: Any, fake: type) -> None:
    """Put values behind what came out of an operation, where there are any; forget older ones."""
    if isinstance(out, (tuple, list)):
        for index, item in enumerate(out):
            given = value[index] if isinstance(value, (tuple, list)) and index < len(value) else None
            attach(item, given, fake)
        return
    if not isinstance(out, fake):
        return
    if _keeps(out, value):
        out._t4lint_shadow = value  # type: ignore[attr-defined]
    elif of(out) is not None:
        out._t4lint_shadow = None  # type: ignore[attr-defined]


def _keeps(out: Any, value: Any) -> bool:
    if value is None or not hasattr(value, "numel") or value.shape != out.shape:
        return False
    largest = LARGEST_FLOAT if value.is_floating_point() or value.is_complex() else LARGEST
    return bool(value.numel() <= largest)


def forget_written(func: Any, args: tuple[Any, ...], fake: type) -> None:
    """An operation in place has made what was known of its targets wrong."""
    for given, argument in zip(args, func._schema.arguments, strict=False):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        for tensor in given if isinstance(given, (list, tuple)) else (given,):
            if isinstance(tensor, fake):
                tensor._t4lint_shadow = tensor._t4lint_finite = None  # type: ignore[attr-defined]
