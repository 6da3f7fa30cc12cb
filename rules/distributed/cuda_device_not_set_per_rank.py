"""No process of a data parallel run picks a GPU of its own.

## What happens on a T4

`.cuda()` and `"cuda"` mean GPU 0 until `torch.cuda.set_device` says else. Each process then puts its model on GPU 0: NCCL
refuses (`Duplicate GPU detected`, or `Multiple Ranks are using the same GPU/Partition` from 2.30 on), or all of them run out
of its memory while the other T4s idle.

## How to fix it

`torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))` before anything goes to the GPU, and `DistributedDataParallel(model,
device_ids=[local_rank])`.

## When it is right to ignore it

When what starts the processes shows each of them one GPU (`CUDA_VISIBLE_DEVICES` per process, `--gpus-per-task=1`). Programs
that name `set_device`, `device_ids`, `LOCAL_RANK` or the variable anywhere are not judged.

## Sources

* NCCL 2.29 and 2.30, `init.cc`; torch 2.13 documentation of DistributedDataParallel. Needs GPUs and is not shown here
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import AddImport, Candidate, Edit, InsertAfter, rule
from t4lint.trace import DeviceChoice, Fact, Forward, Launch, ProcessGroup, Trace, Wrap
from t4lint.trace.questions import several_processes

SETTING = ("torchrun", "torch.distributed.launch", "accelerate", "deepspeed")  # LOCAL_RANK, for each process


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    """One line after the process group is made; a program that names `cuda:0` itself needs more than that."""
    named = any(choice.index.it in ("cuda:0", 0) for choice in trace.all(DeviceChoice))
    groups = [group for group in trace.all(ProcessGroup) if group.where.path == candidate.event.where.path]
    if not named and len(groups) == 1 and any(launch.launcher in SETTING for launch in trace.all(Launch)):
        yield InsertAfter(groups[0], 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))')
        yield AddImport(groups[0], "os")
        yield AddImport(groups[0], "torch")


@rule(
    name="cuda-device-not-set-per-rank",
    severity="warning",
    summary="All processes of a DDP run use GPU 0",
    message="Nothing gives each process its own GPU, so all of them put the model on GPU 0, and NCCL refuses to share it.",
    help='Call `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))` first, and pass `device_ids=[local_rank]`.',
    triggers=("DistributedDataParallel", "DDP"),
    reads=(Wrap, ProcessGroup, DeviceChoice, Launch, Forward),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Give each process its own GPU",
)
def cuda_device_not_set_per_rank(trace: Trace) -> Iterator[Candidate]:
    nccl = trace.ever(ProcessGroup, lambda group: group.backend.test(lambda name: name is None or "nccl" in str(name)))
    on_gpu = trace.ever(DeviceChoice, lambda choice: choice.index.within(("cuda", "cuda:0", 0, None)))
    several = several_processes(trace) & Fact(not _one_gpu_each(trace))
    for wrap in trace.all(Wrap):
        if wrap.role != "engine":
            yield Candidate(wrap, wrap.how.equals("ddp") & wrap.devices.equals("same") & nccl & on_gpu & several)


def _one_gpu_each(trace: Trace) -> bool:
    """Does the launch start one process a node, each on its own GPU?"""
    launches = list(trace.all(Launch))
    return bool(launches) and all(launch.processes_per_node.it == 1 for launch in launches)
