"""Libraries of kernels and engines that ask for a GPU: what matters of them is what the program asks for.

Read in xformers 0.0.35, vLLM (August 2026), torchao 0.18, transformer-engine 2.20.2 and triton 3.2 to 3.9.
"""

from __future__ import annotations

from typing import Any

from t4lint.interpret.operators import tensor_of
from t4lint.interpret.values import NONE, Abstract, Const, Function, Object, Symbol, Tensor, Unknown
from t4lint.libraries.api import Call, aliases, calls, methods
from t4lint.libraries.torch_operations import exact_dtype
from t4lint.trace import Attention
from t4lint.trace import Call as CallEvent

aliases({
    "torchao.quantization.quant_api": "torchao.quantization",
    "vllm.engine.arg_utils": "vllm",
    "vllm.entrypoints.llm": "vllm",
    "xformers.ops.fmha": "xformers.ops",
})  # fmt: skip


def said(call: Call, **more: Any) -> None:
    """Say that the call is made, with the arguments as they are written."""
    m = call.machine
    given = {name: m.resolve(value) for name, value in {**call.arguments.keywords, **more}.items()}
    m.emit(CallEvent, call.name.rpartition(".")[2], function=call.name, arguments=given)


# --- xformers ----------------------------------------------------------------------------------------------------


@calls("xformers.ops.memory_efficient_attention", "xformers.ops.memory_efficient_attention_forward")
def memory_efficient_attention(call: Call) -> Abstract:
    m = call.machine
    query = call.arguments.get("query", 0)
    dtype = exact_dtype(m, query) if isinstance(query, Tensor) else ""
    m.emit(
        Attention,
        "call",
        implementation=Const("xformers"),
        dtype=Const(dtype) if dtype else Unknown("the dtype of the query"),
    )
    tensors = [value for value in call.arguments.values() if isinstance(value, Tensor)]
    return tensor_of(*tensors) if tensors else Tensor()


# --- vLLM --------------------------------------------------------------------------------------------------------


@calls("vllm.LLM", "vllm.EngineArgs", "vllm.AsyncEngineArgs")
def engine(call: Call) -> Abstract:
    said(call)
    return Object("vllm", call.name)


# --- torchao and Transformer Engine ------------------------------------------------------------------------------


@calls("torchao.float8.convert_to_float8_training")
def float8_training(call: Call) -> Abstract:
    config = call.argument("config", None)
    emulate: Abstract = Const(False)
    if isinstance(config, Object) and config.kind == "torchao config":
        emulate = call.machine.resolve(config.attributes.get("emulate") or Const(False))
    elif isinstance(config, Unknown):
        emulate = config
    said(call, emulate=emulate)
    return call.argument("module", 0)


@calls("torchao.quantization.quantize_")
def quantize(call: Call) -> Abstract:
    config = call.argument("config", 1)
    known = isinstance(config, Object) and config.kind == "torchao config"
    name = Const(config.name.rpartition(".")[2]) if known else Unknown("the configuration")  # type: ignore[attr-defined]
    said(call, config=name)
    return NONE


@calls("torchao.quantization.*", "torchao.float8.*")
def torchao_config(call: Call) -> Abstract:
    last = call.name.rpartition(".")[2]
    if last.endswith(("Config", "weight_only", "_weight")):
        return Object("torchao config", call.name, dict(call.arguments.keywords))
    return Unknown(f"what {call.name} returns is not known")


@calls("transformer_engine.pytorch.fp8_autocast", "transformer_engine.pytorch.autocast")
def fp8_autocast(call: Call) -> Abstract:
    # enabled is the first argument of both (transformer-engine 1.0 to 2.20)
    said(call, enabled=call.argument("enabled", 0, Const(True)))
    return Object("null context", call.name, {"value": NONE})


# --- triton ------------------------------------------------------------------------------------------------------


def inside_kernel(m: Any) -> bool:
    """Is the code that is being read the body of a `@triton.jit` function?"""
    for frame in reversed(m.frames):
        for decorator in frame.function.decorators if isinstance(frame.function, Function) else ():
            name = decorator.name if isinstance(decorator, (Symbol, Object)) else ""
            if name in ("triton.jit", "triton.runtime.jit.jit"):
                return True
    return False


@calls("triton.jit")
def jit(call: Call) -> Abstract:
    function = call.arguments.get("fn", 0)
    return function if function is not None else Object("decorator", "triton.jit")


@calls("triton.language.dot", "triton.language.dot_scaled")
def dot(call: Call) -> Abstract:
    if inside_kernel(call.machine):
        said(call)
    return Tensor()


# dtypes that a kernel may compute in and a T4 does not have; a comparison with one computes nothing
AMPERE_DTYPES = ("triton.language.bfloat16", "triton.language.float8e4nv")


def say_dtypes(call: Call) -> None:
    """Say which of these dtypes a kernel casts to or makes a block of."""
    m = call.machine
    for value in call.arguments.values():
        dtype = m.resolve(value)
        if isinstance(dtype, Symbol) and dtype.name in AMPERE_DTYPES and inside_kernel(m):
            m.emit(CallEvent, dtype.name.rpartition(".")[2], function=dtype.name, arguments={"dtype": dtype})


@calls(
    "triton.language.zeros", "triton.language.full", "triton.language.cast", "triton.language.zeros_like",
    "triton.language.pointer_type",
)  # fmt: skip
def block(call: Call) -> Abstract:
    say_dtypes(call)
    return Unknown(f"what {call.name} returns is not known")


@methods("unknown", "to")
def cast(call: Call) -> Abstract:
    """`.to(dtype)` of something unknown: inside a kernel it is a block."""
    from t4lint.interpret.calls import unresolved

    m = call.machine
    if inside_kernel(m):
        say_dtypes(call)
    return unresolved(m, m.attribute(call.receiver, "to"), call.arguments)


# --- Liger, flash-linear-attention, Apple's fused cross entropy ---------------------------------------------------


@calls(
    "cut_cross_entropy.linear_cross_entropy", "cut_cross_entropy.LinearCrossEntropy", "cut_cross_entropy.transformers.cce_patch",
    "liger_kernel.transformers.LigerGroupNorm", "liger_kernel.transformers.group_norm.LigerGroupNorm",
    "liger_kernel.transformers.functional.liger_group_norm",
)  # fmt: skip
def fused(call: Call) -> Abstract:
    said(call, impl=call.argument("impl", None, Const("cce")))
    tensors = [value for value in call.arguments.values() if isinstance(value, Tensor)]
    return tensor_of(*tensors) if tensors else Unknown(f"what {call.name} returns is not known")


@calls("fla.layers.*", "fla.ops.*", "fla.models.*", "fla.modules.*")
def linear_attention(call: Call) -> Abstract:
    said(call)
    tensors = [value for value in call.arguments.values() if isinstance(value, Tensor)]
    return tensor_of(*tensors) if tensors else Unknown(f"what {call.name} returns is not known")


@calls(
    "triton.*",
    "liger_kernel.*",
    "cut_cross_entropy.*",
    "fla.*",
    "xformers.*",
    "vllm.*",
    "torchao.*",
    "transformer_engine.*",
)
def anything(call: Call) -> Abstract:
    return Unknown(f"what {call.name} returns is not known")
