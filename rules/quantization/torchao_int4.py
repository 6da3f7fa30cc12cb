"""torchao's 4-bit weights are asked for, and their kernels need a newer GPU.

## What happens on a T4

`Int4WeightOnlyConfig` computes in bf16 on tensor cores: depending on the packing `quantize_` ends in an ImportError, in
`Only bfloat16 is supported`, or in `Cannot use tinygemm int4 kernel with a device of compute capability (7, 5), the
minimum compute capability is 8.0`.

## How to fix it

Use bitsandbytes: `BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float16)`.

## When it is right to ignore it

When the model is quantized on the CPU, to be used on another GPU.

## Sources

* torchao 0.18 `quantization/quant_api.py` and its int4 tensor classes. Needs a GPU: not run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Trace


@rule(
    name="torchao-int4",
    severity="error",
    summary="4-bit weights of torchao, whose kernels need a newer GPU",
    message="The int4 kernels of torchao need compute capability 8.0 and bf16, and a T4 has 7.5: an error is raised.",
    help="Use `BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float16)`.",
    triggers=("torchao",),
    reads=(Call,),
)
def torchao_int4(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 0):
        return
    for call in trace.all(Call):
        if call.function == "torchao.quantization.quantize_":
            asked = call.arguments["config"].test(
                lambda name: str(name) in ("Int4WeightOnlyConfig", "int4_weight_only")
            )
            yield Candidate(call, asked)
