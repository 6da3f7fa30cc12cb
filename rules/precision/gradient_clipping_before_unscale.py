"""Gradients are clipped while they are still multiplied by the scale.

## What happens on a T4

After `scaler.scale(loss).backward()` all gradients are multiplied by the scale, 65536 at first. A threshold of 1.0 on
their norm therefore means 0.000015 on the real one: every step is clipped to almost nothing, and by another factor
whenever the scale changes. No error is raised; the model learns very slowly or not at all.

## How to fix it

Call `scaler.unscale_(optimizer)` after the backward pass and before the clipping. `scaler.step` knows that it was
done and does not divide again.

## When it is right to ignore it

When the threshold is multiplied by `scaler.get_scale()`. `accelerator.clip_grad_norm_`, Trainer and Lightning unscale
by themselves and are not reported. A gradient norm that is only logged is a note.

## Sources

* torch 2.13 `torch/amp/grad_scaler.py`; PyTorch automatic mixed precision examples (2.13), section on unscaled
  gradients; accelerate 1.15 `accelerator.py`
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, Edit, InsertBefore, Written, rule
from t4lint.trace import FALSE, NOT_SAID, Backward, Fact, GradientRead, Scaler, Trace, Value


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    """Only with one optimizer; its name and the scaler's are taken from `scaler.step(optimizer)`."""
    steps = [event for event in trace.all(Scaler) if event.operation == "step"]
    if len({event.optimizer for event in steps}) == 1:
        words = {"scaler": Written(steps[0], "step", "receiver"), "optimizer": Written(steps[0], "step", 0)}
        yield InsertBefore(candidate.event, "{scaler}.unscale_({optimizer})", words)


@rule(
    name="gradient-clipping-before-unscale",
    severity="warning",
    summary="Gradients clipped while they are still scaled",
    message="Gradients are {what} while they are still multiplied by the scale of the GradScaler, 65536 at first, so {effect}.",
    help="Call `scaler.unscale_(optimizer)` between the backward pass and this line.",
    triggers=("GradScaler",),
    reads=(GradientRead, Scaler, Backward),
    fix="safe",
    fixes=_fixes,
    fix_title="Unscale the gradients first",
)
def gradient_clipping_before_unscale(trace: Trace) -> Iterator[Candidate]:
    enabled: dict[str, Value] = {}
    scaled: Fact = FALSE
    scaler = ""
    for index, event in enumerate(trace.events):
        if isinstance(event, Scaler):
            if event.operation == "init":
                enabled[event.subject] = event.enabled
            elif event.operation in ("unscale", "update"):
                scaled = FALSE
        elif isinstance(event, Backward):
            named = event.scaled_by.test(lambda it: it != "none")
            if named.holds is not False:
                scaler = str(event.scaled_by.it)
                scaled = named & _switched_on(enabled.get(scaler, NOT_SAID))
        elif isinstance(event, GradientRead) and event.role in ("clip", "norm"):
            clips = event.role == "clip"
            yield Candidate(
                event,
                scaled & Fact(_steps_later(trace, index, scaler)),
                severity=None if clips else "note",
                words={
                    "what": "clipped" if clips else "measured",
                    "effect": "nearly nothing is left of them" if clips else "the norm is that many times too large",
                },
            )


def _switched_on(value: Value) -> Fact:
    """Scalers are on by default, so one whose construction was not seen is presumed to be."""
    return value.equals(True, if_unknown=True if value == NOT_SAID else None)


def _steps_later(trace: Trace, index: int, scaler: str) -> bool:
    return any(
        isinstance(event, Scaler) and event.operation == "step" and scaler in (event.subject, "None")
        for event in trace.events[index + 1 :]
    )
