"""The micro-batch needs more memory than the T4 has, although a smaller one would fit.

## What happens on a T4

The label says 16 GB, and PyTorch sees about 14.6 GiB, from which the CUDA context is taken. Weights, gradients and
optimizer states take their part whatever the batch is; activations and logits grow with it. When the sum passes the
card, the run ends with `torch.OutOfMemoryError` in the first step, or in the first long batch. The estimate is a
band; only its lower edge is held against the card.

## How to fix it

Split the batch: a smaller micro-batch and as many accumulation steps give the same effective batch. Then, if one
sample is still too large: activation checkpointing, shorter sequences, an 8-bit optimizer, adapters instead of full
training.

## When it is right to ignore it

When most batches are much shorter than the longest one that the program allows, and the longest ones are dropped.
Splitting changes the result for models with BatchNorm, for contrastive losses over the batch, and for GRPO groups. A
step whose device cannot be told is presumed to be on the GPU. When weights and optimizer states alone pass the card,
no batch helps, and the rule is silent.

## Sources

* bytes per parameter and logits, measured with torch 2.13 and read in transformers 5.24 `loss/loss_utils.py` and
  accelerate 1.15 `utils/operations.py`; memory that PyTorch sees on a T4: huggingface/diffusers#4872 and logs of
  Colab, Kaggle and cloud VMs
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Engine, Step, Trace
from t4lint.trace.questions import on_gpu, one_sample, written_length

GIB = 2**30
# the last three are what a run's allocator holds besides, without a name that tells it from activations
GROWS_WITH_BATCH = ("activation", "logit", "attention", "input", "loss", "temporary", "other", "workspace")


@rule(
    name="micro-batch-too-large",
    severity="error",
    summary="A micro-batch that does not fit on the card",
    message="{what} needs at least {peak:.1f} GiB and a T4 leaves {usable:.1f} GiB to a program, so the run ends "
    "out of memory; {way_out}.",
    help="Lower the micro-batch and raise gradient accumulation by the same factor.",
    triggers=("batch",),
    reads=(Engine, Step),
    fix="unsafe",
)
def micro_batch_too_large(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None:
        return
    usable = float(trace.target.gpu.usable_bytes)
    length = written_length(trace)
    for step in trace.all(Step):
        too_large = on_gpu(step.device) & step.peak.over(usable)
        if trace.basis == "predicted":  # a run shows the memory, and not the samples
            too_large &= step.micro_batch.test(lambda batch: batch >= 1)
        state, sample = one_sample(step)
        if _state_bytes(step, edge=0) > usable or (length is not None and state + sample > usable):
            too_large &= FALSE  # the state alone, or one sample: other rules'
        yield Candidate(
            step,
            too_large,
            blame=step.micro_batch,
            words={
                "what": f"A micro-batch of {step.micro_batch.it}" if step.micro_batch.known else "This step",
                "peak": (step.peak.it[0] if step.peak.known else 0.0) / GIB,
                "usable": usable / GIB,
                "way_out": _way_out(step, usable),
            },
        )


def _grows(name: str) -> bool:
    return name.lower().startswith(GROWS_WITH_BATCH)


def _state_bytes(step: Step, edge: int) -> float:
    components: Any = step.components.it or {}
    return float(sum(band[edge] for name, band in components.items() if not _grows(name)))


def _way_out(step: Step, usable: float) -> str:
    """The largest divisor of the batch that fits, by the upper edges of the estimate."""
    batch = step.micro_batch.it
    components: Any = step.components.it
    if not components or not isinstance(batch, int):
        return "a smaller one with gradient accumulation may fit"
    growing = sum(band[1] for name, band in components.items() if _grows(name))
    if math.isinf(growing) or math.isinf(_state_bytes(step, edge=1)):
        return "a smaller one with gradient accumulation may fit"
    accumulation = step.backwards.it if isinstance(step.backwards.it, int) else 1
    for smaller in range(batch - 1, 0, -1):
        if batch % smaller == 0 and _state_bytes(step, edge=1) + growing * smaller / batch <= usable:
            return f"a micro-batch of {smaller} with {accumulation * batch // smaller} accumulation steps fits"
    return "even one sample at a time does not surely fit, so shorten the input or switch activation checkpointing on"
