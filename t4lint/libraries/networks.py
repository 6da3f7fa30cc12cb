"""Networks of libraries that no model here describes: segmentation_models_pytorch, efficientnet_pytorch, a lab's own package.

What such a library returns is a network once its parameters are asked for. Its weights are presumed to be in float32, as
torch makes them, until the program casts it; what rests on that is only likely.
"""

from __future__ import annotations

from typing import Any

from t4lint.interpret.values import PRESUMED, Abstract, Const, Object, Returned, Unknown
from t4lint.libraries import triton
from t4lint.libraries.api import Call, methods
from t4lint.libraries.torch import default_dtype, dtype_like
from t4lint.libraries.torch_cuda import device_type

CASTS = {"half": "float16", "bfloat16": "bfloat16", "float": "float32", "double": "float64"}


@methods("unknown", "cuda", "cpu", "half", "float", "bfloat16", "double", "train", "eval", "requires_grad_")
def chained(call: Call) -> Abstract:
    """Methods of a network that return it; a tensor has some of them too, and stays what it is as well."""
    receiver, name = call.receiver, call.name
    if not isinstance(receiver, Returned):
        return followed_no_further(call)
    if name in CASTS:
        receiver.cast = Const(CASTS[name], (call.machine.here("literal", f".{name}()"),))
    elif name in ("cuda", "cpu"):
        receiver.placed = Const(name)
    return receiver


@methods("unknown", "to")
def moved(call: Call) -> Abstract:
    """`.to(...)`: a device, a dtype or both; inside a Triton kernel it is the cast of a block."""
    m, receiver = call.machine, call.receiver
    if triton.inside_kernel(m):
        triton.say_dtypes(call)
    if not isinstance(receiver, Returned):
        return followed_no_further(call)
    for value in call.arguments.values():
        dtype, kind = dtype_like(m, value), device_type(m, value)
        if dtype is not None:
            receiver.cast = dtype
        elif kind:
            receiver.placed = Const(kind, m.resolve(value).origins)
        elif not isinstance(m.resolve(value), Const):
            receiver.placed = Unknown("a device that is not known")
    return receiver


@methods("unknown", "parameters", "named_parameters")
def parameters(call: Call) -> Abstract:
    """Only a network has parameters: from here on it is one."""
    m, receiver = call.machine, call.receiver
    if not isinstance(receiver, Returned) or receiver.varies:
        return followed_no_further(call)
    found: Abstract = m.method(as_network(m, receiver), call.name, call.arguments)
    return found


def as_network(m: Any, value: Abstract) -> Abstract:
    """What a library returned, now that something shows that it is a network."""
    value = m.resolve(value)
    if not isinstance(value, Returned) or value.varies:
        return value
    value.network = network(m, value)
    return value.network


def network(m: Any, value: Returned) -> Object:
    dtype = value.cast or default_dtype(m)
    note = f"the weights that {value.function} makes are presumed to be in float32, torch's default"
    if value.cast is None and isinstance(dtype, Const):
        dtype = Const(dtype.value, (*dtype.origins, m.here("derived", note), PRESUMED))
    device = value.placed or Unknown("where the code that made the network put it")
    attributes: dict[str, Any] = {"$dtype": dtype, "$device": device, "$parameters": None, "training": Const(True)}
    return Object("module", value.function, attributes)


def followed_no_further(call: Call) -> Abstract:
    from t4lint.interpret.calls import unresolved

    return unresolved(call.machine, call.machine.attribute(call.receiver, call.name), call.arguments)
