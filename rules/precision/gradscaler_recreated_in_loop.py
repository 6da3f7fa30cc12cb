"""The gradient scaler is made anew in every iteration.

## What happens on a T4

A `GradScaler` learns: it starts at a scale of 65536, halves it when gradients overflow and doubles it after 2000 good
steps. One that is made inside the loop starts at 65536 again each time. Where that is too much for the model every step
overflows and is skipped, so nothing is learned; where it is too little small gradients stay zero. Nothing is raised.

## How to fix it

Make the scaler once, before the loop, and hand it in.

## When it is right to ignore it

Where each iteration of the loop is a training of its own, such as a fold or a trial; a scaler whose steps run in a loop
further in is not reported.

## Sources

* torch 2.13 `torch/amp/grad_scaler.py` (init_scale 65536, growth_interval 2000), executed
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Fact, Scaler, Trace


@rule(
    name="gradscaler-recreated-in-loop",
    severity="warning",
    summary="A gradient scaler that is made anew in every step",
    message="A new `GradScaler` in every iteration starts at its first scale each time: it never adapts, and steps that overflow "
    "are skipped again and again.",
    help="Make the scaler once, before the loop.",
    triggers=("GradScaler",),
    reads=(Scaler,),
    fix="unsafe",
)
def gradscaler_recreated_in_loop(trace: Trace) -> Iterator[Candidate]:
    steps = {event.subject: event.loops for event in trace.all(Scaler) if event.operation == "step"}
    for event in trace.all(Scaler):
        if event.operation == "init":
            again = bool(event.loops) and steps.get(event.subject) == event.loops
            yield Candidate(event, Fact(again) & event.enabled.equals(True) if again else Fact(False))
