"""The weights are in a 4-bit float format for newer GPUs, such as those of gpt-oss.

## What happens on a T4

transformers takes MXFP4 weights on a T4. Without `kernels` and Triton 3.4 it dequantizes them to bf16, and then even
gpt-oss-20b needs about 40 GiB. With them it runs kernels of Triton that emulate the format; they compile for minutes and
use no tensor cores, and Triton's maintainers do not support this GPU. NVFP4 and `FPQuantConfig` without
pseudo-quantization need a much newer GPU and raise an error.

## How to fix it

Use a model that fits in 4 bits of bitsandbytes with fp16 compute. For gpt-oss-20b itself, a copy that was quantized with
bitsandbytes (`unsloth/gpt-oss-20b-unsloth-bnb-4bit`) and unsloth, which has a path for GPUs without bf16.

## When it is right to ignore it

When you only generate a few tokens and can wait.

## Sources

* transformers 4.55 to 5.24 `quantizers/quantizer_mxfp4.py` and 5.24 `quantizer_fp_quant.py`, executed with the capability of a
  T4; triton-lang/triton#10918. The speed needs a T4: not measured here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Fact, Model, Trace, Value


@rule(
    name="mxfp4-checkpoint",
    severity="warning",
    summary="Weights in MXFP4 or NVFP4, which a T4 can only emulate or refuses",
    message="{effect}.",
    help="Use a copy of the model that is quantized with bitsandbytes, or a smaller model.",
    triggers=("gpt-oss", "Mxfp4Config", "FPQuantConfig"),
    reads=(Model, Call),
)
def mxfp4_checkpoint(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (9, 0) or "unsloth" in trace.imported:
        return
    for event in trace.events:
        if isinstance(event, Model) and event.role == "load":
            effect = "A T4 has no MXFP4: these weights become bf16, or run in emulation without tensor cores"
            stored = event.quantization.equals("mxfp4")
            yield Candidate(event, stored, blame=event.quantization, words={"effect": effect})
        elif isinstance(event, Call) and event.function == "transformers.FPQuantConfig":
            effect = "FPQuant needs a GPU with hardware for 4-bit floats, and raises an error on a T4"
            yield Candidate(event, _refused(event), severity="error", words={"effect": effect})


def _refused(call: Call) -> Fact:
    """All but the emulated form of MXFP4 (transformers 5.24 defaults: real quantization, NVFP4 forward)."""
    emulated = call.arguments.get("pseudoquantization", Value(False)).equals(True)
    return ~(emulated & call.arguments.get("forward_dtype", Value("nvfp4")).equals("mxfp4"))
