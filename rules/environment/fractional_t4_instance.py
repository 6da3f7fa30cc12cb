"""The machine that is asked for has a part of a T4.

## What happens on a T4

`GN7.2XLARGE40` has half of a T4 and `GN7.LARGE20` a quarter, with 8 and 4 GB of its memory (vGPU). Programs that fit on a T4
run out of memory there, and share its compute. The name does not tell: the number at the end is the host's memory.

## How to fix it

`GN7.2XLARGE32` is the smallest with a whole T4.

## When it is right to ignore it

For small models that were measured there, or for inference. A file that lists many types is a table, and not reported.

## Sources

* Tencent Cloud documentation of GN7 instances, as in `t4lint/devices/instances.csv` (2026)
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.devices import instances
from t4lint.rule import Candidate, rule
from t4lint.trace import Fact, InstanceRequest, Trace

PARTS = {0.5: "half", 0.25: "a quarter"}


@rule(
    name="fractional-t4-instance",
    severity="warning",
    summary="A machine with a part of a T4",
    message="`{name}` has {part} of a T4, with about {gb:g} GB of memory.",
    help="Take `GN7.2XLARGE32`, the smallest with a whole T4.",
    triggers=("GN7",),
    reads=(InstanceRequest,),
    verifiable=False,
)
def fractional_t4_instance(trace: Trace) -> Iterator[Candidate]:
    known = {name.lower(): instance for name, instance in instances().items()}
    for asked in trace.all(InstanceRequest):
        found = known.get(str(asked.name.it).lower())
        share = found.fraction if found is not None else 1.0
        words = {"name": asked.name.it, "part": PARTS.get(share, "a part"), "gb": 16 * share}
        yield Candidate(
            asked, Fact(share < 1 if asked.name.known else None, (asked.name,)), blame=asked.name, words=words
        )
