"""Several nodes are told to meet at localhost.

## What happens on a T4

Every process of a run connects to the node of rank 0. When the address is `localhost` or 127.0.0.1, each node waits on
itself for processes that never come, and the job ends in a rendezvous timeout. The same happens when nothing names the
first node: torchrun then presumes 127.0.0.1, and accelerate without `--main_process_ip` builds the address `None`.

## How to fix it

Name the first node: `--master_addr` (torchrun), `--main_process_ip` (accelerate), `MASTER_ADDR` (plain `python`). Under
Slurm: `MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)`.

## When it is right to ignore it

When the script plays several nodes on one machine, as tests do. A single node and `--standalone` are not reported, nor is
the line for node 0, which may call itself by that name.

## Sources

* torch 2.13, `torch/distributed/run.py`; accelerate 1.15 `commands/launch.py`: `main_process_ip` missing gives
  `master_addr None`, run with two machines
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, NOT_SAID, EnvironmentVariable, Fact, Launch, Trace, Value

LOOPBACK = re.compile(r"localhost|127\.\d+\.\d+\.\d+|::1", re.IGNORECASE)


@rule(
    name="loopback-rendezvous",
    severity="error",
    summary="Several nodes that meet at localhost",
    message="{nodes} nodes are started and {address}: each node waits for the others on itself.",
    help="Give the address of the first node: `--master_addr` (torchrun), `--main_process_ip` (accelerate) or `MASTER_ADDR`.",
    triggers=("nnodes", "num_machines", "num_nodes", "hostfile", "nodes", "MASTER_ADDR"),
    reads=(Launch, EnvironmentVariable),
)
def loopback_rendezvous(trace: Trace) -> Iterator[Candidate]:
    for launch in trace.all(Launch):
        address = _address(trace, launch)
        yield Candidate(
            launch,
            launch.nodes.test(lambda nodes: nodes > 1) & _loopback(launch, address),
            blame=address,
            words={
                "nodes": launch.nodes.it,
                "address": "nothing names the first one" if _nobody(address) else f"told to meet at `{address.it}`",
            },
        )


def _address(trace: Trace, launch: Launch) -> Value:
    """Where the processes meet: what the launch says, else what a program that `srun` starts sets itself."""
    if launch.launcher == "python" and "MASTER_ADDR" not in launch.environment:
        for variable in trace.all(EnvironmentVariable):
            if variable.name == "MASTER_ADDR":
                return variable.value
    return launch.rendezvous


def _nobody(address: Value) -> bool:
    return address.known and (address.it is None or (address.origins[:1] != () and address.origins[0].how == "default"))


def _loopback(launch: Launch, address: Value) -> Fact:
    if _nobody(address):
        exported = launch.environment.get("MASTER_ADDR", NOT_SAID)
        if exported != NOT_SAID and not LOOPBACK.fullmatch(str(exported.it)):
            return FALSE  # another rule's: the address is there and not handed over
        return Fact(None if _is_first(launch) else True, (address,))
    at_home = address.test(lambda name: bool(LOOPBACK.fullmatch(str(name))))
    if at_home.holds and _is_first(launch):
        return Fact(None, at_home.rests_on)
    return at_home


def _is_first(launch: Launch) -> bool:
    """Is this written for node 0 alone? It may reach itself at localhost."""
    given = launch.node_rank.known and not any(origin.how == "default" for origin in launch.node_rank.origins)
    return given and launch.node_rank.it == 0
