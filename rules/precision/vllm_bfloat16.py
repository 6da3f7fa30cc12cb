"""A vLLM engine is asked for bfloat16, and refuses it on a T4.

## What happens on a T4

vLLM asks for compute capability 8.0 before it builds a bf16 engine: `ValueError: Bfloat16 is only supported on GPUs
with compute capability of at least 8.0. Your Tesla T4 GPU has compute capability 7.5.` It stops before the weights are
loaded.

## How to fix it

Write `dtype="half"`. With `dtype="auto"` current versions of vLLM fall back to fp16 by themselves, and to fp32 for
families that overflow (Gemma 2 and 3, GLM-4, PLaMo-2).

## When it is right to ignore it

When the engine is built on another GPU than the one that trains.

## Sources

* vLLM (August 2026) `vllm/platforms/cuda.py` (`check_if_supports_dtype`), `vllm/config/model.py`; vllm-project/vllm#1157.
  Needs a GPU: not run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Trace

ENGINES = ("vllm.LLM", "vllm.EngineArgs", "vllm.AsyncEngineArgs")


@rule(
    name="vllm-bfloat16",
    severity="error",
    summary="A vLLM engine in bfloat16, which it refuses on a T4",
    message="`{engine}(dtype=bfloat16)` ends in a ValueError on a T4: vLLM asks for compute capability 8.0.",
    help='Write `dtype="half"`.',
    triggers=("vllm",),
    reads=(Call,),
    fix="safe",
)
def vllm_bfloat16(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 0):
        return
    for call in trace.all(Call):
        if call.function in ENGINES and "dtype" in call.arguments:
            dtype = call.arguments["dtype"]
            asked = dtype.test(lambda it: str(it).removeprefix("torch.") in ("bfloat16", "bf16"))
            yield Candidate(call, asked, blame=dtype, words={"engine": call.function.rpartition(".")[2]})
