"""Calls on a GradScaler in an order that raises.

## What happens on a T4

The scaler remembers, for each optimizer, how far the current iteration has come, and raises when a call does not fit:

* `unscale_` twice for one optimizer, or after its `step`
* `step` a second time without `update`, also when `update` is missing altogether: then the second iteration fails
* `unscale_`, `step` or `update` although no loss was ever given to `scale`
* `update` with no `step` or `unscale_` since the last one

Code that came from a GPU with bf16 often has these faults, since a scaler that is switched off ignores all of them.

## How to fix it

One iteration is: `scaler.scale(loss).backward()`, then `scaler.unscale_(optimizer)` once if gradients are clipped or
read, then `scaler.step(optimizer)` for each optimizer, then `scaler.update()` once. With gradient accumulation
everything after `backward` happens only on the last micro-batch.

## When it is right to ignore it

When the call stands in a path that never runs. A scaler built with `enabled=False` is not reported, and where the
optimizer steps without the scaler, `gradscaler-bypassed` speaks.

## Sources

* torch 2.13 `torch/amp/grad_scaler.py`, each order executed there; PyTorch automatic mixed precision examples (2.13)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from t4lint.rule import Candidate, rule
from t4lint.trace import NOT_SAID, Fact, Location, Scaler, Step, Trace, Value, unknown

NOTHING_SCALED = "no loss was given to `scaler.scale()` before"
STEPPED_TWICE = "`step()` was already called for this optimizer, and `update()` was not called since"
SECOND_ITERATION = "it is the second iteration, and `update()` was not called after the `step()` of the first"
CALLS = {"unscale": "unscale_", "step": "step", "update": "update"}


@rule(
    name="gradscaler-call-order",
    severity="error",
    summary="Calls on a GradScaler in an order that raises",
    message="`scaler.{call}()` raises here: {why}.",
    help="In one iteration call `scale(loss).backward()`, at most one `unscale_(optimizer)`, one `step(optimizer)`, then `update()`.",
    triggers=("GradScaler",),
    reads=(Scaler, Step),
)
def gradscaler_call_order(trace: Trace) -> Iterator[Candidate]:
    complete = trace.unbroken(Scaler)
    scalers: dict[str, _State] = {}
    for event in trace.events:
        if isinstance(event, Step):
            for state in scalers.values():
                state.bypassed |= event.subject not in state.stages
        if not isinstance(event, Scaler):
            continue
        state = scalers.setdefault(event.subject, _State())
        if event.operation == "init":
            state.enabled = event.enabled
            continue
        if state.raised:
            continue
        why = state.after(event)
        wrong = Fact(bool(why)) & complete
        if state.unclear:
            wrong = Fact(None, (unknown(state.unclear),))
        wrong &= _switched_on(event, state.enabled)
        state.raised = wrong.holds is True
        yield Candidate(
            event,
            wrong,
            words={"call": CALLS.get(event.operation, event.operation), "why": why or "the order is right"},
        )


def _switched_on(event: Scaler, enabled: Value) -> Fact:
    """Scalers are on by default, so one whose construction was not seen is presumed to be."""
    value = event.enabled if event.enabled != NOT_SAID else enabled
    return value.equals(True, if_unknown=True if value == NOT_SAID else None)


@dataclass(slots=True)
class _State:
    """What a scaler remembers. `stages` holds, for each optimizer of this iteration, "unscaled" or "stepped"."""

    enabled: Value = NOT_SAID
    scaled: bool = False
    stages: dict[str, str] = field(default_factory=dict)
    stepped: dict[str, Location] = field(default_factory=dict)  # where each optimizer was stepped last
    unclear: str = ""
    bypassed: bool = False  # an optimizer stepped without the scaler: another rule's finding
    raised: bool = False

    def after(self, event: Scaler) -> str:
        """Take one call in, and say why it raises, if it does."""
        if event.operation == "scale":
            self.scaled = True
            return ""
        if event.operation == "update":
            return self._update()
        if not event.optimizer:
            self.unclear = "it is not known which optimizer the scaler was called with"
            return ""
        if not self.scaled:
            return NOTHING_SCALED
        stage = self.stages.get(event.optimizer, "ready")
        if event.operation == "unscale":
            self.stages.setdefault(event.optimizer, "unscaled")
            return {
                "unscaled": "`unscale_()` was already called for this optimizer since the last `update()`",
                "stepped": "`step()` came before, and `update()` was not called since",
            }.get(stage, "")
        before = self.stepped.get(event.optimizer)
        self.stages[event.optimizer], self.stepped[event.optimizer] = "stepped", event.where
        if stage != "stepped":
            return ""
        return SECOND_ITERATION if before == event.where else STEPPED_TWICE

    def _update(self) -> str:
        nothing_done = not self.stages and not self.unclear and not self.bypassed
        self.stages, self.unclear, self.bypassed = {}, "", False
        if not self.scaled:
            return NOTHING_SCALED
        return "neither `step()` nor `unscale_()` was called since the last `update()`" if nothing_done else ""
