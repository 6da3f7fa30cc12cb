"""A training step computes in float64 on the GPU.

## What happens on a T4

A T4 has one float64 unit for every 32 float32 units: matrix products run at about 0.25 TFLOPS at best, against 42 in
fp16 on the tensor cores. It is seldom meant: `set_default_dtype(torch.float64)`, a `.double()` that was there to match
numpy's arrays, or an array from numpy that was never cast.

## How to fix it

Train in float32, better with fp16 autocast, and cast numpy's arrays with `.float()`. Keep float64 for single sums on the
CPU.

## When it is right to ignore it

When the problem needs float64: some physics and some Gaussian processes do. Tensors in float64 that stay on the CPU,
and metrics, are not reported.

## Sources

* NVIDIA Turing whitepaper (2018): FP64 at 1/32 of FP32 on TU10x; measured fp16 rate on T4s:
  zzc0721/torch-performance-test-data. float64 was not measured on a T4 here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Model, Step, Switch, Trace, Value
from t4lint.trace.questions import on_gpu


@rule(
    name="float64-on-cuda",
    severity="warning",
    summary="Training in float64 on the GPU, at a thirty-second of the float32 rate",
    message="{share:.0%} of the arithmetic of a training step runs in float64, which a T4 does at a thirty-second of its float32 rate.",
    help="Train in float32, better with fp16 autocast.",
    triggers=("double", "float64"),
    reads=(Step, Model, Switch),
    fix="unsafe",
)
def float64_on_cuda(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None:
        return
    chosen: Value | None = None
    for step in trace.events:
        if isinstance(step, Model) and step.role == "cast":
            chosen = step.dtype if step.dtype.it == "float64" else None
        elif isinstance(step, Switch) and step.name == "torch.set_default_dtype":
            chosen = step.value if step.value.it == "float64" else None
        if not isinstance(step, Step):
            continue
        gpu = on_gpu(step.device)
        slow = step.math.test(lambda shares: shares.get("float64", 0.0) > 0.5)
        yield Candidate(
            step,
            gpu & slow,
            blame=chosen or step.math,
            words={"share": step.math.it.get("float64", 0.0) if step.math.known else 1.0},
        )
