"""A kernel for quantized weights is chosen that has no form for a T4.

## What happens on a T4

The Marlin kernel for AWQ and QQQ need compute capability 8.0, Machete needs 9.0: GPTQModel, which transformers 5 uses
for both formats, refuses them when the model is loaded. The Marlin kernel for GPTQ does run on a T4, in fp16 only:
`GPTQ Marlin on Turing (compute capability 7.5) supports dtype=torch.float16 only`.

## How to fix it

Leave the choice to the library: `backend="auto"`, or no `backend` at all. For AWQ on a T4 that is GEMM; for GPTQ in fp16
it is Marlin or ExLlama.

## When it is right to ignore it

When the configuration is used on another GPU only.

## Sources

* GPTQModel (August 2026) `models/loader.py` and `nn_modules/qlinear`; names of the backends: transformers 5.24
  `utils/quantization_config.py`, executed. The refusal itself needs a GPU and gptqmodel: not run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Call, Model, Trace

ALWAYS = {"AwqConfig": ("marlin", "machete"), "GPTQConfig": ("machete", "qqq")}


@rule(
    name="unsupported-quantization-kernel",
    severity="error",
    summary="A kernel for AWQ or GPTQ weights that a T4 cannot run",
    message="The kernel `{backend}` does not run on a T4{condition}: loading the model ends in an error.",
    help='Use `backend="auto"`, which picks a kernel that the GPU has.',
    triggers=("AwqConfig", "GPTQConfig"),
    reads=(Call, Model),
    fix="unsafe",
)
def unsupported_quantization_kernel(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 0):
        return
    for call in trace.all(Call):
        name = call.function.rpartition(".")[2]
        if name not in ALWAYS or "backend" not in call.arguments:
            continue
        backend = call.arguments["backend"]
        refused = backend.within(ALWAYS[name])
        condition = ""
        if name == "GPTQConfig" and refused.holds is False:
            condition = " in bf16"
            loaded = [model for model in trace.all(Model) if model.quantization.it == "gptq"]
            in_bf16 = loaded[0].requested_dtype.equals("bfloat16") if len(loaded) == 1 else FALSE
            refused = backend.equals("marlin") & in_bf16
        yield Candidate(call, refused, blame=backend, words={"backend": backend.it, "condition": condition})
