"""A Triton kernel of the project uses `tl.dot`, which no longer reaches the tensor cores of a T4.

## What happens on a T4

Triton 3.3 (torch 2.7) removed the tensor-core path for Turing. `tl.dot` is still right, but runs on plain multiply-add
instructions, far below what cuBLAS reaches with the same shapes in fp16. The compiler remarks on it: `Dot op using MMA
for compute capability 75 has been deprecated. It falls back to the FMA path.`

## How to fix it

Use `torch.matmul` for the product and Triton for what is around it, or stay on torch 2.6 with Triton 3.2.

## When it is right to ignore it

When the kernel is bound by memory and the product is a small part of it.

## Sources

* triton 3.9 `lib/Dialect/TritonGPU/Transforms/AccelerateMatmul.cpp`; triton-lang/triton#5066 and #10918. Needs a GPU: not
  run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Fact, Trace


@rule(
    name="triton-tl-dot",
    severity="warning",
    summary="`tl.dot` in a Triton kernel, which no longer uses the tensor cores of a T4",
    message="Since Triton 3.3 `tl.dot` does not use the tensor cores of a T4: this kernel multiplies far more slowly than cuBLAS.",
    help="Use `torch.matmul` for the product, or stay on torch 2.6 with Triton 3.2.",
    triggers=("triton",),
    reads=(Call,),
)
def triton_tl_dot(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 0):
        return
    recent = trace.version_at_least("torch", "2.7")
    if "triton" in trace.versions:
        recent = trace.version_at_least("triton", "3.3")
    seen = set()
    for call in trace.all(Call):
        if call.function == "triton.language.dot" and call.key not in seen:
            seen.add(call.key)
            yield Candidate(call, Fact(recent.holds))
