"""The machine that is asked for is meant to have a T4, and has none or does not exist.

## What happens on a T4

Instance types of T4 families are easy to get wrong: `GN7.T4large` and `gn6i-c8g1.large` are in no table of their provider,
`gn6v` has V100s and `gn7i` A10s. The request fails, or the run gets another card with other limits and another price.

## How to fix it

`t4lint targets` lists the types with a T4.

## When it is right to ignore it

When the provider has added the type since the table was read. Another GPU that is meant is a note, on request.

## Sources

* tables of the providers, as in `t4lint/devices/instances.csv` with their dates (2024 to 2026)
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from t4lint.devices import instances
from t4lint.rule import Candidate, rule
from t4lint.trace import Fact, InstanceRequest, Trace

FAMILIES = re.compile(r"(?:GN7\.|GI3X\.|(?:ecs\.)?v?gn6i-|g4dn\.|Standard_NC\w*T4_v3|pi2\.)", re.IGNORECASE)
OTHERS = {"gn6v": "V100", "gn6e": "V100", "gn7i": "A10", "gn7e": "A100", "gn7": "A100"}


@rule(
    name="instance-without-t4",
    severity="warning",
    summary="An instance type that no table of its provider lists",
    message="`{name}` {what}; the nearest with a T4 is {near}.",
    help="Take a type that `t4lint targets` lists.",
    triggers=("GN7", "GI3X", "gn6", "gn7", "g4dn", "_T4_v3", "pi2."),
    reads=(InstanceRequest,),
    verifiable=False,
)
def instance_without_t4(trace: Trace) -> Iterator[Candidate]:
    known = {name.lower(): name for name in instances()}
    for asked in trace.all(InstanceRequest):
        name = str(asked.name.it).lower()
        listed = name in known or f"ecs.{name}" in known
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.3)
        alibaba = re.match(r"(?:ecs\.)?(gn\w+)-", name)
        other = OTHERS.get(alibaba[1]) if alibaba is not None else None
        family = bool(FAMILIES.match(name))
        wrong = Fact(None if not asked.name.known else not listed and (family or other is not None), (asked.name,))
        yield Candidate(
            asked,
            wrong,
            blame=asked.name,
            severity="note" if other else None,
            words={
                "name": asked.name.it,
                "what": f"has a {other}, not a T4" if other else "is in no table of its provider",
                "near": f"`{known[near[0]]}`" if near else "a listed type",
            },
            on_request=other is not None,
        )
