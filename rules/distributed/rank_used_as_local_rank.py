"""The GPU is picked by RANK, the number of the process in the whole run.

## What happens on a T4

On one node RANK and LOCAL_RANK are the same. On the second node RANK goes on counting, and `cuda:4` does not exist on a
machine with four T4s: `CUDA error: invalid device ordinal`. T4 machines have one to four cards, so this comes early.

## How to fix it

`torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))`. `rank % torch.cuda.device_count()` works too where all nodes are
alike.

## When it is right to ignore it

When the program will never run on more than one node: a launch that is known to be for one node is not reported. Nor is
the number that `mp.spawn` hands to its function, which counts the processes of one machine.

## Sources

* torch 2.13 documentation of torchrun; run with two agents of two processes each: RANK counts to 3, LOCAL_RANK to 1. The
  CUDA error needs GPUs and is not shown here
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import AddImport, Candidate, Edit, SetArgument, rule
from t4lint.trace import OF_RANK, DeviceChoice, Launch, Trace
from t4lint.trace.questions import follows, on_several_nodes

SETTING = ("torchrun", "torch.distributed.launch", "accelerate", "deepspeed")  # LOCAL_RANK, for each process


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    """Where `torch.cuda.set_device` picks it, and a launcher sets LOCAL_RANK."""
    if candidate.event.role == "set_device" and any(it.launcher in SETTING for it in trace.all(Launch)):
        yield SetArgument(candidate.event, "device", 'int(os.environ["LOCAL_RANK"])', "set_device", position=0)
        yield AddImport(candidate.event, "os")


@rule(
    name="rank-used-as-local-rank",
    severity="error",
    summary="The GPU of a process picked by its rank in the whole run",
    message="The GPU is picked by RANK, which goes on counting on the second node: there is no such GPU there.",
    help='Pick it by `int(os.environ["LOCAL_RANK"])`.',
    triggers=("RANK", "rank"),
    reads=(DeviceChoice, Launch),
    fix="safe",
    fixes=_fixes,
    fix_title="Use LOCAL_RANK",
)
def rank_used_as_local_rank(trace: Trace) -> Iterator[Candidate]:
    nodes = on_several_nodes(trace)
    known = any(launch.nodes.known and launch.nodes.it > 1 for launch in trace.all(Launch))
    for choice in trace.all(DeviceChoice):
        by_rank = follows(choice.index, OF_RANK)
        yield Candidate(choice, by_rank & nodes, severity=None if known else "warning")
        if by_rank.holds:
            return  # where it goes on to use that device is no fault of its own
