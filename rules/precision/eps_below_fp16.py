"""A small number that guards a division or a logarithm is too small for fp16, and vanishes.

## What happens on a T4

The smallest number of float16 is 6e-8. `1e-8` added to a tensor in float16, or given to `clamp(min=...)`, becomes 0:
`log(x + 1e-8)` is -inf where x is 0, and `1 / (x + 1e-8)` is inf. The same line is right in bf16 and in float32.

## How to fix it

Use at least `1e-6`, or compute in float32: `x.float() + 1e-8`.

## When it is right to ignore it

When the tensor cannot be 0. Only tensors are judged that are float16 for certain: results of a matmul or a linear layer
under fp16 autocast, and what was cast to float16. An `eps` of an optimizer is another matter.

## Sources

* torch 2.13, executed: `x + 1e-8` and `clamp(min=1e-8)` in float16, and what `log` and a division make of it
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Operation, Trace
from t4lint.trace.questions import first_of_each, on_gpu


@rule(
    name="eps-below-fp16",
    severity="warning",
    summary="An epsilon that is 0 in fp16",
    message="`{eps}` is 0 in fp16: it does not guard this operation, which gives inf or -inf where the tensor is 0.",
    help="Use at least `1e-6`, or compute in float32 with `.float()`.",
    triggers=("float16", "fp16", "half", "autocast"),
    reads=(Operation,),
    fix="unsafe",
)
def eps_below_fp16(trace: Trace) -> Iterator[Candidate]:
    for operation in first_of_each(trace, Operation):
        if operation.role == "lost epsilon":
            lost = on_gpu(operation.device) & operation.dtype.equals("float16")
            yield Candidate(operation, lost, blame=operation.constant, words={"eps": operation.constant.it})
