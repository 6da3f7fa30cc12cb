"""A gradient scaler steps on gradients in fp16, which it refuses.

## What happens on a T4

Gradients have the dtype of the weights that they belong to. `GradScaler`, and `fp16=True` or
`Accelerator(mixed_precision="fp16")` with it, expects float32 weights: with fp16 weights the first `unscale_` or
`step` ends in `ValueError: Attempting to unscale FP16 gradients.` It happens when a model is loaded with
`torch_dtype=torch.float16` or cast with `.half()` to save memory and then trained, and on transformers 5 also when a
checkpoint is stored in fp16 and no dtype is given.

## How to fix it

Load the weights that are trained in `torch.float32`; autocast makes the fp16 copies that the tensor cores need. If
they do not fit, train adapters on a frozen fp16 base: PEFT makes them in float32.

## When it is right to ignore it

When the weights are cast to float32 in a place that the finding does not show. With DeepSpeed or FSDP, which scale by
themselves, the rule is silent. What `modules_to_save` copies, adapters made with `autocast_adapter_dtype=False` and
those of PEFT before 0.11 keep the dtype of the base and are reported.

## Sources

* torch 1.13 to 2.15 `torch/amp/grad_scaler.py`, executed on 2.13; huggingface/transformers#23165, on four T4s
* peft 0.21.2 `tuners/tuners_utils.py`, executed; huggingface/peft#1706
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Backward, Model, Scaler, Step, Trace
from t4lint.trace.questions import on_gpu, scaled_steps


@rule(
    name="gradscaler-fp16-gradients",
    severity="error",
    summary="A gradient scaler over fp16 weights, whose gradients it refuses",
    message="The weights that are trained here are in fp16, and the gradient scaler refuses fp16 gradients: the first step ends in a "
    "ValueError.",
    help="Load the weights that are trained in `torch.float32`, and let fp16 autocast do the arithmetic.",
    triggers=("float16", "fp16", "half", "from_pretrained"),
    reads=(Step, Scaler, Backward, Model),
    fix="unsafe",
)
def gradscaler_fp16_gradients(trace: Trace) -> Iterator[Candidate]:
    for step, scaled in scaled_steps(trace):
        refused = on_gpu(step.device) & scaled & step.gradients.test(lambda dtypes: "float16" in dtypes)
        yield Candidate(step, refused, blame=step.gradients)
