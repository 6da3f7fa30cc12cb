"""Autograd's anomaly detection is on during training.

## What happens on a T4

Anomaly detection records a Python stack trace for every operation of the forward and looks for NaN after every operation
of the backward, which waits for the GPU each time. Small models run several times slower. It is a tool for finding one
fault. Under a GradScaler it also stops the run at the first overflow, which the scaler is there to skip.

## How to fix it

Remove the call, or tie it to a debugging flag that is off by default.

## When it is right to ignore it

While looking for the operation that made a NaN.

## Sources

* torch 2.13 `autograd/anomaly_mode.py`, and its documentation: "this mode should be enabled only for debugging as the
  different tests will slow down your program execution"
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, Edit, SetValue, rule
from t4lint.trace import FALSE, Backward, Step, Switch, Trace

SWITCHES = ("torch.autograd.set_detect_anomaly", "torch.autograd.detect_anomaly")


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    event = candidate.event
    if isinstance(event, Switch) and event.name == SWITCHES[0]:
        yield SetValue(event.value, "False")


@rule(
    name="anomaly-detection-left-on",
    severity="warning",
    summary="Anomaly detection of autograd is on during training",
    message="Anomaly detection records a stack trace for every operation and checks every gradient for NaN, which slows each "
    "training step down.",
    help="Switch it on only while looking for a NaN.",
    triggers=("detect_anomaly",),
    reads=(Backward, Step, Switch),
    fix="safe",
    fixes=_fixes,
    fix_title="Switch anomaly detection off",
)
def anomaly_detection_left_on(trace: Trace) -> Iterator[Candidate]:
    """On, and something trains after it before it is switched off again."""
    on: Switch | None = None
    trained = False
    for event in trace.events:
        if isinstance(event, Switch) and event.name in SWITCHES:
            if on is not None:
                yield _judged(on, trained, trace)
            on, trained = event, False
        elif isinstance(event, (Backward, Step)):
            trained = True
    if on is not None:
        yield _judged(on, trained, trace)


def _judged(switch: Switch, trained: bool, trace: Trace) -> Candidate:
    left_on = switch.value.equals(True)
    if not trained:
        left_on &= ~trace.never(Step) if trace.never(Step).holds is None else FALSE
    return Candidate(switch, left_on, blame=switch.value)
