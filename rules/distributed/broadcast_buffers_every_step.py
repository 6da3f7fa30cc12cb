"""DDP sends the running statistics of batch norm from rank 0 to all others at every forward.

## What happens on a T4

Buffers are few bytes, but each forward then begins with a broadcast that all ranks wait for: two small collectives a
step, a millisecond or so between nodes of ordinary Ethernet, and nothing runs beside them.

## How to fix it

`DistributedDataParallel(model, broadcast_buffers=False)`: each rank keeps statistics of its own, and the checkpoint of rank
0 has those of rank 0. From torch 2.13 on the argument is called `forward_sync_buffers`, and the old name is deprecated.

## When it is right to ignore it

When evaluation on another rank than 0 must see the same statistics, or when a step takes seconds anyway. Models without batch
norm, and with SyncBatchNorm, are not reported. Off by default.

## Sources

* torch 2.13 `nn/parallel/distributed.py` (`_sync_buffers`, the deprecation); two broadcasts a step, counted on two ranks in
  `tests/test_distributed_claims.py`. What one costs on T4 nodes is an estimate from the latency of TCP
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import AddArgument, Candidate, Edit, rule
from t4lint.trace import Backward, Launch, Trace, Wrap
from t4lint.trace.questions import option_of, several_processes

RENAMED = "2.13"  # torch from which the argument has a new name


def _argument(trace: Trace) -> str:
    """The old name works everywhere, with a warning from 2.13 on."""
    renamed = "torch" in trace.versions and trace.version_at_least("torch", RENAMED).holds
    return "forward_sync_buffers" if renamed else "broadcast_buffers"


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    if candidate.event.role != "engine" and not candidate.words["written"]:
        yield AddArgument(candidate.event, _argument(trace), "False", "DistributedDataParallel")


@rule(
    name="broadcast-buffers-every-step",
    severity="note",
    summary="DDP broadcasts the statistics of batch norm at every forward",
    message="Every forward begins with a broadcast of the running statistics of batch norm, and all processes wait for it.",
    help="Pass `broadcast_buffers=False` (from torch 2.13 on `forward_sync_buffers`) if each process may keep its own statistics.",
    triggers=("DistributedDataParallel", "DDP", "Accelerator", "Trainer"),
    reads=(Wrap, Launch, Backward),
    default=False,
    fix="unsafe",
    fixes=_fixes,
    fix_title="Leave the statistics to each process",
)
def broadcast_buffers_every_step(trace: Trace) -> Iterator[Candidate]:
    trains = trace.ever(Backward)
    for wrap in trace.all(Wrap):
        old, new = option_of(wrap, "broadcast_buffers", True), option_of(wrap, "forward_sync_buffers", True)
        yield Candidate(
            wrap,
            wrap.how.equals("ddp")
            & wrap.normalization.equals("BatchNorm")
            & old.test(_unless_off)
            & new.test(_unless_off)
            & several_processes(trace)
            & trains,
            words={
                "written": bool({"broadcast_buffers", "forward_sync_buffers"} & set(wrap.options)),
            },
        )


def _unless_off(value: object) -> bool:
    return value is not False
