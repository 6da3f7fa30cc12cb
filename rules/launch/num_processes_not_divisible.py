"""accelerate's number of processes cannot be shared out evenly among the machines.

## What happens on a T4

`num_processes` is the total over all machines, not the number on each. accelerate divides it by `num_machines` and drops
the rest: 3 processes on 2 machines become one on each, and 1 process on 2 machines none, which fails. GPUs that are paid
for stand idle, and nothing says so.

## How to fix it

Give the total: machines times GPUs on each (`--num_machines 2 --num_processes 4` for two nodes with two T4s).

## When it is right to ignore it

Never; the numbers cannot both be what was meant.

## Sources

* accelerate 1.15, `utils/launch.py`: `nproc_per_node = num_processes // num_machines`; run with 2 machines and 1 and 3
  processes
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, NOT_SAID, Fact, Launch, Trace, Value, whole_number


@rule(
    name="num-processes-not-divisible",
    severity="error",
    summary="num_processes, a total, is no multiple of num_machines",
    message="`num_processes` is the total over all machines: {processes} on {machines} machines start {each} on each.",
    help="Give the total: the number of machines times the GPUs of each.",
    triggers=("num_processes",),
    reads=(Launch,),
)
def num_processes_not_divisible(trace: Trace) -> Iterator[Candidate]:
    for launch in trace.all(Launch):
        total = launch.flags.get("num_processes", NOT_SAID)
        if launch.launcher != "accelerate" or total == NOT_SAID:
            continue
        machines = launch.nodes
        processes, count = _number(total), _number(machines)
        uneven = Fact(None, (total, machines))
        if count is not None and count < 2:
            uneven = FALSE
        elif processes is not None and count is not None:
            uneven = Fact(processes % count != 0, (total, machines))
        each = processes // count if processes is not None and count else 0
        yield Candidate(
            launch,
            uneven,
            blame=total,
            words={"processes": processes, "machines": machines.it, "each": f"only {each}" if each else "none"},
        )


def _number(value: Value) -> int | None:
    return whole_number(value.it) if value.known else None
