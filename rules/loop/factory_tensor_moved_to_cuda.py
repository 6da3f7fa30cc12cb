"""A tensor is filled on the host and copied to the GPU, at every step.

## What happens on a T4

`torch.zeros(n).to("cuda")` allocates in host memory, fills it there with one slow core, and sends it through PCIe from memory that is not
page-locked, so that the host waits. `torch.zeros(n, device="cuda")` does none of it: the GPU fills its own memory.

## How to fix it

Give the factory its `device=`.

## When it is right to ignore it

When the tensor is small, or made once before the loop. The rule is off by default. Random factories are not reported: with another device
they draw other numbers.

## Sources

* torch 2.13 performance tuning guide, "Create tensors directly on the target device"; executed: `torch.zeros(4).to(device)` is
  `aten.zeros` on the host and a copy
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Copy, Step, Trace
from t4lint.trace.questions import first_of_each, in_step_loop


@rule(
    name="factory-tensor-moved-to-cuda",
    severity="note",
    summary="A tensor is filled on the host and then copied to the GPU",
    message="This tensor is filled on the host and copied to the GPU at every step.",
    help='Make it there: `torch.zeros(..., device="cuda")`.',
    triggers=("zeros", "ones", "full", "empty", "arange", "linspace", "eye"),
    reads=(Copy, Step),
    default=False,
)
def factory_tensor_moved_to_cuda(trace: Trace) -> Iterator[Candidate]:
    for copy in first_of_each(trace, Copy):
        moved = copy.made.equals(True) & copy.destination.equals("cuda")
        yield Candidate(copy, moved & in_step_loop(trace, copy))
