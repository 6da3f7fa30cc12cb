"""The first process does long work while the others wait for it.

## What happens on a T4

`if rank == 0:` around a download, `dataset.map` or an evaluation, with a collective after it: the other processes wait in it.
NCCL gives up after 10 minutes (transformers' `ddp_timeout`: 30), and the run ends with a time-out that looks like a network
fault. The disks and the two to four cores of a small T4 machine make that easy to reach.

## How to fix it

Prepare the data before the launch, or give the process group a longer `timeout`. A time-out of hours hides real hangs.

## When it is right to ignore it

When the work is known to take seconds. How long it takes is not known here, so this is reported on request only.

## Sources

* torch 2.13: 10 minutes for NCCL (`kProcessGroupNCCLDefaultTimeout`), 30 for gloo; transformers 5.24 `ddp_timeout`; run with
  two processes and gloo: the waiting one ends at the time-out
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Collective, Event, Fact, Launch, ProcessGroup, Trace
from t4lint.trace.questions import several_processes


@rule(
    name="long-rank0-work-before-barrier",
    severity="note",
    summary="The others wait while the first process does long work",
    message="Only some processes do this ({work}); the others wait for them at line {line}, and give up after {minutes} minutes.",
    help="Do it before the launch, or pass a longer `timeout=` to `init_process_group`.",
    triggers=("barrier", "wait_for_everyone", "all_reduce", "broadcast"),
    reads=(Call, Collective, ProcessGroup, Launch),
)
def long_rank0_work_before_barrier(trace: Trace) -> Iterator[Candidate]:
    several = several_processes(trace)
    nccl = any(group.backend.it is None or "nccl" in str(group.backend.it) for group in trace.all(ProcessGroup))
    before: list[Call] = []
    for event in trace.events:
        if isinstance(event, Call) and event.role == "long work":
            before.append(event)
        elif isinstance(event, Collective) and event.ranks.it == "all":
            for work in before:
                yield _candidate(work, event, several, nccl)
            before = []


def _candidate(work: Call, collective: Event, several: Fact, nccl: bool) -> Candidate:
    words = {"work": work.function, "line": collective.where.line, "minutes": 10 if nccl else 30}
    return Candidate(work, work.arguments["ranks"].equals("some") & several, words=words, on_request=True)
