"""torch's attention: which kernels a program allows, and how it asks for attention (read in torch 2.0 to 2.15)."""

from __future__ import annotations

from typing import Any

from t4lint.interpret.values import NONE, Abstract, Const, ListValue, Object, Symbol, Tensor, Unknown
from t4lint.libraries.api import Call, aliases, calls, methods
from t4lint.libraries.torch_operations import exact_dtype
from t4lint.trace import Attention
from t4lint.trace import Call as CallEvent

aliases({
    "torch.nn.functional.SDPBackend": "torch.nn.attention.SDPBackend",
    "torch.backends.cuda.SDPBackend": "torch.nn.attention.SDPBackend",
})  # fmt: skip

BACKENDS = {
    "FLASH_ATTENTION": "flash", "CUDNN_ATTENTION": "cudnn", "EFFICIENT_ATTENTION": "efficient", "MATH": "math",
}  # fmt: skip
AMPERE_ONLY = frozenset({"flash", "cudnn"})


@calls("torch.nn.attention.sdpa_kernel")
def sdpa_kernel(call: Call) -> Abstract:
    given = call.argument("backends", 0)
    parts = given.items if isinstance(given, ListValue) else (given,)
    names = [BACKENDS.get(part.name.rpartition(".")[2]) for part in parts if isinstance(part, Symbol)]
    allowed: set[str] | None = {name for name in names if name}
    if len(names) != len(parts) or None in names or (isinstance(given, ListValue) and not given.complete):
        allowed = None
    return Object("sdp kernels", call.name, {"$kernel": remaining(call.machine, allowed, given)})


@calls("torch.backends.cuda.sdp_kernel")
def sdp_kernel(call: Call) -> Abstract:
    # sdp_kernel(enable_flash, enable_math, enable_mem_efficient, enable_cudnn), all True by default
    m = call.machine
    allowed: set[str] | None = set()
    blamed: Abstract = NONE
    for position, (name, kernel) in enumerate(
        (("flash", "flash"), ("math", "math"), ("mem_efficient", "efficient"), ("cudnn", "cudnn"))
    ):
        value = call.argument(f"enable_{name}", position, Const(True))
        on = m.truth(value)
        if on is None:
            allowed = None
        elif on and allowed is not None:
            allowed.add(kernel)
        if kernel == "efficient":
            blamed = value
    return Object("sdp kernels", call.name, {"$kernel": remaining(m, allowed, blamed)})


def remaining(m: Any, allowed: set[str] | None, given: Abstract) -> Abstract:
    """What the target can run of the kernels that are allowed: the best one, or "none"."""
    if allowed is None:
        return Unknown("which kernels are allowed", given.origins)
    ampere = m.target.gpu is None or m.target.gpu.capability >= (8, 0)
    usable = allowed if ampere else allowed - AMPERE_ONLY
    best = next((name for name in ("flash", "cudnn", "efficient", "math") if name in usable), "none")
    return Const(best, (m.here("literal", "the kernels that are allowed here"),))


@methods("sdp kernels", "enter")
def enter(call: Call) -> Abstract:
    call.machine.emit(Attention, "backend", kernel=call.receiver.attributes["$kernel"])
    return call.receiver  # type: ignore[no-any-return]


@calls("torch.nn.functional.scaled_dot_product_attention")
def scaled_dot_product_attention(call: Call) -> Abstract:
    from t4lint.libraries.torch import call_function

    m = call.machine
    m.emit(
        CallEvent,
        "scaled_dot_product_attention",
        function=call.name,
        arguments={"enable_gqa": call.argument("enable_gqa", 7, Const(False))},
    )
    query = call.arguments.get("query", 0)
    dtype = exact_dtype(m, query) if isinstance(query, Tensor) else ""
    known = Const(dtype) if dtype else Unknown("the dtype of the query")
    m.emit(Attention, "call", implementation=Const("sdpa"), dtype=known)
    return call_function(call)


@calls("torch.nn.attention.flex_attention.flex_attention")
def flex_attention(call: Call) -> Abstract:
    from t4lint.libraries.torch import call_function

    m = call.machine
    options = call.argument("kernel_options", None, Const(None))
    m.emit(CallEvent, "flex_attention", function=call.name, arguments={"kernel_options": options})
    tensors = [value for value in call.arguments.values() if isinstance(value, Tensor)]
    return call_function(call) if tensors else Tensor()
