"""Several nodes with an EFA adapter, and no plugin that lets NCCL use it.

## What happens on a T4

g4dn.8xlarge, 12xlarge, 16xlarge and metal have one Elastic Fabric Adapter. NCCL uses it through the plugin aws-ofi-nccl;
without it the nodes talk over plain TCP, and the log says `NET/Socket` and not `NET/OFI`.

## How to fix it

Install aws-ofi-nccl and libfabric (the Deep Learning AMIs have both) and attach the interface with EFA enabled.

## When it is right to ignore it

When the image brings the plugin: then a variable such as `FI_PROVIDER` or `NCCL_NET_PLUGIN` usually says so, and nothing is
reported. What it gains on T4s is not measured.

## Sources

* instance table of karpenter-provider-aws (2026-08); aws-ofi-nccl documentation. Needs the instances, not shown here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import EnvironmentVariable, Fact, Launch, ProcessGroup, Trace
from t4lint.trace.questions import settings_of, uses_nccl

WITH_EFA = frozenset({"g4dn.8xlarge", "g4dn.12xlarge", "g4dn.16xlarge", "g4dn.metal"})
NAMES = ("FI_PROVIDER", "FI_EFA_USE_DEVICE_RDMA", "NCCL_NET_PLUGIN", "NCCL_NET", "OFI_NCCL_PROTOCOL")


@rule(
    name="efa-unused",
    severity="note",
    summary="EFA adapters that NCCL is not told of",
    message="{instance} has an EFA adapter, and nothing lets NCCL use it between {nodes} nodes.",
    help="Install aws-ofi-nccl, attach the interface with EFA, and look for `NET/OFI` in NCCL's log.",
    triggers=("nnodes", "num_machines", "replicas", "numNodes", "num_nodes", "hostfile"),
    reads=(Launch, EnvironmentVariable, ProcessGroup),
    default=False,
)
def efa_unused(trace: Trace) -> Iterator[Candidate]:
    if trace.target.name not in WITH_EFA or not uses_nccl(trace):
        return
    told = any(True for name in NAMES for _ in settings_of(trace, name))
    for launch in trace.all(Launch):
        several = launch.nodes.test(lambda nodes: nodes > 1)
        yield Candidate(
            launch,
            several & Fact(not told),
            words={"instance": trace.target.name, "nodes": launch.nodes.it},
        )
