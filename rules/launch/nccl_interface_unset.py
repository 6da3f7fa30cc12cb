"""Several nodes, and nothing says which network interface NCCL may use.

## What happens on a T4

T4 nodes talk over Ethernet. Without `NCCL_SOCKET_IFNAME` NCCL takes every interface except `docker*`, `lo` and (from
2.28 on) `virbr*`, and uses all of them. On a plain virtual machine that is one interface, and right. Beside Docker
bridges, Kubernetes network plugins or a VPN, the bridges (`br-*`, `veth*`, `cali*`, `flannel*`, `tun*`) come along,
connections go nowhere, and the job hangs or ends with `ncclSystemError`.

## How to fix it

Exclude what must not be used, which works on every node: `export
NCCL_SOCKET_IFNAME=^lo,docker,br-,veth,virbr,tun,cali,flannel,cni`.

## When it is right to ignore it

On plain virtual machines with one interface, where leaving it unset is usually right; the finding is a note there,
and a warning for containers in the network of their host. A pod of Kubernetes, or a container with a network of its own, has
one interface only.

## Sources

* NCCL 2.21 to 2.30.7, interface search (`ncclFindInterfaces`); NVIDIA/nccl#697 (16 interfaces), #428 (T4s, `tunl0`
  picked), #286 (leave it unset first)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import AddVariable, Candidate, Edit, rule
from t4lint.trace import FALSE, EnvironmentVariable, Fact, Launch, ProcessGroup, Trace
from t4lint.trace.questions import uses_nccl

NAME = "NCCL_SOCKET_IFNAME"
EXCLUDED = "^lo,docker,br-,veth,virbr,tun,cali,flannel,cni"


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    yield AddVariable(candidate.event, NAME, EXCLUDED)


@rule(
    name="nccl-interface-unset",
    severity="note",
    summary="Several nodes without a choice of network interface for NCCL",
    message="{nodes} nodes are started without `NCCL_SOCKET_IFNAME`, so NCCL uses every network interface that it finds{also}.",
    help="Exclude what must not be used: `export NCCL_SOCKET_IFNAME=^lo,docker,br-,veth,virbr,tun,cali,flannel,cni`.",
    triggers=("nnodes", "num_machines", "replicas", "numNodes", "num_nodes", "hostfile", "nproc"),
    reads=(Launch, EnvironmentVariable, ProcessGroup),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Leave out the interfaces of containers and virtual machines",
)
def nccl_interface_unset(trace: Trace) -> Iterator[Candidate]:
    never_set = trace.never(EnvironmentVariable, lambda variable: Fact(variable.name == NAME))
    for launch in trace.all(Launch):
        several = launch.nodes.test(lambda nodes: nodes > 1)
        unset = FALSE if NAME in launch.environment or not uses_nccl(trace) else never_set
        # a pod, or a container with a network of its own, has one interface
        contained = launch.in_container.it is True and launch.network.it not in ("flat", "bridge")
        yield Candidate(
            launch,
            several & unset,
            severity="warning" if contained else None,
            words={"nodes": launch.nodes.it, "also": ", container bridges too" if contained else ""},
        )
