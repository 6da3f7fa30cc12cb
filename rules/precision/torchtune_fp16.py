"""A training recipe of torchtune is asked for fp16, which it refuses.

## What happens on a T4

The recipes of torchtune train with all weights in the dtype that the configuration names, without a scaler, and so refuse fp16: the
run ends in a ValueError before the model is loaded. What they offer instead is bf16, which a T4 emulates, and fp32, which has a quarter of
the memory and an eighth of the speed to spare. torchtune does not suit a T4.

## How to fix it

`dtype: fp32` for a model that is small enough (0.5 billion parameters with adapters); else train with transformers, TRL or unsloth,
which do fp16 with a scaler.

## When it is right to ignore it

Where the configuration is for one of torchtune's recipes that do not train. Only configurations with an optimizer are reported.

## Sources

* torchtune 0.6.1, source of the recipes: every training recipe raises for `torch.float16`, those that generate and quantize do not
* read as a file: `verify` has no verdict on it
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Fact, Trace, TrainerFile, Value

# names that torchtune's `get_dtype` takes (torchtune 0.6.1, training/precision.py)
SIXTEEN_BIT = ("fp16",)


@rule(
    name="torchtune-fp16",
    severity="error",
    summary="torchtune's training recipes refuse fp16",
    message="torchtune refuses fp16 in its training recipes: the run ends in a ValueError before the model is loaded.",
    help="Use `dtype: fp32` for a small model, or train with transformers or TRL, which have a scaler.",
    triggers=("_component_",),
    reads=(TrainerFile,),
    verifiable=False,
)
def torchtune_fp16(trace: Trace) -> Iterator[Candidate]:
    for file in trace.all(TrainerFile):
        if file.role == "torchtune":
            trains = Fact("optimizer._component_" in file.fields)
            dtype = file.fields.get("dtype", Value(None))
            yield Candidate(file, dtype.within(SIXTEEN_BIT) & trains, blame=dtype)
