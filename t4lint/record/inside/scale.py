"""By which number a mean loss was divided before its backward: read off its graph."""

from __future__ import annotations

from typing import Any

MEAN = 1  # torch's number for `reduction="mean"` in what a loss function saves
DEEPEST = 16
PLAIN_NUMBERS = ("torch.int64", "torch.float64")  # dtypes that a Python number is saved in
SAME_VALUE = ("Clone", "ToCopy", "Squeeze", "View", "Reshape")


def divided_by(loss: Any, engine: str) -> tuple[float | None, float | None]:
    """(by the program, by an engine that divides by itself); None for what cannot be told from the graph."""
    node = getattr(loss, "grad_fn", None)
    if node is not None and "_t4lint_scaled_by" in node.metadata and node.name().startswith("Mul"):
        if _number(node) is None:  # the scaler's own multiplication, by a tensor; one that is off makes none
            node = _one_before(node)
    if engine == "Accelerator" and node is not None and node.name().startswith("Div"):
        return _divisor(_one_before(node), 0), _number(node)
    if engine == "DeepSpeed":  # it divides by the micro-batches of a step, then scales where it does
        while node is not None and node.name().startswith(("Mul", *SAME_VALUE)):
            node = _one_before(node)
        divides = node is not None and node.name().startswith("Div")
        return (_divisor(_one_before(node), 0), _number(node)) if divides else (None, None)
    return (None if engine else _divisor(node, 0)), None


def _divisor(node: Any, depth: int) -> float | None:
    """The product of the plain numbers that lie between a mean and here."""
    if node is None or depth > DEEPEST:
        return None
    name = node.name()
    if name.startswith("Mean") or ("Loss" in name and getattr(node, "_saved_reduction", None) == MEAN):
        return 1.0
    if "BinaryCrossEntropy" in name:
        return 1.0 if getattr(node, "_saved_reduction", None) == MEAN else None
    if name.startswith(("Div", "Mul")):
        by, before = _number(node), _divisor(_one_before(node), depth + 1)
        if not by or before is None:
            return None
        return round(before * by if name.startswith("Div") else before / by, 6)
    if name.startswith(("Add", "Sub")):
        parts = [_divisor(parent, depth + 1) for parent, _ in node.next_functions if parent is not None]
        if 1.0 in parts:
            return 1.0
        return parts[0] if parts and all(part == parts[0] for part in parts) else None
    return _divisor(_one_before(node), depth + 1) if name.startswith(SAME_VALUE) else None


def _one_before(node: Any) -> Any:
    """The only tensor that a node was computed from; None where there are two."""
    parents = [parent for parent, _ in node.next_functions if parent is not None]
    return parents[0] if len(parents) == 1 else None


def _number(node: Any) -> float | None:
    other = getattr(node, "_saved_other", None)
    if isinstance(other, (int, float)):  # on the phantom
        return float(other)
    if other is None or other.dim() or str(other.dtype) not in PLAIN_NUMBERS:
        return None
    return float(other)
