"""`LOCAL_RANK` is taken for the number of the process in the whole run.

## What happens on a T4

LOCAL_RANK counts from 0 on every node. On one node it equals RANK, so nothing is noticed. On the second node the same
numbers come again: `init_process_group(rank=local_rank)` waits for ranks that never join, or two processes are both rank 0;
a sampler or shard by LOCAL_RANK gives the nodes the same data.

## How to fix it

`int(os.environ["RANK"])`, or `torch.distributed.get_rank()` once the process group is there. torchrun needs no `rank=` at
all.

## When it is right to ignore it

When the program will never run on more than one node. A launch that is known to be for one node is not reported.

## Sources

* torch 2.13 documentation of torchrun; run with two agents of two processes each: RANK counts to 3, LOCAL_RANK to 1
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import AddImport, Candidate, Edit, SetArgument, rule
from t4lint.trace import OF_LOCAL_RANK, Call, Fact, Launch, ProcessGroup, Trace, Value
from t4lint.trace.questions import follows, on_several_nodes

SAMPLER = "torch.utils.data.distributed.DistributedSampler"


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    function = "init_process_group" if isinstance(candidate.event, ProcessGroup) else "DistributedSampler"
    yield SetArgument(candidate.event, "rank", 'int(os.environ["RANK"])', function)
    yield AddImport(candidate.event, "os")


@rule(
    name="local-rank-used-as-global-rank",
    severity="error",
    summary="LOCAL_RANK where the rank in the whole run belongs",
    message="{what} takes LOCAL_RANK for the rank: it starts at 0 again on every node, so ranks collide on the second.",
    help='Use `int(os.environ["RANK"])` or `torch.distributed.get_rank()`.',
    triggers=("LOCAL_RANK", "local_rank"),
    reads=(ProcessGroup, Call, Launch),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Use RANK",
)
def local_rank_used_as_global_rank(trace: Trace) -> Iterator[Candidate]:
    nodes = on_several_nodes(trace)
    known = any(launch.nodes.known and launch.nodes.it > 1 for launch in trace.all(Launch))
    for group in trace.all(ProcessGroup):
        yield _candidate(group, group.rank, "`init_process_group`", nodes, known)
    for call in trace.all(Call):
        if call.function == SAMPLER and "rank" in call.arguments:
            yield _candidate(call, call.arguments["rank"], "`DistributedSampler`", nodes, known)


def _candidate(event: ProcessGroup | Call, rank: Value, what: str, nodes: Fact, known: bool) -> Candidate:
    return Candidate(
        event,
        follows(rank, OF_LOCAL_RANK) & nodes,
        severity=None if known else "warning",
        words={"what": what},
    )
