"""A gradient scaler steps on gradients in bf16, and has no kernel for them.

## What happens on a T4

`fp16=True`, `Accelerator(mixed_precision="fp16")` and a `GradScaler` all unscale the gradients before the first step.
Gradients have the dtype of the weights that they belong to, and the CUDA kernel that unscales takes float16, float32
and float64 only. Training ends at the first step with `"_amp_foreach_non_finite_check_and_unscale_cuda" not
implemented for 'BFloat16'`. It is the usual end of a program whose `bf16=True` was changed to `fp16=True` while its
model is still loaded in bf16.

## How to fix it

Load the weights that are trained in `torch.float32` and leave the rest to fp16 autocast. For adapters, cast what is
trained: `for p in model.parameters(): p.data = p.data.float() if p.requires_grad else p.data`.

## When it is right to ignore it

When the weights are cast to float32 in a place that the finding does not show. PEFT makes its adapters in float32 and
is not reported, except for `modules_to_save`, whose copies keep the dtype of the base. With DeepSpeed or FSDP, which
scale by themselves, the rule is silent.

## Sources

* torch 2.15 `aten/src/ATen/native/cuda/AmpKernels.cu`; pytorch/pytorch#127176. The CPU kernel takes bf16 (executed on
  torch 2.13), so a run without a GPU does not show it
* gradients and adapters: peft 0.21.2 `tuners/tuners_utils.py` and copies of `modules_to_save`, executed
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Backward, Engine, Model, Scaler, Step, Trace
from t4lint.trace.questions import on_gpu, scaled_steps


@rule(
    name="gradscaler-bf16-gradients",
    severity="error",
    summary="A gradient scaler over bf16 weights, whose gradients it refuses",
    message="The weights that are trained here are in bf16, and the gradient scaler has no kernel for bf16 gradients: the first step "
    "ends in an error.",
    help="Load the weights that are trained in `torch.float32`, and let fp16 autocast do the arithmetic.",
    triggers=("bf16", "bfloat16", "from_pretrained"),
    reads=(Step, Scaler, Backward, Engine, Model),
    fix="unsafe",
)
def gradscaler_bf16_gradients(trace: Trace) -> Iterator[Candidate]:
    by_trl = any(engine.role.endswith("Config") for engine in trace.all(Engine)) and _quantized(trace)
    for step, scaled in scaled_steps(trace):
        refused = on_gpu(step.device) & scaled & step.gradients.test(lambda dtypes: "bfloat16" in dtypes)
        if by_trl and step.engine == "Trainer":
            refused &= FALSE  # TRL's own cast: another rule names it
        yield Candidate(step, refused, blame=step.gradients)


def _quantized(trace: Trace) -> bool:
    return any(model.quantization.it in ("4bit", "8bit") for model in trace.all(Model))
