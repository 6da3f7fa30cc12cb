"""The training arguments switch `torch.compile` on, which brings little on a T4.

## What happens on a T4

`torch_compile=True` compiles the model inside the Trainer. transformers itself logs that the speed-up comes mostly with
Ampere GPUs or newer. On a T4 Inductor fuses pointwise operations in fp16, while matrix products stay with cuBLAS as they
were. Against that stand minutes of compilation, and one more for each new sequence length.

## How to fix it

Measure a hundred steps with and without it. Pad to few lengths if you keep it.

## When it is right to ignore it

When you have measured it. The rule is off by default, since nothing is wrong.

## Sources

* transformers 5.24 `training_args.py` (`torch_compile`, and the message on Ampere); how much it brings on a T4 was not
  measured here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Trace


@rule(
    name="torch-compile-in-trainer",
    severity="note",
    summary="torch_compile in the training arguments, which brings little on a T4",
    message="`torch_compile=True` costs minutes of compilation and leaves matrix products as they are on a T4.",
    help="Measure a hundred steps with and without `torch_compile`, and keep what is faster.",
    triggers=("torch_compile",),
    reads=(Call,),
    default=False,
)
def torch_compile_in_trainer(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 0):
        return
    for call in trace.all(Call):
        if call.function.startswith(("transformers.", "trl.")) and "torch_compile" in call.arguments:
            asked = call.arguments["torch_compile"]
            yield Candidate(call, asked.equals(True), blame=asked)
