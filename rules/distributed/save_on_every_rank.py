"""Every process of a run writes the same file.

## What happens on a T4

With several processes `torch.save(...)` without a test on the rank runs in each of them, at the same time and to the same
path. On a shared disk the file ends up mixed or truncated, which shows when it is loaded; on a small T4 machine the disk is
written several times over.

## How to fix it

`if dist.get_rank() == 0:` around the call, or `accelerator.save(...)`. A sharded checkpoint (FSDP, DeepSpeed,
`torch.distributed.checkpoint`) is different: all processes must take part in that.

## When it is right to ignore it

When the path is on a disk of each node's own and each node has one process. A path that holds the rank is not reported, nor
is what the Trainer saves, which asks first.

## Sources

* torch 2.13, run with two processes: both write the file
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import Candidate, Edit, PutUnder, rule
from t4lint.trace import FALSE, Fact, Launch, ProcessGroup, Save, Trace, Wrap
from t4lint.trace.questions import first_of_each, several_processes


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    """Also where the program is started without a process group."""
    yield PutUnder(
        candidate.event, "if not {module}.is_initialized() or {module}.get_rank() == 0:", "torch.distributed"
    )


@rule(
    name="save-on-every-rank",
    severity="warning",
    summary="Every process writes the same file",
    message="Each process of the run writes {target} at the same time: the file may end up mixed or cut off.",
    help="Write it on the first process only: `if torch.distributed.get_rank() == 0:`.",
    triggers=("save",),
    reads=(Save, ProcessGroup, Wrap, Launch),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Save on the first process only",
)
def save_on_every_rank(trace: Trace) -> Iterator[Candidate]:
    parallel = trace.ever(Wrap, lambda wrap: wrap.how.equals("ddp") & Fact(wrap.role != "engine"))
    sharded = any(wrap.how.it not in ("ddp", "data_parallel") for wrap in trace.all(Wrap))
    together = parallel & several_processes(trace) & ~_one_process_a_node(trace) if not sharded else FALSE
    for save in first_of_each(trace, Save):
        known = save.target.known and isinstance(save.target.it, str)
        yield Candidate(
            save,
            save.ranks.equals("all") & save.apart.equals(False) & together,
            words={"target": f"`{save.target.it}`" if known else "the same path"},
        )


def _one_process_a_node(trace: Trace) -> Fact:
    """With one process on each node the disks may be their own."""
    launches = list(trace.all(Launch))
    return Fact(bool(launches) and all(launch.processes_per_node.it == 1 for launch in launches))
