"""What becomes of a square that overflows: it spreads, or something absorbs it.

`tanh(inf)` is 1, as `tanh` of any large number is, and `exp(-inf)` is 0: there an overflow does no harm. In a norm it does:
`x * rsqrt(inf)` is 0. Executed on torch 2.13 in float16.
"""

from __future__ import annotations

from typing import Any

from t4lint.interpret.operators import negative
from t4lint.interpret.values import Abstract, Const, Tensor, TensorFacts, Unknown
from t4lint.libraries.api import Arguments

# inf gives what a large number gives, on both sides
ABSORBING = frozenset({
    "tanh", "sigmoid", "erf", "erfc", "atan", "arctan", "hardtanh", "relu6", "hardsigmoid", "sign", "sgn", "heaviside", "reciprocal",
    "argmin", "argmax", "argsort", "lt", "le", "gt", "ge", "eq", "ne", "less", "less_equal",
    "greater", "greater_equal", "isfinite", "isinf", "isnan",
})  # fmt: skip
# so for inf only: what is smaller is taken
ABSORBING_POSITIVE = frozenset({"minimum", "fmin", "min", "amin", "clamp_max", "clamp_max_"})
# so for -inf only
ABSORBING_NEGATIVE = frozenset({"exp", "exp2", "expm1", "softplus", "relu", "elu", "selu", "celu"})
# inf stays inf, of the same sign
CARRYING = frozenset({
    "add", "add_", "sum", "mean", "cumsum", "max", "amax", "maximum", "fmax", "log", "log2", "log1p", "logsumexp", "clamp_min", "cat",
    "stack", "to", "float", "half", "type", "type_as", "view", "reshape", "transpose", "permute", "contiguous", "unsqueeze", "squeeze",
    "expand", "expand_as", "view_as", "flatten", "clone", "detach", "repeat", "t", "unflatten", "movedim", "dropout", "select",
    "narrow", "chunk", "split", "masked_fill", "masked_fill_",
})  # fmt: skip


def begun(m: Any, facts: TensorFacts, sign: int) -> TensorFacts:
    """The facts of a square that was just said."""
    source, node = m.sites[-1]
    place: str = source.serial(node)
    m.globals.setdefault("$squares", {}).setdefault(place, []).append(m.drafts[-1])
    return facts.but(squares=facts.squares | {(place, sign)})


def end(m: Any, facts: TensorFacts, absorbed: Abstract) -> TensorFacts:
    """The square goes no further. What spreads in one place is not absorbed by another."""
    for place, _ in facts.squares:
        settle(m, place, absorbed)
    return facts.but(squares=frozenset())


def settle(m: Any, place: str, absorbed: Abstract) -> None:
    spread: set[str] = m.globals.setdefault("$spread", set())
    if isinstance(absorbed, Const) and absorbed.value is False:
        spread.add(place)
    for draft in m.globals.get("$squares", {}).get(place, ()):
        draft.fields["absorbed"] = Const(False) if place in spread else absorbed


def signed(facts: TensorFacts, sign: int) -> TensorFacts:
    return facts.but(squares=frozenset((place, before * sign) for place, before in facts.squares))


def combined(m: Any, name: str, left: Abstract, right: Abstract, result: Tensor) -> Tensor:
    """A square in a sum, a difference, a product or a quotient."""
    first = left.facts.squares if isinstance(left, Tensor) else frozenset()
    second = right.facts.squares if isinstance(right, Tensor) else frozenset()
    if name == "Add":
        return result
    if name == "Subtract":
        flipped = frozenset((place, -sign) for place, sign in second)
        return Tensor(result.facts.but(squares=first | flipped), result.origins)
    if name == "Divide" and second and not first:
        # a number over inf is 0, as over a large number; of a tensor it depends on how large that is
        fate: Abstract = Const(True) if isinstance(left, Const) else Unknown("how large the dividend is")
        return Tensor(end(m, result.facts, fate), result.origins)
    if name in ("Multiply", "Divide"):
        return Tensor(signed(result.facts, _sign(m, right if first else left)), result.origins)
    return Tensor(end(m, result.facts, Const(False)), result.origins)


def _sign(m: Any, value: Abstract) -> int:
    """Of a factor: 1, -1, or 0 where it is not known. A square is positive."""
    value = m.resolve(value)
    if isinstance(value, Const) and isinstance(value.value, (int, float)):
        return (value.value > 0) - (value.value < 0)
    if isinstance(value, Tensor) and value.facts.squares and all(sign == 1 for _, sign in value.facts.squares):
        return 1
    return 0


def passed(m: Any, name: str, arguments: Arguments, result: Abstract, method: bool = True) -> Abstract:
    """A square goes into a function or method of torch."""
    if not isinstance(result, Tensor) or not result.facts.squares:
        return result
    if name in ("neg", "negative"):
        return negative(result)
    if name in ("mul", "mul_", "div", "div_", "sub", "sub_", "where"):
        return Tensor(signed(result.facts, 0), result.origins)
    if name in ABSORBING or (name in CLAMPS and _has_top(m, arguments, 1 if method else 2)):
        return Tensor(end(m, result.facts, Const(True)), result.origins)
    if name in ABSORBING_POSITIVE:
        falls = any(sign < 0 for _, sign in result.facts.squares)
        return result if falls else Tensor(end(m, result.facts, Const(True)), result.origins)
    if name in ABSORBING_NEGATIVE:
        for place, sign in result.facts.squares:
            settle(m, place, Const(sign < 0) if sign else Unknown("the sign of what is squared"))
        return Tensor(result.facts.but(squares=frozenset()), result.origins)
    if name in CARRYING or name in CLAMPS or name in ("pow", "square"):
        return result
    return Tensor(end(m, result.facts, Const(False)), result.origins)


CLAMPS = frozenset({"clamp", "clamp_", "clip", "clip_"})


def _has_top(m: Any, arguments: Arguments, position: int) -> bool:
    """Does a clamp bound its result from above?"""
    top = arguments.get("max", position)
    return top is not None and m.truth(m.resolve(top)) is not False
