"""`MASTER_ADDR` is exported for `torchrun`, which does not read it.

## What happens on a T4

`torchrun` takes the address of the first node from `--master_addr` or `--rdzv_endpoint`; its fallback in the environment
is `PET_MASTER_ADDR`, not `MASTER_ADDR`. Without either it tells its workers 127.0.0.1, and overwrites the exported
variable with that. On several nodes each then waits for the others on itself, until the rendezvous times out.

## How to fix it

Hand the variables over: `torchrun --master_addr "$MASTER_ADDR" --master_port "$MASTER_PORT" ...`, or `--rdzv_backend c10d
--rdzv_endpoint "$MASTER_ADDR:29500" --rdzv_id "$JOB"`.

## When it is right to ignore it

When the nodes' own environment sets `PET_MASTER_ADDR` or `PET_RDZV_ENDPOINT`, as some Kubernetes operators do. Plain
`python` under `srun`, and accelerate's and DeepSpeed's launchers are not reported: they are told in other ways.

## Sources

* torch 2.13, `torch/distributed/run.py` and `argparse_util.py`; run with one torchrun on each of two hosts
  (network namespaces, `tests/test_distributed_claims.py`): the agents never meet; on one host the workers saw 127.0.0.1
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from t4lint.rule import AddFlag, Candidate, Edit, rule
from t4lint.trace import FALSE, NOT_SAID, Fact, Launch, Trace

TORCHRUN = ("torchrun", "torch.distributed.launch")
LOOPBACK = re.compile(r"localhost|127\.\d+\.\d+\.\d+|::1", re.IGNORECASE)


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    """The flags that hand the variables over; the rendezvous of another backend knows only an endpoint."""
    launch = candidate.event
    if not isinstance(launch, Launch) or candidate.blame is None:
        return
    variables = {"MASTER_ADDR": candidate.blame}
    if "MASTER_PORT" in launch.environment:
        variables["MASTER_PORT"] = launch.environment["MASTER_PORT"]
    backend = launch.flags.get("rdzv_backend") or launch.environment.get("PET_RDZV_BACKEND")
    if backend is not None and backend.it != "static":
        port = "{MASTER_PORT}" if "MASTER_PORT" in variables else "29500"
        yield AddFlag(launch, "rdzv_endpoint", f"{{MASTER_ADDR}}:{port}", variables)
        return
    yield AddFlag(launch, "master_addr", "{MASTER_ADDR}", variables)
    if "MASTER_PORT" in variables and "master_port" not in launch.flags:
        yield AddFlag(launch, "master_port", "{MASTER_PORT}", variables)


@rule(
    name="master-addr-env-with-torchrun",
    severity="error",
    summary="MASTER_ADDR exported for torchrun, which does not read it",
    message="{nodes} nodes are started and `MASTER_ADDR` is exported, but {launcher} does not read it: without "
    "`--master_addr` every node waits for the others at 127.0.0.1.",
    help='Hand it over: `--master_addr "$MASTER_ADDR" --master_port "$MASTER_PORT"`.',
    triggers=("MASTER_ADDR", "batch.volcano.sh"),
    reads=(Launch,),
    fix="safe",
    fixes=_fixes,
    fix_title="Hand MASTER_ADDR over to torchrun",
)
def master_addr_env_with_torchrun(trace: Trace) -> Iterator[Candidate]:
    for launch in trace.all(Launch):
        exported = launch.environment.get("MASTER_ADDR", NOT_SAID)
        if exported == NOT_SAID:
            continue
        yield Candidate(
            launch,
            launch.nodes.test(lambda nodes: nodes > 1) & _not_told(launch),
            blame=exported,
            words={"nodes": launch.nodes.it, "launcher": launch.launcher},
        )


def _not_told(launch: Launch) -> Fact:
    """Is the exported address the only one, and one that would have worked?"""
    if launch.launcher not in TORCHRUN or LOOPBACK.fullmatch(str(launch.environment["MASTER_ADDR"].it)):
        return FALSE
    if not launch.rendezvous.known:
        return Fact(None if "" in launch.flags else False, (launch.rendezvous,))
    # a default stands at the launch itself; what MASTER_ADDR says shows what was meant
    return Fact(launch.rendezvous.origins[:1] != () and launch.rendezvous.origins[0].how == "default")
