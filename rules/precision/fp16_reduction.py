"""A square or a variance is computed in fp16, where it overflows early.

## What happens on a T4

The largest number of float16 is 65504, so `x * x` is inf from 256 on. A norm written by hand on a model in fp16,
`x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)`, returns zeros where one of the values is that large. Autocast
computes `pow` and `sum` in float32 and leaves `x * x`, `var` and `std` in float16. In bf16 none of this happens.

## How to fix it

Compute it in float32: `x.float().pow(2)`, or use `torch.nn.functional.rms_norm` and `layer_norm`, which do.

## When it is right to ignore it

When the values are known to be small. Under autocast the rule speaks on request only; by default it speaks where the
model itself is in fp16. Only tensors that are float16 for certain are judged, and a square is not reported where only `tanh`,
`sigmoid`, `erf`, a clamp, a comparison, `exp` of its negative or a number divided by it takes it: inf gives there what any large
number gives. GELU written out is such a case. (Its gradient is finite too with `x * x`; with `x**3` it is NaN from 147 on.)

## Sources

* torch 2.13, executed: a hand-written norm in float16, and the dtypes of these operations under CUDA autocast with fake tensors
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import NOT_SAID, Operation, Trace
from t4lint.trace.questions import first_of_each, on_gpu

ROLES = ("square", "var", "std")


@rule(
    name="fp16-reduction",
    severity="warning",
    summary="A square or variance in fp16, which overflows from 256 on",
    message="This is computed in fp16, whose largest number is 65504: a square overflows from 256 on.",
    help="Compute it in float32 with `.float()`, or use `rms_norm` or `layer_norm` of torch.",
    triggers=("float16", "fp16", "half", "autocast"),
    reads=(Operation,),
    fix="unsafe",
)
def fp16_reduction(trace: Trace) -> Iterator[Candidate]:
    for operation in first_of_each(trace, Operation):
        if operation.role in ROLES:
            half = on_gpu(operation.device) & operation.dtype.equals("float16")
            in_autocast = operation.autocast.it != "none"
            spreads = ~operation.absorbed.equals(True, if_unknown=False if operation.absorbed == NOT_SAID else None)
            yield Candidate(operation, half & spreads, on_request=in_autocast)
