"""TRL trains a 4-bit or 8-bit model with `fp16=True`: it casts the adapters to bf16, and the scaler refuses them.

## What happens on a T4

Since TRL 0.26 (DPO: 0.29) the trainer converts every trainable parameter of a quantized model to bf16 while it is
built, whatever was asked for. `fp16=True` brings a gradient scaler, whose CUDA kernel takes no bf16, and the first
step ends in `"_amp_foreach_non_finite_check_and_unscale_cuda" not implemented for 'BFloat16'`. The usual advice for a
T4, "use fp16 instead of bf16", is what makes the run crash.

## How to fix it

Keep `fp16=True` and cast the adapters back after the trainer is built, before `train()`:
`for p in trainer.model.parameters(): p.data = p.data.float() if p.requires_grad else p.data`. A cast before the
trainer is built is undone. Or pin TRL below 0.26, or set both `fp16=False` and `bf16=False`.

## When it is right to ignore it

When the adapters are cast back in a callback or in another place that is not seen. With unsloth, which patches this
path, the rule is silent.

## Sources

* trl 0.25.1 (only with bf16), 0.26.2 to 1.16.0 `trainer/sft_trainer.py`, `grpo_trainer.py` and others; huggingface/trl#4901
* pytorch/pytorch#127176 for the kernel. Free Colab T4, torch 2.11: MakazhanAlpamys/Soup#425, and #429 for the cast back.
  Needs a GPU: the crash was not run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Backward, Engine, Fact, Model, Step, Trace
from t4lint.trace.questions import on_gpu


@rule(
    name="trl-qlora-with-fp16",
    severity="error",
    summary="fp16 with a quantized model in TRL, which casts the adapters to bf16",
    message="TRL casts the adapters of a 4-bit or 8-bit model to bf16, and the gradient scaler of `fp16=True` refuses bf16 gradients: "
    "the first step ends in an error.",
    help="Cast the trainable parameters to float32 after the trainer is built: "
    "`for p in trainer.model.parameters(): p.data = p.data.float() if p.requires_grad else p.data`.",
    triggers=("trl",),
    reads=(Step, Engine, Model, Backward),
    fix="unsafe",
)
def trl_qlora_with_fp16(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or "unsloth" in trace.imported:
        return
    quantized = any(model.quantization.it in ("4bit", "8bit") for model in trace.all(Model))
    config: Engine | None = None
    scaled: Fact = FALSE
    for event in trace.events:
        if isinstance(event, Engine) and event.role.endswith("Config"):
            config = event
        elif isinstance(event, Backward):
            scaled = event.scaled_by.test(lambda scaler: scaler != "none")
        if not isinstance(event, Step) or event.engine != "Trainer" or config is None:
            continue
        gpu = on_gpu(event.device)
        refused = gpu & scaled & event.gradients.test(lambda dtypes: "bfloat16" in dtypes) & Fact(quantized)
        yield Candidate(event, refused, blame=config.mixed_precision)
