"""A constant that does not exist in fp16 is written into an fp16 tensor.

## What happens on a T4

fp16 ends at 65504. `scores.masked_fill(mask, -1e9)` on fp16 scores, and `torch.full(..., -1e9, dtype=torch.float16)`,
end in `RuntimeError: value cannot be converted to type c10::Half without overflow`. Under fp16 autocast the result of
a matrix product is fp16, so attention written by hand fails in its first forward pass. In bf16 and in fp32 the same
line works, and so the code arrives from a newer GPU without a sign of it.

## How to fix it

For a mask before a softmax write `torch.finfo(scores.dtype).min`, or `float("-inf")` where no row is masked entirely.
Or hand a boolean mask to `F.scaled_dot_product_attention`.

## When it is right to ignore it

When the tensor is cast to float32 before, in a place that is not seen. Only tensors whose dtype is certain are
judged: results of matrix products under fp16 autocast or in an fp16 model, and tensors created as fp16.

## Sources

* torch 2.13: `masked_fill`, `masked_fill_` and `full` executed on fp16 tensors, with -65504, -1e9 and -inf
* NVIDIA/apex#1052, fairseq#3575, darts#3081, lerobot#710 report it
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Operation, Trace

LARGEST_FP16 = 65504.0


@rule(
    name="mask-constant-beyond-fp16",
    severity="error",
    summary="A constant beyond the range of fp16, written into an fp16 tensor",
    message="The tensor is fp16 here, which ends at 65504, and {constant} goes into it with `{function}`: that raises a RuntimeError.",
    help="Use `torch.finfo(x.dtype).min` for a mask before a softmax, or write into a float32 tensor.",
    triggers=("masked_fill", "full"),
    reads=(Operation,),
    fix="safe",
)
def mask_constant_beyond_fp16(trace: Trace) -> Iterator[Candidate]:
    for operation in trace.all(Operation):
        if operation.role not in ("masked_fill", "full"):
            continue
        beyond = operation.constant.test(_beyond)
        half = operation.dtype.equals("float16")
        yield Candidate(
            operation,
            beyond & half if beyond.holds is not False else beyond,
            blame=operation.constant,
            words={"constant": operation.constant.it, "function": operation.role},
        )


def _beyond(constant: object) -> bool:
    if isinstance(constant, bool) or not isinstance(constant, (int, float)):
        return False
    return math.isfinite(constant) and abs(constant) > LARGEST_FP16
