"""A Triton kernel of the project computes in a type that a T4 does not have.

## What happens on a T4

`tl.float8e4nv` needs compute capability 8.9: Triton lists only `fp8e5` and `fp8e4b15` for a T4, and the kernel does not
compile. bf16 in a kernel ended for a long time in `ptxas ... Feature '.bf16' requires .target sm_80 or higher`; newer
releases of Triton may compile it by way of float32, which nobody has shown to work on a T4.

## How to fix it

Use `tl.float16` and `tl.float32`. Take the type from the tensors (`x_ptr.dtype.element_ty`) instead of writing it.

## When it is right to ignore it

When the cast stands under a test that is false on a T4 but that cannot be decided from source, such as a `constexpr`
argument. A comparison with one of the types is not reported.

## Sources

* triton 3.9 `backends/nvidia/compiler.py` (fp8 types by capability); pytorch/pytorch#118122 for the message of ptxas.
  Needs a GPU: not run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Trace
from t4lint.trace.questions import first_of_each

TYPES = {"triton.language.float8e4nv": ("fp8", (8, 9)), "triton.language.bfloat16": ("bf16", (8, 0))}


@rule(
    name="triton-unsupported-dtype",
    severity="error",
    summary="A Triton kernel in bf16 or fp8, which a T4 does not have",
    message="This kernel computes in {dtype}, which a T4 does not have: {effect}.",
    help="Use `tl.float16` or `tl.float32` in the kernel.",
    triggers=("float8e4nv", "bfloat16"),
    reads=(Call,),
)
def triton_unsupported_dtype(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None:
        return
    for call in first_of_each(trace, Call):
        dtype, needs = TYPES.get(call.function, ("", (0, 0)))
        if trace.target.gpu.capability >= needs:
            continue
        yield Candidate(
            call,
            call.arguments["dtype"].test(lambda _: True),
            severity="error" if dtype == "fp8" else "warning",
            words={
                "dtype": dtype,
                "effect": "it does not compile" if dtype == "fp8" else "it may not compile, and is slow where it does",
            },
        )
