"""Only some of the processes take part in an operation that needs all of them.

## What happens on a T4

`barrier`, `all_reduce`, `gather`, `wait_for_everyone` or the `state_dict()` of a sharded model wait for every process of the
group. Under `if rank == 0:` the others never come: rank 0 waits, or the others wait at their next gradient exchange, until
the time-out (10 minutes with NCCL) ends the run with an error that names another line.

## How to fix it

Call it outside of the branch, on all processes, and keep what only the first one does (printing, writing) inside.

## When it is right to ignore it

When the other processes make the same call somewhere else. That is not reported where it stands in another branch on the
rank in the same function; nor are calls with a `group` of their own.

## Sources

* torch 2.13, run with two processes and gloo: a barrier under `if rank == 0` ends in a time-out; accelerate 1.15
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Collective, Launch, ProcessGroup, Trace
from t4lint.trace.questions import first_of_each, several_processes


@rule(
    name="collective-in-rank-guard",
    severity="error",
    summary="A collective operation under a test on the rank",
    message="`{operation}` needs every process, and only some get here: they wait for the others until the time-out.",
    help="Call it on all processes, outside of the test on the rank.",
    triggers=("barrier", "all_reduce", "gather", "reduce", "broadcast", "wait_for_everyone", "state_dict"),
    reads=(Collective, ProcessGroup, Launch),
)
def collective_in_rank_guard(trace: Trace) -> Iterator[Candidate]:
    several = several_processes(trace)
    for collective in first_of_each(trace, Collective):
        yield Candidate(
            collective,
            collective.ranks.test(lambda who: who != "all") & several,
            words={"operation": collective.operation.rpartition(".")[2]},
        )
