"""torch: single operations that the precision around them decides about, and the dtype of what goes into them.

The dtype of a tensor is followed only where it is certain: out of a matmul, through views and arithmetic with plain
numbers. Anything else makes it unknown. Which operations keep float16 under autocast and which go to float32 was
executed on torch 2.13 with fake CUDA tensors.
"""

from __future__ import annotations

from typing import Any

from t4lint.interpret.operators import tensor_of
from t4lint.interpret.values import Abstract, Const, Instance, Object, Symbol, Tensor, TensorFacts, Unknown
from t4lint.libraries import overflows
from t4lint.libraries.api import Arguments, Call, attribute, calls, methods
from t4lint.libraries.torch_autocast import active_dtype, dtype_name
from t4lint.trace import Operation

# autocast on CUDA computes these in float32 (torch 2.13)
PROMOTED = frozenset({
    "softmax", "log_softmax", "exp", "log", "log2", "log10", "log1p", "expm1", "pow", "square", "sum", "cumsum", "cumprod", "prod",
    "norm", "logsumexp", "layer_norm", "rms_norm", "rsqrt", "softplus", "cosine_similarity", "normalize", "cdist", "cross_entropy",
    "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "kl_div",
})  # fmt: skip
# the result has the dtype of the tensor
KEEPING = frozenset({
    "view", "reshape", "transpose", "permute", "contiguous", "unsqueeze", "squeeze", "expand", "expand_as", "view_as", "flatten",
    "swapaxes", "mul", "mul_", "div", "div_", "clone", "masked_fill", "masked_fill_", "detach", "dropout", "relu", "gelu", "silu",
    "tril", "triu", "neg", "abs", "repeat", "narrow", "select", "movedim", "t", "unflatten",
})  # fmt: skip
HALF = ("float16", "bfloat16", "float32")


def exact(m: Any, facts: TensorFacts, dtype: str) -> TensorFacts:
    """The facts of a tensor whose dtype is certain. They are known by identity: any other operand makes new ones."""
    known = facts.but()
    m.globals.setdefault("$exact", {})[id(known)] = (known, dtype if dtype in HALF else "")
    return known


def exact_dtype(m: Any, tensor: Tensor) -> str:
    found = m.globals.get("$exact", {}).get(id(tensor.facts))
    return str(found[1]) if found is not None else ""


def after(m: Any, name: str, before: Tensor | None, result: Abstract) -> Abstract:
    """The result of an operation, with the dtype of its input only where it keeps that."""
    if not isinstance(result, Tensor) or not exact_dtype(m, result):
        return result
    name = name.rpartition(".")[2]
    if name in PROMOTED and active_dtype(m) in ("float16", "bfloat16"):
        return Tensor(exact(m, result.facts, "float32"), result.origins)
    if name in KEEPING or before is None:
        return result
    return Tensor(result.facts.but(), result.origins)


def region(m: Any) -> Abstract:
    dtype = active_dtype(m)
    return Unknown("the autocast region around it") if dtype == "?" else Const(dtype)


def device(m: Any, value: Abstract | None) -> Abstract:
    """Where a tensor is; inside a forward, where the model is."""
    model = m.globals.get("$model")
    if m.in_forward and isinstance(model, (Object, Instance)):
        return model.attributes.get("$device") or Unknown("where the model is")
    if isinstance(value, Tensor) and value.facts.device:
        return Const(value.facts.device)
    return Unknown("where the tensor is")


# --- binary cross entropy --------------------------------------------------------------------------------------------


@calls("torch.nn.functional.binary_cross_entropy", "torch.binary_cross_entropy")
def binary_cross_entropy(call: Call) -> Abstract:
    from t4lint.libraries.torch import call_function

    say_binary_cross_entropy(call.machine, call.arguments)
    return call_function(call)


def say_binary_cross_entropy(m: Any, arguments: Arguments) -> None:
    value = arguments.get("input", 0)
    m.emit(Operation, "binary_cross_entropy", autocast=region(m), device=device(m, value))


# --- constants that go into tensors ----------------------------------------------------------------------------------


@methods("tensor", "masked_fill", "masked_fill_")
def masked_fill(call: Call) -> Abstract:
    m, tensor = call.machine, call.receiver
    value = call.arguments.get("value", 1)
    if value is not None and not isinstance(value, Tensor):
        dtype = exact_dtype(m, tensor)
        m.emit(
            Operation,
            "masked_fill",
            dtype=Const(dtype) if dtype else Unknown("the dtype of the tensor"),
            autocast=region(m),
            constant=m.resolve(value),
            device=device(m, tensor),
        )
        return filled(m, tensor, m.resolve(value))
    return tensor  # type: ignore[no-any-return]


