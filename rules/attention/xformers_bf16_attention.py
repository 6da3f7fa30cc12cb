"""Attention of xformers is called on bf16 tensors, for which it has no kernel on a T4.

## What happens on a T4

The kernels that xformers has for a T4 take fp16 and float32. For bf16 `memory_efficient_attention` raises
`NotImplementedError: No operator found`, with the reason `bf16 is only supported on A100+ GPUs`.

## How to fix it

Cast the tensors to fp16, or use `torch.nn.functional.scaled_dot_product_attention` in fp16.

## When it is right to ignore it

When the tensors are cast in a place that is not seen. Only tensors whose dtype is certain are judged.

## Sources

* xformers 0.0.35 `ops/fmha/common.py`. Needs a GPU: not run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Attention, Trace


@rule(
    name="xformers-bf16-attention",
    severity="error",
    summary="xformers attention on bf16 tensors, which has no kernel on a T4",
    message="xformers has no bf16 attention for a T4: this call ends in `No operator found`.",
    help="Cast query, key and value to `torch.float16`.",
    triggers=("xformers",),
    reads=(Attention,),
)
def xformers_bf16_attention(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or "bfloat16" in trace.target.gpu.native_dtypes:
        return
    for attention in trace.all(Attention):
        if attention.role == "call" and attention.implementation.it == "xformers":
            yield Candidate(attention, attention.dtype.equals("bfloat16"))
