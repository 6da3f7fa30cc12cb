"""Training on GPUs uses gloo, the backend for CPUs, to exchange gradients.

## What happens on a T4

gloo copies each bucket of gradients from the card to pinned host memory, sums it up on the CPU, and copies it back. NCCL
keeps it on the cards, or moves it through shared memory. On machines with a few cores for each T4, gloo's sums and copies
are in the way of everything else.

## How to fix it

`init_process_group("nccl")`, or leave the backend out: torch then takes gloo for CPU tensors and nccl for CUDA ones.

## When it is right to ignore it

On Windows, where there is no NCCL. Training on the CPU, `"cpu:gloo,cuda:nccl"` and a second group beside an nccl one are
not reported.

## Sources

* torch 2.13, `ProcessGroupGloo.cpp`, `AsyncAllreduceCUDAWork`, and the backend map when none is named
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import Candidate, Edit, SetValue, rule
from t4lint.trace import Backward, Launch, ProcessGroup, Step, Trace, Wrap
from t4lint.trace.questions import several_processes


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    if candidate.blame is not None:
        yield SetValue(candidate.blame, '"nccl"')


@rule(
    name="gloo-backend-on-cuda",
    severity="warning",
    summary="gloo as the backend of training on GPUs",
    message="The process group uses `gloo`, which takes gradients from the GPU to the host, sums them on the CPU, and "
    "copies them back.",
    help="Use `nccl`, or name no backend: torch then takes nccl for CUDA tensors.",
    triggers=("gloo",),
    reads=(ProcessGroup, Step, Backward, Wrap, Launch),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Use nccl",
)
def gloo_backend_on_cuda(trace: Trace) -> Iterator[Candidate]:
    groups = list(trace.all(ProcessGroup))
    on_gpu = trace.ever(Step, lambda step: step.device.equals("cuda"))
    on_gpu |= trace.ever(Backward, lambda backward: backward.device.equals("cuda"))
    wrapped = trace.ever(Wrap, lambda wrap: wrap.how.within(("ddp", "fsdp")))
    for group in groups:
        only = group.backend.equals("gloo")
        for other in groups:
            if other is not group:
                only &= other.backend.test(lambda name: name is not None and "nccl" not in str(name))
        yield Candidate(group, only & on_gpu & wrapped & several_processes(trace), blame=group.backend)