# --- what is lost in float16 -------------------------------------------------------------------------------------

SUBNORMAL = 2.0**-24  # the smallest number that float16 can hold: 5.96e-8; half of it and less rounds to 0
SENSITIVE = frozenset({"log", "log2", "log10", "rsqrt", "sqrt", "reciprocal", "div", "div_", "true_divide"})


def arithmetic(m: Any, name: str, left: Abstract, right: Abstract, result: Tensor) -> Abstract:
    """An operator between tensors and numbers, where one of them is float16 for certain."""
    if name == "Add":
        tensor, number = (left, right) if isinstance(left, Tensor) else (right, left)
        if isinstance(tensor, Tensor) and exact_dtype(m, tensor) == "float16":
            return with_lost(m, tensor, m.resolve(number))
    elif name == "Multiply" and isinstance(left, Tensor) and isinstance(right, Tensor):
        if left.facts is right.facts and exact_dtype(m, left) == "float16":
            return squared(m, left, result, 1 if left is right else 0)  # `-x * x` is no square
    elif name == "Power" and isinstance(left, Tensor) and isinstance(right, Const) and right.value == 2:
        return square(m, left, result)
    elif name == "Divide" and isinstance(right, Tensor):
        say_lost(m, "division", right)
    return overflows.combined(m, name, left, right, result) if result.facts.squares else result


def square(m: Any, tensor: Tensor, result: Abstract) -> Abstract:
    """`x.pow(2)` and `x ** 2`: float32 under autocast, else of the tensor's dtype."""
    if exact_dtype(m, tensor) == "float16" and active_dtype(m) == "none" and isinstance(result, Tensor):
        return squared(m, tensor, result)
    return result


def squared(m: Any, tensor: Tensor, result: Tensor, sign: int = 1) -> Tensor:
    say_overflow(m, "square", tensor)
    known = exact_dtype(m, result)
    facts = overflows.begun(m, result.facts.but(squares=frozenset()), sign)
    return Tensor(exact(m, facts, known) if known else facts)


def say_overflow(m: Any, what: str, tensor: Tensor) -> None:
    m.emit(Operation, what, dtype=Const("float16"), autocast=region(m), device=device(m, tensor), absorbed=Const(False))


def with_lost(m: Any, tensor: Tensor, number: Abstract) -> Tensor:
    """A float16 tensor to which a number too small for float16 was added: the number is gone, and we remember it."""
    if not (isinstance(number, Const) and isinstance(number.value, float) and 0 < number.value <= SUBNORMAL / 2):
        return tensor
    facts = exact(m, tensor.facts, "float16")
    m.globals.setdefault("$lost", {})[id(facts)] = (facts, number)
    return Tensor(facts)


def say_lost(m: Any, what: str, tensor: Tensor) -> None:
    """An operation that the lost number was to protect."""
    found = m.globals.get("$lost", {}).get(id(tensor.facts))
    if found is not None:
        m.emit(
            Operation, "lost epsilon", dtype=Const("float16"), autocast=region(m), constant=found[1], device=device(m, tensor),
            evidence=what,
        )  # fmt: skip


@methods("tensor", "clamp", "clamp_", "clip", "clamp_min")
def clamp(call: Call) -> Abstract:
    m, tensor = call.machine, call.receiver
    low = call.arguments.get("min", 0)
    if exact_dtype(m, tensor) == "float16" and low is not None:
        return with_lost(m, tensor, m.resolve(low))
    return after(m, call.name, tensor, tensor)


@methods("tensor", *sorted(SENSITIVE))
def sensitive(call: Call) -> Abstract:
    m, tensor = call.machine, call.receiver
    name = call.name.rpartition(".")[2]
    if name.startswith(("div", "true")):
        other = call.arguments.get("other", 0)
        if isinstance(other, Tensor):
            say_lost(m, "division", other)
    else:
        say_lost(m, name, tensor)
    others = [value for value in call.arguments.values() if isinstance(value, Tensor)]
    return after(m, call.name, tensor, tensor_of(tensor, *others))


