"""A tensor on the GPU is used where Python needs its value, at every step.

## What happens on a T4

`if loss > best`, `f"{loss:.4f}"`, `int(x)`, `print(loss)` and a TensorBoard writer's `add_scalar` read the number out of the tensor as
`.item()` does, without saying so. The host waits for the GPU there, and queues nothing meanwhile.

## How to fix it

Do it every fifty steps, or on the GPU: `torch.where`, `torch.maximum`.

## When it is right to ignore it

When steps are long. The rule is off by default.

## Sources

* torch 2.13, executed: `if t`, `int(t)`, `f"{t:.4f}"` and `print(t)` each read the scalar (`aten._local_scalar_dense`), and
  `add_scalar` ends in `.detach().cpu()` (utils/tensorboard). What it costs was not measured on a T4
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import HostSync, Step, Trace
from t4lint.trace.questions import first_of_each, in_step_loop, on_gpu

WHAT = {
    "bool": "This test", "format": "This text", "int": "`int()`", "float": "`float()`", "print": "`print()`",
    "add_scalar": "`add_scalar`",
}  # fmt: skip


@rule(
    name="implicit-host-sync",
    severity="note",
    summary="Python needs the value of a tensor on the GPU at every step",
    message="{what} needs the value of a tensor on the GPU, so the host waits for it at every step.",
    help="Do it every fifty steps, or on the GPU with `torch.where` or `torch.maximum`.",
    triggers=("for ", "while "),
    reads=(HostSync, Step),
    default=False,
)
def implicit_host_sync(trace: Trace) -> Iterator[Candidate]:
    for sync in first_of_each(trace, HostSync):
        if sync.role in WHAT:
            when = on_gpu(sync.device) & in_step_loop(trace, sync)
            yield Candidate(sync, when, words={"what": WHAT[sync.role]})
