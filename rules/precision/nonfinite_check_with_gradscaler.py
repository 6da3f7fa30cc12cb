"""Gradients are checked for infinity in a way that stops the run, beside a gradient scaler that makes infinities on purpose.

## What happens on a T4

A `GradScaler` starts at a scale of 65536 and raises it now and then. When gradients overflow it skips the step and
halves the scale: infinities in the first steps are how it works. `clip_grad_norm_(..., error_if_nonfinite=True)` turns
the first of them into `RuntimeError: The total norm of order 2.0 for gradients from 'parameters' is non-finite`. In
bf16, without a scaler, the same line never spoke.

## How to fix it

Drop `error_if_nonfinite=True`. To notice a run that diverges, count how often `scaler.get_scale()` falls, or check the
loss instead of the gradients.

## When it is right to ignore it

When the scaler starts at a scale so small that nothing overflows, such as `init_scale=1`.

## Sources

* torch 2.13 `torch/nn/utils/clip_grad.py`, executed on infinite gradients; `torch/amp/grad_scaler.py`
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Backward, GradientRead, Scaler, Trace, Value


@rule(
    name="nonfinite-check-with-gradscaler",
    severity="error",
    summary="A check on gradients that raises on the overflows a scaler makes on purpose",
    message="`error_if_nonfinite=True` raises on the first overflow, and with a gradient scaler overflows are normal in the first steps.",
    help="Drop `error_if_nonfinite=True`: the scaler skips such steps by itself.",
    triggers=("error_if_nonfinite",),
    reads=(GradientRead, Backward, Scaler),
    fix="unsafe",
)
def nonfinite_check_with_gradscaler(trace: Trace) -> Iterator[Candidate]:
    enabled: dict[str, Value] = {}
    scaled = FALSE
    for event in trace.events:
        if isinstance(event, Scaler) and event.operation == "init":
            enabled[event.subject] = event.enabled
        elif isinstance(event, Backward):
            scaled = event.scaled_by.test(lambda scaler: scaler != "none")
            switch = enabled.get(str(event.scaled_by.it))
            if switch is not None:
                scaled &= switch.equals(True)
        elif isinstance(event, GradientRead):
            raises = event.error_if_nonfinite.equals(True)
            yield Candidate(
                event,
                raises & scaled if raises.holds is not False else raises,
                blame=event.error_if_nonfinite,
            )