@calls(*[f"torch.{name}" for name in ("log", "log2", "log10", "rsqrt", "sqrt", "reciprocal")])
def sensitive_function(call: Call) -> Abstract:
    from t4lint.libraries.torch import call_function

    value = call.arguments.get("input", 0)
    if isinstance(value, Tensor):
        say_lost(call.machine, call.name.rpartition(".")[2], value)
    return call_function(call)


@methods("tensor", "pow", "square")
def power(call: Call) -> Abstract:
    m, tensor = call.machine, call.receiver
    exponent = m.resolve(call.arguments.get("exponent", 0) or Const(2))
    result = after(m, call.name, tensor, tensor)
    return square(m, tensor, result) if isinstance(exponent, Const) and exponent.value == 2 else result


@methods("tensor", "var", "std")
def spread(call: Call) -> Abstract:
    m, tensor = call.machine, call.receiver
    name = call.name.rpartition(".")[2]
    if exact_dtype(m, tensor) == "float16":
        say_overflow(m, name, tensor)
    return after(m, call.name, tensor, tensor)


@methods("tensor", "softmax", "log_softmax")
def softmax(call: Call) -> Abstract:
    m, tensor = call.machine, call.receiver
    say_masked(m, tensor)
    return after(m, call.name, tensor, tensor)


@calls("torch.softmax", "torch.nn.functional.softmax", "torch.log_softmax", "torch.nn.functional.log_softmax")
def softmax_function(call: Call) -> Abstract:
    from t4lint.libraries.torch import call_function

    value = call.arguments.get("input", 0)
    if isinstance(value, Tensor):
        say_masked(call.machine, value)
    return call_function(call)


def say_masked(m: Any, tensor: Tensor) -> None:
    """A softmax over what was filled with -inf, by how many masks."""
    found = m.globals.get("$filled", {}).get(id(tensor.facts))
    if found is not None:
        m.emit(Operation, "masked softmax", constant=Const(found[1]), device=device(m, tensor))


def filled(m: Any, tensor: Tensor, value: Abstract) -> Tensor:
    """A tensor with one mask of -inf more."""
    if not (isinstance(value, Const) and isinstance(value.value, float) and value.value == float("-inf")):
        return tensor
    before = m.globals.get("$filled", {}).get(id(tensor.facts), (None, 0))[1]
    known = exact_dtype(m, tensor)
    facts = exact(m, tensor.facts, known) if known else tensor.facts.but()
    m.globals.setdefault("$filled", {})[id(facts)] = (facts, before + 1)
    return Tensor(facts)


@calls("torch.full")
def full(call: Call) -> Abstract:
    from t4lint.libraries.torch import call_function, default_dtype

    m = call.machine
    dtype = call.arguments.get("dtype")
    name = dtype_name(m.resolve(dtype)) if dtype is not None else dtype_name(m.resolve(default_dtype(m)))
    m.emit(
        Operation,
        "full",
        dtype=Const({"half": "float16"}.get(name, name)) if name != "?" else Unknown("the dtype of the tensor"),
        constant=call.argument("fill_value", 1),
    )
    return call_function(call)


# torch.finfo: (min, max, eps, tiny) (torch 2.13)
FINFO = {
    "float16": (-65504.0, 65504.0, 0.0009765625, 6.103515625e-05),
    "bfloat16": (-3.3895313892515355e38, 3.3895313892515355e38, 0.0078125, 1.1754943508222875e-38),
    "float32": (-3.4028234663852886e38, 3.4028234663852886e38, 1.1920928955078125e-07, 1.1754943508222875e-38),
    "float64": (-1.7976931348623157e308, 1.7976931348623157e308, 2.220446049250313e-16, 2.2250738585072014e-308),
}


@attribute("torch.inf")
def infinity(m: Any) -> Abstract:
    return Const(float("inf"), (m.here("literal", "torch.inf"),))


@calls("torch.finfo")
def finfo(call: Call) -> Abstract:
    dtype = call.argument("type", 0, Symbol("torch.float32"))
    found = FINFO.get(dtype_name(dtype)) if isinstance(dtype, (Symbol, Const)) else None
    if found is None:
        return Unknown("the limits of a dtype that is not known")
    note = call.machine.here("derived", f"torch.finfo(torch.{dtype_name(dtype)})")
    names = ("min", "max", "eps", "tiny")
    return Object("finfo", call.name, {name: Const(value, (note,)) for name, value in zip(names, found, strict=True)})


@methods("finfo", "getattr")
def finfo_attribute(call: Call) -> Abstract:
    return Unknown("a limit of a dtype")
