"""`NCCL_P2P_DISABLE=1` switches off what NCCL does not use on these hosts anyway.

## What happens on a T4

Nothing, as a rule. T4s hang off the CPU's root complex, and NCCL never uses peer access through an Intel CPU, nor, since
2.23, through any other except AMD hosts with at most two GPUs. The data goes through shared memory with and without the
variable. It is copied from advice for other cards, and hides the cause when the script moves to a machine with NVLink.

## How to fix it

Remove it, or say beside it which hang it was set for.

## When it is right to ignore it

On an AMD host with two T4s, or on bare metal behind a PCIe switch whose peer access is broken.

## Sources

* NCCL 2.18.5 to 2.30.7, `src/graph/paths.cc`; accelerate 1.15 sets it for RTX 40 cards only. The transport that NCCL chooses
  needs GPUs and is not shown here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import EnvironmentVariable, Launch, Trace
from t4lint.trace.questions import settings_of, switched_on


@rule(
    name="nccl-p2p-disabled",
    severity="note",
    summary="Peer access switched off where NCCL does not use it",
    message="`NCCL_P2P_DISABLE={value}` changes nothing on most T4 machines: NCCL does not use peer access through the CPU.",
    help="Remove it, or note the hang that it was set for.",
    triggers=("NCCL_P2P_DISABLE",),
    reads=(EnvironmentVariable, Launch),
    default=False,
)
def nccl_p2p_disabled(trace: Trace) -> Iterator[Candidate]:
    for event, value in settings_of(trace, "NCCL_P2P_DISABLE"):
        yield Candidate(event, switched_on(value), blame=value, words={"value": value.it})
