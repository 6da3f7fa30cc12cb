"""flex_attention is used, whose kernels hardly fit a T4.

## What happens on a T4

flex_attention is compiled into a Triton kernel. Its default tiles for a GPU before Ampere come to the limit of 64 KiB of
shared memory that a T4 has: `No valid triton configs. OutOfMemoryError: out of resource: ... Required: 65536 Hardware
limit:65536`. Where the kernel does start, its products do not use the tensor cores since Triton 3.3 (torch 2.7). Without
`torch.compile` it stores all scores, and in bf16 compilation is skipped.

## How to fix it

Use `attn_implementation="sdpa"`, or `scaled_dot_product_attention` with a mask. To stay with it give it smaller tiles:
`kernel_options={"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_M1": 32, "BLOCK_N1": 32, "BLOCK_M2": 32, "BLOCK_N2": 32}`.

## When it is right to ignore it

When it ran on a T4 with your head size. A call with `kernel_options` is not reported.

## Sources

* torch 2.9 to 2.15 `torch/_inductor/template_heuristics/triton.py`, whose default tiles were read with the capability of a
  T4 on 2.13; unsloth 2026.10 `flex_attention/utils.py` for the message and the tiles. Needs a GPU: not run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Attention, Call, Trace
from t4lint.trace.questions import first_of_each


@rule(
    name="flex-attention",
    severity="warning",
    summary="flex_attention, whose default tiles hardly fit a T4",
    message="The default tiles of flex_attention come to the 64 KiB of shared memory of a T4, and its products do not use the "
    "tensor cores: it fails or is slow.",
    help='Use `attn_implementation="sdpa"`, or give `kernel_options` with tiles of 32.',
    triggers=("flex_attention",),
    reads=(Attention, Call),
    fix="unsafe",
)
def flex_attention(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 0):
        return
    for attention in first_of_each(trace, Attention):
        if attention.role == "config":
            chosen = attention.implementation.equals("flex_attention")
            yield Candidate(attention, chosen, blame=attention.implementation)
    for call in first_of_each(trace, Call):
        if call.function.endswith("flex_attention.flex_attention"):
            yield Candidate(call, call.arguments["kernel_options"].equals(None))
