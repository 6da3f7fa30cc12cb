"""Weights, gradients and optimizer states alone need more memory than the T4 has.

## What happens on a T4

Adam in float32, with or without autocast, keeps 16 bytes a trained parameter: weights 4, gradients 4, two moments 8. A
T4 leaves 14.3 GiB to a program, so full training ends at about 0.95 billion parameters, before a single activation. The
run dies with `torch.OutOfMemoryError` while the model moves to the GPU, in the first backward, or, most often, in the
first `optimizer.step()`, where the moments are made. No batch size helps.

## How to fix it

Train adapters instead (LoRA; QLoRA for 7 billion parameters and more). To train all weights: an 8-bit or paged optimizer
(about 10 bytes a parameter), Adafactor, a smaller model, or sharding with offload (ZeRO-3, FSDP). Sharding alone divides
the sum by the number of GPUs: 7 billion parameters still need 25 GiB on each of four.

## When it is right to ignore it

When a part of the model is frozen where this program cannot be seen to do so. Runs that shard in a way that is not
followed, and models whose size is not known, are not judged.

## Sources

* bytes per parameter, measured with torch 2.13 on AdamW steps; sizes of checkpoints from litgpt 0.5.13, transformers
  5.24 and torchtune 0.6.1; 8-bit states: bitsandbytes documentation, 2025
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Fact, Model, Step, Trace
from t4lint.trace.questions import first_of_each, lowest, on_gpu, only_checkpoint

GIB = 2**30
STATE = ("weights", "gradients", "optimizer")


@rule(
    name="training-state-exceeds-gpu",
    severity="error",
    summary="Training whose weights, gradients and optimizer states do not fit on the card",
    message="Weights, gradients and optimizer states need at least {state:.1f} GiB ({parts}) and a T4 leaves {usable:.1f} GiB: "
    "no batch size fits.",
    help="Train adapters (LoRA, QLoRA), or use an 8-bit optimizer, a smaller model, or sharding with offload.",
    triggers=("from_pretrained", "Trainer"),
    reads=(Model, Step),
)
def training_state_exceeds_gpu(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None:
        return
    usable = float(trace.target.gpu.usable_bytes)
    for step in first_of_each(trace, Step):
        state, weights = lowest(step, *STATE), lowest(step, "weights")
        gpu = on_gpu(step.device)
        too_much = gpu & Fact(state > usable if step.components.known else None, (step.components,))
        if weights > usable:  # the weights alone are another rule's
            too_much &= FALSE
        parts = ", ".join(f"{name} {lowest(step, name) / GIB:.1f}" for name in STATE)
        yield Candidate(
            step,
            too_much,
            blame=only_checkpoint(trace),
            words={"state": state / GIB, "usable": usable / GIB, "parts": parts},
        )
