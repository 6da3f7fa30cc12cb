"""Slurm starts several tasks on each node, and each of them is a launcher that starts processes for all GPUs.

## What happens on a T4

`srun` runs its command once for each task. With four tasks a node and `torchrun --nproc_per_node=4` as the command, sixteen
processes share four T4s: NCCL refuses two ranks on one GPU, or the rendezvous waits for agents that do not fit the number
of nodes. Nothing is trained.

## How to fix it

One task a node for a launcher, `#SBATCH --ntasks-per-node=1`. Or let Slurm start the processes and leave the launcher out:
`srun python train.py`, with the ranks taken from `SLURM_PROCID` and `SLURM_LOCALID`.

## When it is right to ignore it

When each task is bound to one GPU (`--gpus-per-task=1`): that is not reported.

## Sources

* Slurm documentation of `srun --ntasks-per-node`; NCCL 2.29 and 2.30 refuse ranks that share a GPU (`init.cc`). Slurm is
  not run here: that the ranks collide follows from the number of agents
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Fact, Launch, Trace

LAUNCHERS = ("torchrun", "torch.distributed.launch", "accelerate", "deepspeed")


@rule(
    name="nested-launchers",
    severity="error",
    summary="Several Slurm tasks a node that each start a launcher",
    message="Slurm starts {tasks} tasks on each node, and each is a {launcher} that starts {processes} processes: "
    "{total} processes meet on the GPUs of one node.",
    help="Use `--ntasks-per-node=1` with a launcher, or `srun python` without one.",
    triggers=("srun",),
    reads=(Launch,),
)
def nested_launchers(trace: Trace) -> Iterator[Candidate]:
    for launch in trace.all(Launch):
        tasks, processes = launch.tasks_per_node, launch.processes_per_node
        known = tasks.known and processes.known
        yield Candidate(
            launch,
            _is_launcher(launch) & tasks.test(lambda count: count > 1) & processes.test(lambda count: count > 1),
            blame=tasks,
            words={
                "tasks": tasks.it,
                "launcher": launch.launcher,
                "processes": processes.it,
                "total": tasks.it * processes.it if known else "too many",
            },
        )


def _is_launcher(launch: Launch) -> Fact:
    return Fact(True) if launch.launcher in LAUNCHERS else FALSE
