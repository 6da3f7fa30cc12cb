"""Matrix products accumulate in fp16 while training.

## What happens on a T4

`torch.backends.cuda.matmul.allow_fp16_accumulation = True` lets sums inside a product be kept in float16. They round
more and overflow at 65504, which the scaler then answers by skipping steps. GPUs of the GeForce series gain speed by
it; a T4 is believed to accumulate in float32 at full rate, so there is nothing to gain.

## How to fix it

Delete the line.

## When it is right to ignore it

For inference. The rule speaks only where the program trains.

## Sources

* torch 2.13 and 2.15 `torch/backends/cuda/__init__.py` (the switch exists, executed on 2.13). The rate on a T4 was not measured
  here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, DropStatement, Edit, rule
from t4lint.trace import FALSE, Backward, Step, Switch, Trace

SWITCH = "torch.backends.cuda.matmul.allow_fp16_accumulation"


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    yield DropStatement(candidate.event)


@rule(
    name="fp16-accumulation",
    severity="note",
    summary="Accumulation in fp16 while training",
    message="Products accumulate in fp16: sums round more and overflow at 65504, and a T4 is not known to gain speed by it.",
    help="Delete the line.",
    triggers=("allow_fp16_accumulation",),
    reads=(Switch, Backward, Step),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Accumulate in float32",
)
def fp16_accumulation(trace: Trace) -> Iterator[Candidate]:
    trains = any(True for _ in trace.all(Backward)) or any(True for _ in trace.all(Step))
    for switch in trace.all(Switch):
        if switch.name == SWITCH:
            on = switch.value.equals(True)
            yield Candidate(switch, on if trains else on & FALSE, blame=switch.value)
