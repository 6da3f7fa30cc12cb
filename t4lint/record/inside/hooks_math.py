"""FLOPs of forward matmuls and convolutions, by the dtype they ran in and by the dtype that CUDA would have used.

Functions are wrapped instead of a dispatch mode pushed: a mode that is entered in one hook and left in another breaks
the nest of the program's own modes, and changes what torch.compile does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from . import journal, phantom, stop
from .frames import caller_is_user, look
from .journal import fact
from .probe import dress
from .state import state

Cost = Callable[[tuple[Any, ...], dict[str, Any], Any], Any]


def install(torch: Any) -> None:
    functional, tensor = torch.nn.functional, torch.Tensor
    plan: list[tuple[Any, str, Cost]] = [(functional, "linear", _matmul)]
    for name in ("conv1d", "conv2d", "conv3d"):
        plan += [(functional, name, _convolution), (torch, name, _convolution)]
    for name in ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"):
        plan += [(functional, name, _transposed), (torch, name, _transposed)]
    for name in ("matmul", "mm", "bmm"):
        plan += [(torch, name, _matmul), (tensor, name, _matmul)]
    for name in ("addmm", "baddbmm", "addbmm"):
        plan += [(torch, name, _added), (tensor, name, _added)]
    plan += [(tensor, "__matmul__", _matmul), (functional, "scaled_dot_product_attention", _attention)]
    plan += [(torch._VF, name, _recurrent) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")]
    for owner, name, cost in plan:
        _count(torch, owner, name, cost)


def _count(torch: Any, owner: Any, name: str, cost: Cost) -> None:
    """Probe one function. Tensor subclasses of others get the probe as the function, so that their tables match it."""
    original = getattr(owner, name, None)
    if original is None or getattr(original, "_t4lint", False):
        return
    is_compiling = torch.compiler.is_compiling
    has_torch_function = torch.overrides.has_torch_function
    handle = torch.overrides.handle_torch_function
    plain = (torch.Tensor, torch.nn.Parameter)

    def probe(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(*args, **kwargs)
        stop.if_pending()
        if has_torch_function(args[:2]) and any(_foreign(value, plain) for value in args[:2]):
            return handle(probe, args[:2], *args, **kwargs)
        result = original(*args, **kwargs)
        try:
            if args and (
                type(args[0]) in plain or phantom.there()
            ):  # fakes and symbolic tensors would make guards of our arithmetic
                _tally(torch, args, kwargs, result, cost)
        except Exception as error:
            journal.trouble(f"math of {name}", error)
        return result

    dress(probe, original)
    setattr(owner, name, probe)
    _keep_scriptable(torch, original, probe)


def _foreign(value: Any, plain: tuple[type, ...]) -> bool:
    """A tensor subclass that is neither ours to count nor torch's own."""
    kind = type(value)
    return kind not in plain and hasattr(kind, "__torch_function__") and not kind.__module__.startswith("torch.")


def _keep_scriptable(torch: Any, original: Any, probe: Any) -> None:
    """torch.jit.script knows builtins by identity: let it take the probe for the original."""
    builtins = torch.jit._builtins
    operation = builtins._find_builtin(original)
    if operation is not None:
        builtins._register_builtin(probe, operation)


def _tally(torch: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, cost: Cost) -> None:
    if state.depth or phantom.within():
        return  # what activation checkpointing computes again, or what belongs to another operation
    flops = cost(args, kwargs, result)
    value = args[0]
    device = value.device.type
    real = _name(value.dtype)
    lowered = torch.is_autocast_enabled(device) and real != "float64"
    ran = _name(torch.get_autocast_dtype(device)) if lowered else real
    region = state.regions.dtype
    asked = region if region != "none" and real != "float64" else real
    grad = torch.is_grad_enabled()
    _add(state.asked if grad else state.asked_without_grad, asked, flops)
    _add(state.ran if grad else state.ran_without_grad, ran, flops)
    if grad:
        _add(state.forward, asked, flops)
        _add(state.forward_ran, ran, flops)
        state.region = region if region != "none" else state.region
    if state.phase in ("setup", "optimizer"):
        state.phase = "forward"


def _add(table: dict[str, float], dtype: str, flops: float) -> None:
    table[dtype] = table.get(dtype, 0.0) + flops


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _matmul(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    return 2.0 * result.numel() * args[0].shape[-1]


def _added(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    left: Any = args[1] if len(args) > 1 else kwargs.get("mat1", kwargs.get("batch1"))
    return 2.0 * result.numel() * left.shape[-1]


def _weight(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[1] if len(args) > 1 else kwargs["weight"]


def _convolution(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    weight = _weight(args, kwargs)
    return 2.0 * result.numel() * weight.numel() / weight.shape[0]


def _transposed(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    weight = _weight(args, kwargs)
    return 2.0 * args[0].numel() * weight.numel() / weight.shape[0]


def _attention(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    query = args[0]
    key = args[1] if len(args) > 1 else kwargs["key"]
    if query.is_cuda and not phantom.there():
        state.counts[f"attention {_kernel(args, kwargs)}"] += 1
    if caller_is_user():
        journal.bounded(
            "call",
            look(),
            function="torch.nn.functional.scaled_dot_product_attention",
            arguments={"enable_gqa": bool(kwargs.get("enable_gqa", False))},
            raises=None,
        )
        if phantom.there():
            return 2.0 * (query.numel() + result.numel()) * key.shape[-2]  # it tells of the kernel itself
        dtype = state.regions.dtype
        fact(
            "attention",
            look(),
            role="call",
            implementation="sdpa",
            dtype=dtype if dtype != "none" else _name(query.dtype),
            head_dim=query.shape[-1],
            length=query.shape[-2],
        )
    return 2.0 * (query.numel() + result.numel()) * key.shape[-2]


# of torch.nn.attention.SDPBackend
KERNELS = {0: "math", 1: "flash", 2: "efficient", 3: "cudnn"}


def _kernel(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The kernel that torch has just taken on a GPU."""
    torch: Any = sys.modules["torch"]
    return KERNELS.get(int(torch._fused_sdp_choice(*args, **kwargs)), "unknown")


def _recurrent(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    """Each weight meets each element of the sequence once."""
    weights = next(value for value in args if isinstance(value, (list, tuple)) and len(value) > 1)
    steps = args[0].numel() / args[0].shape[-1]
    return 2.0 * steps * sum(weight.numel() for weight in weights if weight.dim() == 2)
