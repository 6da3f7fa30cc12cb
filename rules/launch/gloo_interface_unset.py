"""gloo groups span nodes, and nothing says which interface gloo may use.

## What happens on a T4

gloo takes the address that the host's own name resolves to. Ubuntu images write `127.0.1.1 hostname` into /etc/hosts, so
that is the loopback, and the nodes cannot reach each other: the process group fails with a time-out or `Connection refused`.

## How to fix it

`export GLOO_SOCKET_IFNAME=ens5`, the interface of the private network; unlike NCCL's it takes names only, no exclusions.

## When it is right to ignore it

When the host name resolves to the private address, as on most managed clusters. Reported only where a gloo group is named.
Pods and containers with a network of their own find their own address under their name, and jobs without a GPU are not judged.

## Sources

* torch 2.13 `ProcessGroupGloo.cpp`: host name, else loopback, with a warning. Several hosts are not run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, EnvironmentVariable, Fact, Launch, ProcessGroup, Trace
from t4lint.trace.questions import settings_of


@rule(
    name="gloo-interface-unset",
    severity="note",
    summary="gloo between nodes without a choice of interface",
    message="A gloo group spans {nodes} nodes, and without `GLOO_SOCKET_IFNAME` gloo uses the address that the host name resolves "
    "to, often the loopback.",
    help="Set `GLOO_SOCKET_IFNAME` to the interface of the private network.",
    triggers=("gloo",),
    reads=(Launch, EnvironmentVariable, ProcessGroup),
    default=False,
)
def gloo_interface_unset(trace: Trace) -> Iterator[Candidate]:
    gloo = FALSE
    for group in trace.all(ProcessGroup):
        gloo |= group.backend.test(lambda backend: "gloo" in str(backend))
    named = any(True for _ in settings_of(trace, "GLOO_SOCKET_IFNAME"))
    for launch in trace.all(Launch):
        several = launch.nodes.test(lambda nodes: nodes > 1)
        # the runtime writes a container's own address and name into its /etc/hosts
        apart = launch.in_container.it is True and launch.network.it in ("flat", "bridge")
        asked = Fact(not named and not apart and trace.target.gpu is not None)
        yield Candidate(launch, gloo & several & asked, words={"nodes": launch.nodes.it})
