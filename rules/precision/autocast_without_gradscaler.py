"""A loss computed under fp16 autocast is backpropagated without a gradient scaler.

## What happens on a T4

The gradients of fp16 layers are fp16 too, and everything under 6e-8 becomes zero. Nothing fails: small gradients
vanish, and the model trains worse or not at all. A GradScaler multiplies the loss before the backward pass so that
they stay in range. bf16, for which no scaler is needed, is not an option on a T4, so recipes from newer GPUs often
arrive here when their dtype is swapped.

## How to fix it

Make a `scaler = torch.amp.GradScaler("cuda")`, then `scaler.scale(loss).backward()`, `scaler.step(optimizer)` and
`scaler.update()`. With accelerate, call `accelerator.backward(loss)` instead of `loss.backward()`.

## When it is right to ignore it

When the loss is multiplied by a fixed factor by hand and divided out before the step. Where an engine (Trainer,
Accelerator, Lightning) owns the backward pass it scales by itself, and the rule is silent. A backward whose device
cannot be told is presumed to be on the GPU.

## Sources

* PyTorch automatic mixed precision notes and examples (2.13); torch 2.13 `torch/amp/grad_scaler.py`; accelerate 1.15
  `accelerator.py`
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Backward, Fact, Scaler, Trace, Value
from t4lint.trace.questions import on_gpu


@rule(
    name="autocast-without-gradscaler",
    severity="warning",
    summary="Backward under fp16 autocast without a gradient scaler",
    message="The loss comes from fp16 autocast and is backpropagated without a gradient scaler: gradients under 6e-8 become zero, "
    "silently.",
    help='Use `scaler.scale(loss).backward()`, `scaler.step(optimizer)` and `scaler.update()` with a `torch.amp.GradScaler("cuda")`; '
    "with accelerate call `accelerator.backward(loss)`.",
    triggers=("autocast", "mixed_precision"),
    reads=(Backward, Scaler),
    fix="unsafe",
)
def autocast_without_gradscaler(trace: Trace) -> Iterator[Candidate]:
    enabled = {event.subject: event.enabled for event in trace.all(Scaler) if event.operation == "init"}
    pending = False
    misused = _steps_but_never_scales(trace)
    for event in trace.events:
        if isinstance(event, Scaler) and event.operation == "scale":
            pending = True
        if not isinstance(event, Backward):
            continue
        gpu = on_gpu(event.device)
        bare = gpu & event.autocast.equals("float16") & ~_scaled(event, enabled)
        if event.engine or pending or misused:
            bare &= FALSE
        pending = False
        yield Candidate(event, bare)


def _scaled(event: Backward, enabled: dict[str, Value]) -> Fact:
    named = event.scaled_by.test(lambda scaler: scaler != "none")
    switch = enabled.get(str(event.scaled_by.it))
    return named & switch.equals(True) if switch is not None and named.holds else named


def _steps_but_never_scales(trace: Trace) -> bool:
    """Then the scaler itself raises, and its own rule speaks."""
    operations = {event.operation for event in trace.all(Scaler) if event.enabled.it is not False}
    return "step" in operations and "scale" not in operations
