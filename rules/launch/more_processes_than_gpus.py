"""More processes are started on a node than it has GPUs.

## What happens on a T4

Each process of a data parallel run needs a GPU of its own. The ranks beyond the last GPU either ask for a device that is
not there (`CUDA error: invalid device ordinal`) or share one, which NCCL refuses: `Duplicate GPU detected` up to
2.29, `Multiple Ranks are using the same GPU/Partition` from 2.30 on. Nothing is trained. Most T4 machines have one card;
Kaggle's have two, `g4dn.12xlarge` four.

## How to fix it

Start as many processes as there are GPUs: `torchrun --nproc_per_node=gpu` counts them itself.

## When it is right to ignore it

When the launch is for another machine than the target: name it with `--target`. Jobs on gloo or on the CPU are not
reported, nor is a target that does not say how many GPUs the machine has.

## Sources

* NCCL 2.29 and 2.30, `init.cc`; torch 2.13 `torch/distributed/run.py` (`--nproc_per_node=gpu`)
* huggingface/diffusers#10733 (Kaggle: two ranks on one device)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import Candidate, Edit, SetValue, rule
from t4lint.trace import FALSE, NOT_SAID, EnvironmentVariable, Fact, Launch, ProcessGroup, Trace, Value

GPU_LAUNCHERS = ("torchrun", "torch.distributed.launch", "accelerate", "deepspeed")
COUNTING = ("torchrun", "torch.distributed.launch")
FALSE_WORDS = ("0", "false", "")


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    """torchrun counts the GPUs itself; for accelerate and deepspeed the number would have to be known."""
    launch = candidate.event
    if isinstance(launch, Launch) and launch.launcher in COUNTING and candidate.blame is not None:
        yield SetValue(candidate.blame, '"gpu"')


@rule(
    name="more-processes-than-gpus",
    severity="error",
    summary="More processes on a node than GPUs",
    message="{processes} processes are started on a node that shows {gpus}: NCCL refuses two ranks on one GPU.",
    help="Start one process per GPU: `torchrun --nproc_per_node=gpu`, or the number that the machine has.",
    triggers=("nproc", "num_processes", "num_gpus", "include"),
    reads=(Launch, ProcessGroup, EnvironmentVariable),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Start one process for each GPU",
)
def more_processes_than_gpus(trace: Trace) -> Iterator[Candidate]:
    for launch in trace.all(Launch):
        gpus, visible = _gpus(trace, launch)
        count = launch.processes_per_node
        yield Candidate(
            launch,
            _over(count, gpus) & _on_gpus(trace, launch),
            blame=count,
            words={"processes": count.it, "gpus": _said(gpus.it, visible)},
        )


def _over(count: Value, gpus: Value) -> Fact:
    if count.known and count.it <= 1:
        return Fact(False, (count,))
    return Fact(count.it > gpus.it if count.known and gpus.known else None, (count, gpus))


def _gpus(trace: Trace, launch: Launch) -> tuple[Value, bool]:
    """How many GPUs a process can see, and whether CUDA_VISIBLE_DEVICES says so."""
    target = trace.target
    there = (
        Value(target.gpus)
        if target.instance is not None and target.gpus is not None
        else Value(unknown="the target does not say how many GPUs the machine has")
    )
    visible = launch.environment.get("CUDA_VISIBLE_DEVICES", NOT_SAID)
    if launch.launcher == "deepspeed" or "gpu_ids" in launch.flags:  # they choose the devices themselves
        return there, False
    if any(variable.name == "CUDA_VISIBLE_DEVICES" for variable in trace.all(EnvironmentVariable)):
        return Value(unknown="the program chooses its GPUs"), False
    if visible.known:
        named = [part for part in str(visible.it).split(",") if part.strip()]
        if "-1" in (part.strip() for part in named) or not named:
            return Value(unknown="no GPU is visible"), False
        if there.known and there.it < len(named):
            return there, False
        return Value(len(named), visible.origins), True
    return there, False


def _on_gpus(trace: Trace, launch: Launch) -> Fact:
    """Does each process need a GPU? Not with gloo alone, on the CPU, or where NCCL is told to share."""
    backends = [group.backend for group in trace.all(ProcessGroup)]
    if launch.launcher not in GPU_LAUNCHERS:
        nccl = FALSE
        for backend in backends:
            nccl |= backend.test(lambda name: "nccl" in str(name))
        return nccl
    if "cpu" in launch.flags or "cpu" in str(launch.environment.get("ACCELERATE_USE_CPU", NOT_SAID).it):
        return FALSE
    shared = launch.environment.get("NCCL_MULTI_RANK_GPU_ENABLE", NOT_SAID)
    if shared != NOT_SAID and str(shared.it).lower() not in FALSE_WORDS:
        return FALSE
    gpus = Fact(True)
    for backend in backends:
        gpus &= backend.test(lambda name: name is None or "nccl" in str(name))
    return gpus


def _said(count: int | None, visible: bool) -> str:
    number = "1 GPU" if count == 1 else f"{count} GPUs"
    return f"{number} (`CUDA_VISIBLE_DEVICES`)" if visible else number
