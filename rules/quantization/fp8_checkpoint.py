"""The weights are stored or quantized in fp8, which a T4 does not have.

## What happens on a T4

fp8 needs compute capability 8.9. For a checkpoint such as `Qwen/Qwen3-8B-FP8`, or with `FineGrainedFP8Config`,
transformers only warns, and dequantizes the weights to bf16 while it loads them: twice the memory that was hoped for,
in a type that a T4 emulates. `FbgemmFp8Config` refuses with a ValueError.

## How to fix it

Load the checkpoint that the fp8 one was made from, with `BitsAndBytesConfig(load_in_4bit=True,
bnb_4bit_compute_dtype=torch.float16)` or in `torch.float16` if it fits.

## When it is right to ignore it

When a small fp8 checkpoint is only used for a test. That a checkpoint is stored in fp8 is told by its name; those that
end in `-FP8` and come from a publisher with another format are not reported.

## Sources

* transformers 5.24 `quantizers/quantizer_finegrained_fp8.py` and `quantizer_fbgemm_fp8.py`, both executed with the capability of a T4
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Model, Trace


@rule(
    name="fp8-checkpoint",
    severity="warning",
    summary="fp8 weights, which transformers turns into bf16 on a T4 or refuses",
    message="A T4 has no fp8: {effect}.",
    help="Load the original checkpoint in 4 bits with fp16 compute, or in `torch.float16`.",
    triggers=("FP8", "fp8", "Fp8"),
    reads=(Model,),
)
def fp8_checkpoint(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 9):
        return
    for model in trace.all(Model):
        if model.role != "load":
            continue
        refused = model.quantization.it == "fbgemm_fp8"
        yield Candidate(
            model,
            model.quantization.within(("fp8", "fbgemm_fp8")),
            blame=model.quantization,
            severity="error" if refused else None,
            words={
                "effect": "transformers raises a ValueError for this configuration"
                if refused
                else "transformers dequantizes these weights to bf16, which is twice the memory and emulated"
            },
        )
