"""DeepSpeed's view of the hardware (deepspeed 0.19, `accelerator/cuda_accelerator.py`)."""

from __future__ import annotations

from t4lint.interpret.operators import unknown_from
from t4lint.interpret.values import Abstract, Const, Object, Symbol
from t4lint.libraries.api import Call, calls, methods
from t4lint.libraries.torch_cuda import answer, at_least_ampere, bf16_predicate


@calls("deepspeed.get_accelerator", "deepspeed.accelerator.get_accelerator")
def accelerator(call: Call) -> Abstract:
    return Object("deepspeed accelerator", "deepspeed.get_accelerator")


@methods("deepspeed accelerator", "is_bf16_supported")
def bf16(call: Call) -> Abstract:
    """It asks `torch.cuda.is_bf16_supported()`, which counts emulation."""
    return bf16_predicate(call)


@methods("deepspeed accelerator", "is_fp16_supported", "is_available")
def fp16(call: Call) -> Abstract:
    return answer(call, call.machine.target.gpu is not None, f"on {call.machine.target.name}")


@methods("deepspeed accelerator", "is_triton_supported")
def triton(call: Call) -> Abstract:
    return at_least_ampere(call)


@methods("deepspeed accelerator", "device_name", "current_device_name", "communication_backend_name")
def names(call: Call) -> Abstract:
    what = call.name.rpartition(".")[2]
    if what == "communication_backend_name":
        return Const("nccl")
    return Const("cuda:0" if what == "current_device_name" or call.arguments.positional else "cuda")


@methods("deepspeed accelerator", "*")
def same_in_torch(call: Call) -> Abstract:
    """Most of it is `torch.cuda` under another name."""
    name = call.name.rpartition(".")[2]
    if name in ("device_count", "current_device", "synchronize", "empty_cache", "set_device", "manual_seed_all"):
        return call.machine.call(_torch(name), call.arguments)  # type: ignore[no-any-return]
    return unknown_from(name, *call.arguments.positional)


def _torch(name: str) -> Abstract:
    return Symbol(f"torch.cuda.{name}")
