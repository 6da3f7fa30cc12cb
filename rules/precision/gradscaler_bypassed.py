"""The loss is scaled, but the optimizer or the backward pass goes around the scaler.

## What happens on a T4

Two spellings, and nothing raises in either. `scaler.scale(loss).backward()` followed by a plain `optimizer.step()`
gives the optimizer gradients that are 65536 times too large: SGD diverges, Adam hides it until clipping or weight
decay is involved, and overflowed gradients reach the weights. `scaler.scale(loss)` whose result is dropped, followed
by `loss.backward()`, does not scale at all, and `scaler.step` then divides gradients that were never multiplied.

## How to fix it

Write `scaler.scale(loss).backward()`, `scaler.step(optimizer)`, `scaler.update()`.

## When it is right to ignore it

When the program divides the gradients by `scaler.get_scale()` by hand. An optimizer whose gradients went through
`scaler.unscale_` is not reported, and neither is a scaler built with `enabled=False`.

## Sources

* torch 2.13 `torch/amp/grad_scaler.py`, both spellings executed there; PyTorch automatic mixed precision examples
  (2.13)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, NOT_SAID, TRUE, Backward, Event, Fact, Scaler, Step, Trace, Value


@rule(
    name="gradscaler-bypassed",
    severity="error",
    summary="A scaled loss whose gradients do not go through the scaler",
    message="{what}: {effect}.",
    help="Write `scaler.scale(loss).backward()`, then `scaler.step(optimizer)` and `scaler.update()`.",
    triggers=("GradScaler",),
    reads=(Scaler, Backward, Step),
    fix="safe",
)
def gradscaler_bypassed(trace: Trace) -> Iterator[Candidate]:
    state = _Iteration()
    for event in trace.events:
        if isinstance(event, Scaler):
            state.scaler(event)
        elif isinstance(event, Backward) and not event.engine:
            yield Candidate(event, state.backward(event), words=_words(event))
        elif isinstance(event, Step) and not event.engine:
            yield Candidate(event, state.step(event), words=_words(event))


def _words(event: Event) -> dict[str, object]:
    if isinstance(event, Step):
        return {
            "what": "The optimizer steps without the scaler on gradients that are still scaled",
            "effect": "every gradient is 65536 times too large at first",
        }
    return {
        "what": "The scaled loss is dropped and the plain one is backpropagated",
        "effect": "nothing is scaled, and `scaler.step` divides gradients that were never multiplied",
    }


@dataclass(slots=True)
class _Iteration:
    """What has happened since the last `update`."""

    enabled: dict[str, Value] = field(default_factory=dict)
    dropped: Fact = FALSE  # a scaled loss that no backward has used yet
    scaled: Fact = FALSE  # gradients that a scaled backward has left
    handled: set[str] = field(default_factory=set)  # optimizers that the scaler has unscaled or stepped

    def scaler(self, event: Scaler) -> None:
        if event.operation == "init":
            self.enabled[event.subject] = event.enabled
        elif event.operation == "scale":
            self.dropped = self._switched_on(event.subject, event.enabled)
        elif event.operation == "update":
            self.dropped, self.scaled = FALSE, FALSE
            self.handled.clear()
        else:
            self.handled.add(event.optimizer)

    def backward(self, event: Backward) -> Fact:
        around = self.dropped & event.scaled_by.equals("none")
        self.dropped = FALSE
        through = event.scaled_by.test(lambda scaler: scaler != "none")
        if through.holds is not False:
            self.scaled = through & self._switched_on(str(event.scaled_by.it), NOT_SAID)
            self.handled.clear()
        return around

    def step(self, event: Step) -> Fact:
        if event.subject in self.handled or "" in self.handled:
            return FALSE
        plain = TRUE
        if event.through_scaler.known:
            plain = event.through_scaler.within((False, "none", ""))
        return self.scaled & plain

    def _switched_on(self, scaler: str, given: Value) -> Fact:
        """Scalers are on by default, so one whose construction was not seen is presumed to be."""
        value = given if given != NOT_SAID else self.enabled.get(scaler, NOT_SAID)
        return value.equals(True, if_unknown=True if value == NOT_SAID else None)
