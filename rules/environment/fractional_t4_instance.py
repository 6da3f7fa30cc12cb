"""The machine that is asked for has a part of a T4.

## What happens on a T4

`GN7.2XLARGE40` and `ecs.vgn6i-m8-vws.2xlarge` have half of a T4, `GN7.LARGE20` and `ecs.vgn6i-m4-vws.xlarge` a quarter, with
8 and 4 GB of its memory (vGPU). Programs that fit on a T4 run out of memory there, and share its compute. The names of the
GN7 do not tell: the number at the end is the host's memory. `t4lint --target GN7.LARGE20`, or `--target t4/4` for a T4 that
is divided otherwise, judges by what is left.

## How to fix it

`GN7.2XLARGE32` and `ecs.gn6i-c4g1.xlarge` are the smallest with a whole T4.

## When it is right to ignore it

For small models that were measured there, or for inference. A file that lists many types is a table, and not reported.

## Sources

* Tencent Cloud documentation of GN7, Alibaba Cloud documentation of vgn6i instances, as in `t4lint/devices/instances.csv` (2026)
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.devices import Instance, instances
from t4lint.rule import Candidate, rule
from t4lint.trace import Fact, InstanceRequest, Trace

PARTS = {0.5: "half", 0.25: "a quarter"}


@rule(
    name="fractional-t4-instance",
    severity="warning",
    summary="A machine with a part of a T4",
    message="`{name}` has {part} of a T4, with about {gb:g} GB of memory; `{whole}` is the smallest with a whole one.",
    help="Take a type with a whole T4; `t4lint targets` lists them.",
    triggers=("GN7", "vgn6i"),
    reads=(InstanceRequest,),
    verifiable=False,
)
def fractional_t4_instance(trace: Trace) -> Iterator[Candidate]:
    known = {name: instance for instance in instances().values() for name in _names(instance)}
    for asked in trace.all(InstanceRequest):
        found = known.get(str(asked.name.it).lower())
        share = found.fraction if found is not None else 1.0
        whole = _smallest_whole(found) if found is not None else ""
        words = {"name": asked.name.it, "part": PARTS.get(share, "a part"), "gb": 16 * share, "whole": whole}
        yield Candidate(
            asked, Fact(share < 1 if asked.name.known else None, (asked.name,)), blame=asked.name, words=words
        )


def _names(instance: Instance) -> list[str]:
    return [name.lower() for name in (instance.name, *instance.aliases)]


def _smallest_whole(asked: Instance) -> str:
    """The smallest machine of the same provider that has a whole GPU of the kind."""
    whole = [it for it in instances().values() if (it.provider, it.gpu, it.fraction) == (asked.provider, asked.gpu, 1)]
    return min(whole, key=lambda it: (it.gpu_count, it.vcpus), default=asked).name
