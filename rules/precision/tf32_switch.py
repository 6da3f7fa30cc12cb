"""TF32 is switched on, which a T4 does not have.

## What happens on a T4

Nothing: TF32 is a format of the tensor cores of Ampere and later. The switches are accepted and float32 products run as
before, at 4.3 TFLOPS where fp16 reaches 42.

## How to fix it

Train in fp16 mixed precision. The line may stay for other GPUs.

## When it is right to ignore it

When the program also runs on other GPUs. The rule is off by default, since the line does no harm; `tf32=True` in
`TrainingArguments` does, and has a rule of its own.

## Sources

* torch 2.13 `torch/backends/cuda/__init__.py`, executed without a GPU: the setters do not look at the device
* measured matmul rates on Colab and Kaggle T4s: zzc0721/torch-performance-test-data
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Switch, Trace

ON = {"allow_tf32": (True,), "fp32_precision": ("tf32",), "set_float32_matmul_precision": ("high", "medium")}


@rule(
    name="tf32-switch",
    severity="note",
    summary="A TF32 switch, which has no effect on a T4",
    message="A T4 has no TF32: this has no effect, and float32 products stay at a tenth of the speed of fp16.",
    help="Train in fp16 mixed precision, which is what the tensor cores of a T4 do.",
    triggers=("tf32", "float32_matmul_precision"),
    reads=(Switch,),
    default=False,
)
def tf32_switch(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 0):
        return
    for switch in trace.all(Switch):
        values = ON.get(switch.name.rpartition(".")[2])
        if values is not None:
            yield Candidate(switch, switch.value.within(values), blame=switch.value)
