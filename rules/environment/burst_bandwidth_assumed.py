"""The machine's network rate is "up to": it holds for minutes.

## What happens on a T4

The small g4dn types are sold with "up to 25 Gbit/s". That is a burst paid from credits; what stays is 5, 10 or 20. Training
exchanges gradients for hours, so its steps slow down after the first minutes, and a plan that counted on 25 is off by two to
five times.

## How to fix it

Plan with the sustained rate, or take one larger machine with several T4s.

## When it is right to ignore it

For a single machine, whose network carries data only.

## Sources

* rates of AWS (karpenter-provider-aws, 2026-08) and of Huawei, as in `t4lint/devices/instances.csv`
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.devices import instances
from t4lint.rule import Candidate, rule
from t4lint.trace import Fact, InstanceRequest, Trace


@rule(
    name="burst-bandwidth-assumed",
    severity="note",
    summary="A network rate that holds for minutes",
    message="`{name}` has up to {burst:g} Gbit/s, and {sustained:g} Gbit/s for long.",
    help="Plan the exchange of gradients with the sustained rate.",
    triggers=("g4dn", "pi2."),
    reads=(InstanceRequest,),
    default=False,
    verifiable=False,
)
def burst_bandwidth_assumed(trace: Trace) -> Iterator[Candidate]:
    known = {name.lower(): instance for name, instance in instances().items()}
    for asked in trace.all(InstanceRequest):
        found = known.get(str(asked.name.it).lower())
        sustained = (found.network_gbps_baseline or 0.0) if found is not None else 0.0
        burst = (found.network_gbps_max or 0.0) if found is not None else 0.0
        bursts = Fact(burst > sustained > 0 if asked.name.known else None, (asked.name,))
        words = {"name": asked.name.it, "burst": burst, "sustained": sustained}
        yield Candidate(asked, bursts, blame=asked.name, words=words)
