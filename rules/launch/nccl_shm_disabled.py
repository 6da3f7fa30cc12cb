"""`NCCL_SHM_DISABLE=1` with several GPUs in a node.

## What happens on a T4

T4s have no NVLink, and NCCL uses no PCIe peer access through the CPU's root complex, so GPUs of one node talk over shared
memory. With it switched off, their gradients go through IP sockets instead: as if each card stood in a machine of its
own.

## How to fix it

Remove the variable. If it was set because `/dev/shm` was too small in a container, enlarge that: `docker run
--shm-size=1g` or `--ipc=host`.

## When it is right to ignore it

While looking for a hang, to see whether shared memory is the cause. One process per node is not reported.

## Sources

* NCCL 2.30.7 documentation of `NCCL_SHM_DISABLE` and `src/graph/paths.cc` (no peer access through the CPU since 2.23)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import Candidate, Edit, SetValue, rule
from t4lint.trace import FALSE, EnvironmentVariable, Launch, ProcessGroup, Trace
from t4lint.trace.questions import any_launch, settings_of, switched_on, uses_nccl

NAME = "NCCL_SHM_DISABLE"


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    if candidate.blame is not None:
        yield SetValue(candidate.blame, '"0"')


@rule(
    name="nccl-shm-disabled",
    severity="warning",
    summary="Shared memory between the GPUs of a node switched off",
    message="`NCCL_SHM_DISABLE={value}` sends what the GPUs of one node exchange through network sockets.",
    help="Remove the variable; if /dev/shm was too small in a container, use `--shm-size=1g` or `--ipc=host`.",
    triggers=(NAME,),
    reads=(EnvironmentVariable, Launch, ProcessGroup),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Leave shared memory on",
)
def nccl_shm_disabled(trace: Trace) -> Iterator[Candidate]:
    several = any_launch(trace, lambda launch: launch.processes_per_node.test(lambda count: count > 1))
    if not uses_nccl(trace):
        several = FALSE
    for event, value in settings_of(trace, NAME):
        yield Candidate(event, switched_on(value) & several, blame=value, words={"value": value.it})
