"""A copy from the GPU is started without waiting, and the host reads the result at once.

## What happens on a T4

`tensor.to("cpu", non_blocking=True)` returns while the copy is still under way, into page-locked memory that PyTorch takes for it.
`.numpy()`, `.item()` and everything else on the CPU tensor read whatever is there at that moment: old values, without any error.
It depends on the load of the machine, so it passes tests and comes back as a wrong metric.

## How to fix it

Drop `non_blocking=True` where the result is needed at once: the copy then waits. To overlap several copies, start them all and
call `torch.cuda.synchronize()` once before the first is read.

## When it is right to ignore it

When something that is not seen here waits for the stream before the value is read. Copies to the GPU are never reported:
there the stream itself keeps the order.

## Sources

* PyTorch tutorial "A guide on good usage of non_blocking and pin_memory" (2.13), which shows the wrong values; torch 2.13
  `TensorConversions.cpp` for the page-locked destination. It takes a GPU to see, so no test here can show it
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, DropArgument, Edit, rule
from t4lint.trace import Copy, Trace
from t4lint.trace.questions import first_of_each


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    if candidate.blame is not None:
        yield DropArgument(candidate.blame, "non_blocking")


@rule(
    name="non-blocking-copy-to-cpu",
    severity="warning",
    summary="The host reads a tensor whose copy from the GPU may not be done",
    message="This copy to the CPU does not wait, and its values are read before anything does: they may be those of before the copy.",
    help="Drop `non_blocking=True`, or call `torch.cuda.synchronize()` before the value is read.",
    triggers=("non_blocking",),
    reads=(Copy,),
    fix="safe",
    fixes=_fixes,
    fix_title="Wait for the copy",
)
def non_blocking_copy_to_cpu(trace: Trace) -> Iterator[Candidate]:
    for copy in first_of_each(trace, Copy):
        to_host = copy.source.equals("cuda") & copy.destination.equals("cpu")
        early = copy.non_blocking.equals(True) & copy.read_early.equals(True)
        yield Candidate(copy, to_host & early, blame=copy.non_blocking)
