"""Libraries of kernels and engines that ask for a GPU: what matters of them is what the program asks for.

Read in xformers 0.0.35, vLLM (August 2026), torchao 0.18 and transformer-engine 2.20.2.
"""

from __future__ import annotations

from typing import Any

from t4lint.interpret.operators import tensor_of
from t4lint.interpret.values import NONE, Abstract, Const, Object, Tensor, Unknown
from t4lint.libraries.api import Call, aliases, calls
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
