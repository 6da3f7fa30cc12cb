"""Stable Diffusion XL is trained without the switches that make it fit.

## What happens on a T4

The network of SDXL has 2.57 billion parameters: 4.8 GiB in float16, which a T4 can hold while adapters train. At 1024
pixels one sample keeps another 8 GiB of activations in float16 and 13 GiB in float32, unless gradient checkpointing is on; the
text encoders and the autoencoder take 2 GiB more. So the run ends with `torch.OutOfMemoryError` in its first step. Training
all of the network takes 38 GiB with AdamW, and 24 with an 8-bit one: it does not fit in any way.

## How to fix it

Train LoRA (`train_text_to_image_lora_sdxl.py`, `train_dreambooth_lora_sdxl.py`) with `--gradient_checkpointing`,
`--mixed_precision=fp16`, a batch of 1, and `--use_8bit_adam`; fall back to 512 or 768 pixels. Compute the latents and the
text embeddings once, and free the autoencoder and the encoders.

## When it is right to ignore it

When the images are small (512 pixels keep a quarter), and the run was seen to fit. Programs of kohya's scripts, which load
the network in their own way, are not followed.

## Sources

* parameters and activations: traces of diffusers 0.42 (`t4lint/memory/images.csv`); diffusers 0.42 `README_sdxl.md` of its
  training examples; huggingface/diffusers#4872, #4368 (out of memory on a T4 with LoRA)
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Fact, Model, Step, Trace, Value
from t4lint.trace.questions import on_gpu

ADAPTERS = ("LoraConfig", "LoHaConfig", "LoKrConfig", "OFTConfig")


@rule(
    name="sdxl-without-memory-savings",
    severity="warning",
    summary="SDXL trained without checkpointing, or in full",
    message="{what} of Stable Diffusion XL {why}, and a T4 leaves 14.3 GiB to a program.",
    help="Train LoRA with gradient checkpointing, fp16, a batch of 1 and an 8-bit Adam.",
    triggers=("UNet2DConditionModel", "sdxl", "stable-diffusion-xl"),
    reads=(Call, Model, Step),
)
def sdxl_without_memory_savings(trace: Trace) -> Iterator[Candidate]:
    step = next(trace.all(Step), None)
    if step is None or trace.target.gpu is None:
        return
    checkpointed = any(call.function == "gradient_checkpointing_enable" for call in trace.all(Call))
    adapters = any(call.function.rpartition(".")[2] in ADAPTERS for call in trace.all(Call))
    for model in trace.all(Model):
        if model.role != "load" or not model.evidence.endswith("UNet2DConditionModel"):
            continue
        wasteful = on_gpu(step.device) & model.name.test(_is_sdxl) & Fact(not checkpointed or not adapters)
        wasteful &= Fact(
            True, (Value("this network is presumed to train, at the size that it was made for", likely=True),)
        )
        what, why = ("Training all", "takes 24 to 38 GiB")
        if adapters:
            what, why = ("LoRA", "without gradient checkpointing keeps 8 GiB of activations a sample at 1024 pixels")
        yield Candidate(model, wasteful, blame=model.name, words={"what": what, "why": why}, related=(step,))


def _is_sdxl(name: object) -> bool:
    words = str(name).lower()
    return "stable-diffusion-xl" in words or "sdxl" in words
