"""Containers on several nodes publish one port, and NCCL needs more.

## What happens on a T4

The published port is enough for the processes to find each other. NCCL then opens further ports, which the system picks,
for its own bootstrap and for the data. In a bridged container nothing reaches them from another node: the run hangs after
`init_process_group`, or ends with `connect to ... failed: Connection refused`.

## How to fix it

`--network=host` (`network_mode: host` in compose), or an overlay network that joins the containers of all nodes.

## When it is right to ignore it

When the nodes of the launch are containers on one machine that share a network. Host networking, Kubernetes (whose pods
reach each other on all ports) and containers that publish no port are not reported.

## Sources

* NCCL 2.30 documentation, "Networking issues" and `NCCL_SOCKET_IFNAME`: ephemeral ports; Docker documentation of bridge
  networks. Several hosts are not run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, NOT_SAID, Launch, ProcessGroup, Trace
from t4lint.trace.questions import uses_nccl

FEW = 16  # published ports; a range of thousands was meant for NCCL


@rule(
    name="only-rendezvous-port-published",
    severity="warning",
    summary="Several nodes in bridged containers with one published port",
    message="The container publishes port {ports} only, and NCCL needs ports that it picks itself to reach the other "
    "{others}: they cannot be reached.",
    help="Use `--network=host` (`network_mode: host` in compose) or a network that spans the nodes.",
    triggers=("-p", "publish", "ports"),
    reads=(Launch, ProcessGroup),
)
def only_rendezvous_port_published(trace: Trace) -> Iterator[Candidate]:
    for launch in trace.all(Launch):
        if launch.ports == NOT_SAID:
            continue
        published = launch.ports.test(lambda ports: 0 < len(ports) <= FEW)
        bridged = launch.network.equals("bridge") if uses_nccl(trace) else FALSE
        others = launch.nodes.it - 1 if launch.nodes.known else 0
        yield Candidate(
            launch,
            launch.nodes.test(lambda nodes: nodes > 1) & bridged & published,
            blame=launch.ports,
            words={
                "ports": ", ".join(map(str, launch.ports.it or ())),
                "others": "node" if others == 1 else "nodes",
            },
        )
