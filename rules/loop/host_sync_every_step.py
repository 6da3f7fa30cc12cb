"""The host reads a value from the GPU at every step, and waits for it.

## What happens on a T4

`.item()`, `.tolist()`, `.numpy()` and `.cpu()` wait until the GPU has done all that was queued before. While it waits, the host queues
nothing, so the GPU runs dry for a moment at each step. On the two slow cores that come with a T4 in Colab that moment is longest for small
models; where a step takes a second it cannot be measured.

## How to fix it

Add up `loss.detach()` on the GPU and read it every fifty steps.

## When it is right to ignore it

Nearly always when steps are long. The rule is off by default, since such a read stands in most training loops: `verify` says how
often and where, and a profile what it costs. transformers' Trainer reads the loss at every step too, to filter NaN.

## Sources

* torch 2.13 documentation of `torch.cuda.set_sync_debug_mode`; transformers 5.24 `trainer.py`, `logging_nan_inf_filter`; public code
  (575 of the sampled files read a value in a loop, 2026-11). What it costs was not measured on a T4
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Copy, HostSync, Step, Trace
from t4lint.trace.questions import first_of_each, in_step_loop, on_gpu

READS = ("item", "tolist", "numpy")


@rule(
    name="host-sync-every-step",
    severity="note",
    summary="A value is read from the GPU at every step",
    message="This waits for the GPU at every step: the host queues nothing meanwhile.",
    help="Add up `loss.detach()` on the GPU and read it every fifty steps.",
    triggers=(".item(", ".tolist(", ".numpy(", ".cpu("),
    reads=(Copy, HostSync, Step),
    default=False,
)
def host_sync_every_step(trace: Trace) -> Iterator[Candidate]:
    for sync in first_of_each(trace, HostSync):
        if sync.role in READS:
            yield Candidate(sync, on_gpu(sync.device) & in_step_loop(trace, sync))
    for copy in first_of_each(trace, Copy):
        back = copy.source.equals("cuda") & copy.destination.equals("cpu") & copy.non_blocking.equals(False)
        yield Candidate(copy, back & in_step_loop(trace, copy))
