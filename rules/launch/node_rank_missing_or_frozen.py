"""Several nodes are started with a fixed rendezvous, and nothing says which node this is.

## What happens on a T4

With torchrun's static rendezvous (the one that it uses unless `--rdzv_backend` names another) each node must be told its
number. `--node_rank` is 0 unless it is given, so every node believes that it is the first: each opens the store, and no
rank of the others ever joins. The job waits until the rendezvous times out.

So it is with `srun torchrun --node_rank $SLURM_NODEID`: the shell of the batch script fills the variable in before `srun` starts
anything, and on the node that runs the batch script it is 0. In double quotes (`srun bash -c "..."`) it is no different.

## How to fix it

`--node_rank="$NODE_RANK"`, set differently on each node; under Slurm `srun bash -c 'torchrun --node_rank=$SLURM_NODEID
...'` in single quotes, so that the node and not the batch script fills it in. Or let the nodes agree by themselves:
`--rdzv_backend=c10d --rdzv_endpoint=HOST:29400 --rdzv_id=JOB`.

## When it is right to ignore it

When the environment of the nodes sets `PET_NODE_RANK`. With the c10d rendezvous, which hands out the ranks, nothing is
reported; nor where flags come from a variable that is not known.

## Sources

* torch 2.13, `torch/distributed/run.py`: `--node_rank` defaults to 0 and counts for the static backend only
* stas00/ml-engineering, orchestration/slurm/users.md (2024)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import Candidate, Edit, LeaveToInnerShell, rule
from t4lint.trace import FALSE, Fact, Launch, Trace

FILLED_IN_EARLY = "filled in by the batch script, where it is 0"  # so the value notes
TORCHRUN = ("torchrun", "torch.distributed.launch")


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    if isinstance(candidate.event, Launch) and _filled_in_early(candidate.event):
        yield LeaveToInnerShell(candidate.event.node_rank)


@rule(
    name="node-rank-missing-or-frozen",
    severity="error",
    summary="Every node is started as node 0",
    message="{nodes} nodes are started {how}: all of them are the first node, and wait for the others.",
    help='Give each node its number, `--node_rank="$NODE_RANK"`, or use `--rdzv_backend=c10d` with `--rdzv_endpoint`.',
    triggers=("nnodes",),
    reads=(Launch,),
    fix="safe",
    fixes=_fixes,
    fix_title="Let each node fill in its number",
)
def node_rank_missing_or_frozen(trace: Trace) -> Iterator[Candidate]:
    for launch in trace.all(Launch):
        several = launch.nodes.test(lambda nodes: nodes > 1)
        words = {"nodes": launch.nodes.it, "how": "without `--node_rank`, which is 0 unless it is given"}
        if _filled_in_early(launch):
            words["how"] = "with a rank that the batch script fills in, where it is 0"
            yield Candidate(launch, several, blame=launch.node_rank, words=words)
        elif launch.launcher in TORCHRUN:
            yield Candidate(launch, several & _presumed(launch), blame=launch.nodes, words=words)


def _filled_in_early(launch: Launch) -> bool:
    """`srun torchrun --node_rank $SLURM_NODEID`: the shell of the batch script puts its own number there, for all nodes."""
    return any(origin.note.endswith(FILLED_IN_EARLY) for origin in launch.node_rank.origins)


def _presumed(launch: Launch) -> Fact:
    """Is the rank the launcher's default, where the meeting place was given? (Without one, that is the fault.)"""
    if not launch.node_rank.known:
        given = launch.node_rank.origins  # `$NODE_RANK`: given, to be filled in on each node
        return FALSE if given else Fact(None if "" in launch.flags else False, (launch.node_rank,))
    if any(origin.how == "default" for origin in launch.rendezvous.origins):
        return FALSE
    return launch.node_rank.test(lambda rank: any(origin.how == "default" for origin in launch.node_rank.origins))
