"""An 8-bit model runs on bf16 activations, which each of its layers casts to fp16.

## What happens on a T4

The layers of LLM.int8 multiply in int8, which a T4 has, and take fp16 activations. Given bf16 they cast at every layer
and back, and say so once: `MatMul8bitLt: inputs will be cast from torch.bfloat16 to float16 during quantization`. The
rest of the model computes in bf16, which a T4 emulates.

## How to fix it

Load the model with `dtype=torch.float16`, and train under `fp16=True` rather than `bf16=True`.

## When it is right to ignore it

For models that overflow in fp16. The rule is off by default: the rules on bf16 name the cause.

## Sources

* bitsandbytes 0.50.2 `autograd/_functions.py` (`MatMul8bitLt`); the message was produced on the CPU
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Engine, Model, Trace


@rule(
    name="llm-int8-bf16-activations",
    severity="note",
    summary="An 8-bit model on bf16 activations, which are cast at each layer",
    message="The activations of this 8-bit model are bf16, and each of its layers casts them to fp16 and back.",
    help="Load the model with `dtype=torch.float16`.",
    triggers=("load_in_8bit", "8bit"),
    reads=(Model, Engine),
    default=False,
    fix="unsafe",
)
def llm_int8_bf16_activations(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or "bfloat16" in trace.target.gpu.native_dtypes:
        return
    mixed = [engine.mixed_precision for engine in trace.all(Engine)]
    for model in trace.all(Model):
        if model.quantization.it != "8bit":
            continue
        in_bf16 = model.dtype.equals("bfloat16")
        for precision in mixed:
            in_bf16 |= precision.equals("bf16")
        yield Candidate(model, in_bf16, blame=model.dtype if model.dtype.it == "bfloat16" else None)
