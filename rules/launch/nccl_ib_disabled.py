"""`NCCL_IB_DISABLE=1` on machines that have no InfiniBand.

## What happens on a T4

Nothing, as a rule: T4 machines of the clouds have Ethernet only, and NCCL finds no InfiniBand device and takes sockets. The
variable does not switch EFA off (that is a plugin's), and does harm once the script runs on a cluster that has InfiniBand.

## How to fix it

Remove it: NCCL finds out by itself.

## When it is right to ignore it

On Azure with accelerated networking, where NCCL may take the virtual Mellanox function for RoCE.

## Sources

* NCCL 2.30.7 documentation of `NCCL_IB_DISABLE`; instance tables of the providers in `t4lint/devices`. The transport that
  NCCL chooses needs GPUs and is not shown here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import EnvironmentVariable, Fact, Launch, Trace
from t4lint.trace.questions import settings_of, switched_on


@rule(
    name="nccl-ib-disabled",
    severity="note",
    summary="InfiniBand switched off where there is none",
    message="`NCCL_IB_DISABLE={value}` changes nothing on T4 machines, which have no InfiniBand.",
    help="Remove it: NCCL finds out by itself.",
    triggers=("NCCL_IB_DISABLE",),
    reads=(EnvironmentVariable, Launch),
    default=False,
)
def nccl_ib_disabled(trace: Trace) -> Iterator[Candidate]:
    for event, value in settings_of(trace, "NCCL_IB_DISABLE"):
        yield Candidate(
            event, switched_on(value) & Fact(not _may_have_it(trace)), blame=value, words={"value": value.it}
        )


def _may_have_it(trace: Trace) -> bool:
    """Azure's virtual functions look like InfiniBand."""
    return trace.target.instance is not None and trace.target.instance.provider == "Azure"
