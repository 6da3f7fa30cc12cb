"""torchao is asked for float8, and a T4 has none.

## What happens on a T4

`convert_to_float8_training` changes the layers without a look at the GPU, and the first matrix product ends in
`torch._scaled_mm is only supported on CUDA devices with compute capability >= 9.0 or 8.9`. Dynamic float8 quantization
raises an AssertionError as soon as `quantize_` is called.

## How to fix it

Train in fp16 with autocast and a gradient scaler. To shrink a frozen model use int8 or bitsandbytes' 4 bits.

## When it is right to ignore it

`Float8LinearConfig(emulate=True)` runs anywhere, slowly, and is not reported.

## Sources

* torchao 0.18 `float8/float8_linear_utils.py`, `quantization/quant_api.py`; torch 2.15 `aten/src/ATen/native/cuda/Blas.cpp`.
  Needs a GPU: not run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Trace


@rule(
    name="torchao-float8",
    severity="error",
    summary="float8 of torchao, which a T4 does not have",
    message="float8 matrix products need compute capability 8.9 and a T4 has 7.5: torchao raises an error.",
    help="Train in fp16 with autocast and a gradient scaler.",
    triggers=("torchao",),
    reads=(Call,),
)
def torchao_float8(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 9):
        return
    for call in trace.all(Call):
        if call.function.endswith(".convert_to_float8_training"):
            yield Candidate(call, call.arguments["emulate"].equals(False))
        elif call.function == "torchao.quantization.quantize_":
            dynamic = call.arguments["config"].test(lambda name: str(name).startswith("Float8DynamicActivation"))
            yield Candidate(call, dynamic)
