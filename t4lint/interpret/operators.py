"""Arithmetic and comparison over abstract values."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from t4lint.interpret import ranks
from t4lint.interpret.values import (
    Abstract,
    Const,
    DictValue,
    ListValue,
    Object,
    Provenance,
    Step,
    Symbol,
    Tensor,
    Unknown,
)

if TYPE_CHECKING:
    from t4lint.interpret.machine import Machine

# Results larger than this are not computed: `"x" * 10**9` must not be evaluated.
MAX_SIZE = 10_000
MAX_EXPONENT = 4_096
MAX_ORIGINS = 6
MAX_DIVISOR = 1e12  # a larger one is no count of anything

ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Subtract": operator.sub,
    "Multiply": operator.mul,
    "Divide": operator.truediv,
    "FloorDivide": operator.floordiv,
    "Modulo": operator.mod,
    "Power": operator.pow,
    "BitAnd": operator.and_,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
    "LeftShift": operator.lshift,
    "RightShift": operator.rshift,
}

COMPARISON: dict[str, Callable[[Any, Any], Any]] = {
    "Equal": operator.eq,
    "NotEqual": operator.ne,
    "LessThan": operator.lt,
    "LessThanEqual": operator.le,
    "GreaterThan": operator.gt,
    "GreaterThanEqual": operator.ge,
    "Is": operator.is_,
    "IsNot": operator.is_not,
}


# What the operators of a syntax tree are called in the two tables, and in the names of what is not known.
NAMES: dict[type[ast.AST], str] = {
    ast.Add: "Add", ast.Sub: "Subtract", ast.Mult: "Multiply", ast.MatMult: "MatrixMultiply", ast.Div: "Divide",
    ast.FloorDiv: "FloorDivide", ast.Mod: "Modulo", ast.Pow: "Power", ast.BitAnd: "BitAnd", ast.BitOr: "BitOr",
    ast.BitXor: "BitXor", ast.LShift: "LeftShift", ast.RShift: "RightShift", ast.USub: "Minus", ast.UAdd: "Plus",
    ast.Invert: "BitInvert", ast.Eq: "Equal", ast.NotEq: "NotEqual", ast.Lt: "LessThan", ast.LtE: "LessThanEqual",
    ast.Gt: "GreaterThan", ast.GtE: "GreaterThanEqual", ast.Is: "Is", ast.IsNot: "IsNot", ast.In: "In",
    ast.NotIn: "NotIn",
}  # fmt: skip


def origins_of(*values: Abstract) -> Provenance:
    """The joint provenance of operands, bounded."""
    given = [value.origins for value in values if value.origins]
    if not given:
        return ()
    if len(given) == 1 and len(given[0]) == 1:
        return given[0]
    steps: list[Step] = []
    for origins in given:
        for step in origins:
            if step not in steps:
                steps.append(step)
    marks = [step for step in steps[MAX_ORIGINS:] if any(step is mark for mark in ranks.MARKS)]
    return (*steps[:MAX_ORIGINS], *marks)


def unknown_from(name: str, *values: Abstract) -> Unknown:
    """An unknown computed from operands: the same operands give the same unknown, so tests on it agree."""
    parts = []
    reason = ""
    varies = False
    autocast = ""
    for value in values:
        if isinstance(value, Unknown):
            parts.append(value.uid)
            reason = reason or value.reason
            varies = varies or value.varies
            autocast = autocast or value.autocast
        elif isinstance(value, Const):
            parts.append(repr(value.value)[:80])
            varies = varies or value.varies
        elif isinstance(value, Symbol):
            parts.append(value.name)
        else:
            parts.append(f"@{id(value)}")
    return Unknown(reason or "not computed", origins_of(*values), varies, f"{name}({','.join(parts)})"[:400], autocast)


def binary(m: Machine, name: str, left: Abstract, right: Abstract) -> Abstract:
    return m.mapped(
        left, lambda a: m.mapped(right, lambda b: ranks.computed(name, a, b, ungraphed(m, name, _binary(name, a, b))))
    )


# operations without a gradient
NO_GRADIENT = frozenset({
    "argmax", "argmin", "argsort", "eq", "ne", "lt", "le", "gt", "ge", "equal", "isnan", "isinf", "isfinite", "sign", "floor",
    "ceil", "round", "long", "int", "bool", "byte", "bincount", "nonzero", "count_nonzero", "bucketize", "searchsorted",
})  # fmt: skip


def ungraphed(m: Machine, operation: str, value: Abstract) -> Abstract:
    """The result of an operation: where gradients are off, or it has none, no graph hangs on it."""
    if isinstance(value, Tensor) and value.facts.graph and (not m.grad or operation in NO_GRADIENT):
        return Tensor(value.facts.but(graph=False), value.origins)
    return value


def _binary(name: str, left: Abstract, right: Abstract) -> Abstract:
    if _is_block(left) or _is_block(right):
        from t4lint.libraries import triton

        return triton.arithmetic(name, left, right)
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return rescaled(name, left, right, tensor_of(left, right))
    if isinstance(left, Const) and isinstance(right, Const):
        return _constants(name, left, right)
    if isinstance(left, ListValue) and isinstance(right, ListValue) and name == "Add":
        return ListValue(left.items + right.items, left.kind, left.complete and right.complete)
    if isinstance(left, ListValue) and isinstance(right, Const) and name == "Multiply" and isinstance(right.value, int):
        if 0 <= right.value <= 64 and len(left.items) * right.value <= 64:
            return ListValue(left.items * right.value, left.kind, left.complete)
    if isinstance(left, DictValue) and isinstance(right, DictValue) and name == "BitOr":
        return DictValue({**left.items, **right.items}, left.complete and right.complete)
    if name == "Modulo" and isinstance(left, Unknown) and left.varies and _is_one(right):
        return Const(
            0, origins_of(right), varies=True
        )  # `(step + 1) % accumulation` of a counter, with an accumulation of 1
    return unknown_from(name, left, right)


def _is_block(value: Abstract) -> bool:
    """Is it a block of a Triton kernel?"""
    return isinstance(value, Object) and value.kind == "triton block"


def _is_one(value: Abstract) -> bool:
    return isinstance(value, Const) and isinstance(value.value, int) and value.value == 1


def _constants(name: str, left: Const, right: Const) -> Abstract:
    a, b = left.value, right.value
    if name in ("Power", "LeftShift") and not (_small(a) and _small(b)):
        return unknown_from(name, left, right)
    if name == "Multiply" and (_length(a) or _length(b)) and not (_small(a) and _small(b)):
        return unknown_from(name, left, right)
    if name == "Modulo" and isinstance(a, (str, bytes)) and any(character.isdigit() for character in str(a)):
        return unknown_from(name, left, right)  # a width in a format may ask for any number of characters
    try:
        result = ARITHMETIC[name](a, b)
    except Exception:
        return unknown_from(name, left, right)
    if _length(result) > MAX_SIZE:
        return unknown_from(name, left, right)
    return Const(result, origins_of(left, right), left.varies or right.varies)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, (str, bytes, tuple)) else 0


def _small(value: Any) -> bool:
    if isinstance(value, (int, float)):
        return abs(value) <= MAX_EXPONENT
    return _length(value) <= MAX_EXPONENT


def rescaled(name: str, left: Abstract, right: Abstract, result: Tensor) -> Tensor:
    """What a multiplication or division of a loss by a plain number does to its scale."""
    if name not in ("Divide", "Multiply") or not result.facts.reduced:
        return result
    loss, number = (left, right) if isinstance(left, Tensor) and left.facts.reduced else (right, left)
    assert isinstance(loss, Tensor)
    facts = loss.facts
    if name == "Divide" and loss is right:
        return Tensor(result.facts.but(divisor=None, divisor_origins=()))
    if name == "Divide" and facts.reduced == "sum" and isinstance(number, Tensor) and not number.facts.models:
        return Tensor(result.facts.but(reduced="mean", divisor=1.0, divisor_origins=()))  # a sum over a count
    if (
        facts.divisor is not None
        and isinstance(number, Const)
        and isinstance(number.value, (int, float))
        and abs(number.value) < MAX_DIVISOR
    ):
        by = float(number.value) if name == "Divide" else 1 / number.value if number.value else 0.0
        if by > 0:
            return Tensor(result.facts.but(divisor=facts.divisor * by, divisor_origins=number.origins))
    return Tensor(result.facts.but(divisor=None, divisor_origins=()))


def negative(tensor: Tensor) -> Tensor:
    """`-x`: what overflows in it has the other sign."""
    flipped = frozenset((place, -sign) for place, sign in tensor.facts.squares)
    return Tensor(tensor.facts.but(squares=flipped) if flipped else tensor.facts, tensor.origins)


def tensor_of(*values: Abstract) -> Tensor:
    """A tensor computed from operands, with their joint facts."""
    facts = None
    for value in values:
        if isinstance(value, Tensor):
            facts = value.facts if facts is None else facts.joined(value.facts)
    assert facts is not None
    return Tensor(facts)
