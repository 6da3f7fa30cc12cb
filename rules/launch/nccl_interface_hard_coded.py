"""`NCCL_SOCKET_IFNAME` names one fixed interface.

## What happens on a T4

NCCL looks for an interface of that name and, when there is none, stops: `Bootstrap : no socket interface found`.
There is no fallback. Names differ between the places where T4s are rented (`eth0`, `ens5`, `ens3`, `bond0`) and
inside containers, so a script that ran on one machine ends on the next. `lo` with several nodes connects every node
to itself.

## How to fix it

Exclude instead of naming: `export NCCL_SOCKET_IFNAME=^lo,docker,br-,veth,virbr,tun,cali,flannel,cni`, or derive the
name on each node from `ip route get`.

## When it is right to ignore it

When all nodes come from one image and the name was looked up there. A prefix without a number (`ens`, `eth`) and an
exclusion list are not reported; neither is a program with a single process, nor `eth0` in pods of Kubernetes with a network of
their own, which have no other name for it.

## Sources

* NCCL 2.21 to 2.30.7, interface search (`ncclFindInterfaces`); NCCL documentation on environment variables
* pytorch/pytorch#29482 (nodes with four T4s, `eth0` not there), NVIDIA/nccl#286 (`lo`). gloo ends
  in the same way on two hosts with a name that is not there, and with `lo` (`tests/test_distributed_claims.py`)
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import EnvironmentVariable, Fact, Launch, Trace, Value
from t4lint.trace.questions import any_launch, settings_of, several_nodes

NAME = "NCCL_SOCKET_IFNAME"


@rule(
    name="nccl-interface-hard-coded",
    severity="warning",
    summary="One fixed network interface for NCCL",
    message="NCCL is told to use the interface `{interface}`: {effect}.",
    help="Exclude instead of naming: `NCCL_SOCKET_IFNAME=^lo,docker,br-,veth,virbr,tun,cali,flannel,cni`.",
    triggers=(NAME,),
    reads=(EnvironmentVariable, Launch),
)
def nccl_interface_hard_coded(trace: Trace) -> Iterator[Candidate]:
    nodes = several_nodes(trace)
    several = nodes | any_launch(trace, lambda launch: launch.processes_per_node.test(lambda count: count > 1))
    for event, value in settings_of(trace, NAME):
        loopback = value.it == "lo"
        wrong = nodes if loopback else several & value.test(_one_name) & Fact(not _of_a_pod(trace, value))
        yield Candidate(
            event,
            wrong,
            blame=value,
            severity="error" if loopback else None,
            words={
                "interface": value.it,
                "effect": "every node then talks only to itself"
                if loopback
                else "a machine or container where it has another name ends at start, without a fallback",
            },
        )


def _one_name(text: object) -> bool:
    """`eth0`, `=ens5`, `eth0,eth1`; not `^docker0`, and not a prefix such as `ens`."""
    value = str(text).strip()
    names = value.lstrip("=").split(",")
    return bool(value) and not value.startswith("^") and all(any(letter.isdigit() for letter in name) for name in names)


def _of_a_pod(trace: Trace, value: Value) -> bool:
    """`eth0` in a pod with a network of its own: the kubelet calls its interface so on every node."""
    launches = list(trace.all(Launch))
    pods = bool(launches) and all(launch.network.it == "flat" for launch in launches)
    return pods and str(value.it).lstrip("=") == "eth0"
