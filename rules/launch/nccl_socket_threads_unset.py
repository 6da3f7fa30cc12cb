"""Several nodes outside AWS and Google Cloud, and NCCL sends through a single TCP stream.

## What happens on a T4

NCCL opens several sockets by itself only on the network cards of AWS (two threads with eight sockets) and Google (four with
one). Everywhere else it uses one stream, which seldom fills a link of 10 Gbit/s and more.

## How to fix it

Try `NCCL_SOCKET_NTHREADS=2` with `NCCL_NSOCKS_PERTHREAD=4` and compare the time of a step; the threads need cores.

## When it is right to ignore it

When a measurement shows no gain, or when the host has few cores. Only reported for a target whose provider is known.

## Sources

* NCCL 2.30.7 `net_socket.cc` (vendor ids) and documentation of `NCCL_SOCKET_NTHREADS`. The gain on T4 nodes is not measured
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import EnvironmentVariable, Fact, Launch, ProcessGroup, Trace
from t4lint.trace.questions import settings_of, uses_nccl

NAMES = ("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD")
TUNED = frozenset({"AWS", "GCP"})  # providers whose network cards NCCL knows


@rule(
    name="nccl-socket-threads-unset",
    severity="note",
    summary="One TCP stream between nodes",
    message="NCCL sends through one TCP stream on {provider}, which may not fill the link between {nodes} nodes.",
    help="Try `NCCL_SOCKET_NTHREADS=2` and `NCCL_NSOCKS_PERTHREAD=4`, and compare step times.",
    triggers=("nnodes", "num_machines", "replicas", "numNodes", "num_nodes", "hostfile"),
    reads=(Launch, EnvironmentVariable, ProcessGroup),
    default=False,
)
def nccl_socket_threads_unset(trace: Trace) -> Iterator[Candidate]:
    instance = trace.target.instance
    if instance is None or instance.provider in TUNED or not uses_nccl(trace):
        return
    chosen = any(True for name in NAMES for _ in settings_of(trace, name))
    for launch in trace.all(Launch):
        several = launch.nodes.test(lambda nodes: nodes > 1)
        yield Candidate(
            launch,
            several & Fact(not chosen),
            words={"provider": instance.provider, "nodes": launch.nodes.it},
        )
