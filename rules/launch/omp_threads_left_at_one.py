"""torchrun gives each process one CPU thread, and the optimizer runs on the CPU.

## What happens on a T4

With more than one process torchrun sets `OMP_NUM_THREADS=1` unless the variable is there (accelerate does the same). For
training on the GPU that is harmless. An offloaded optimizer (ZeRO-Offload, FSDP's CPU offload) is OpenMP code that then
updates billions of numbers on one core for each process, while the T4s wait.

## How to fix it

`export OMP_NUM_THREADS=$(( $(nproc) / 2 ))` for two processes: the cores of the machine by the processes on it.

## When it is right to ignore it

When the optimizer is on the GPU: reported on request only. DeepSpeed's own launcher does not set the variable.

## Sources

* torch 2.13, `torch/distributed/run.py`, run with two processes: each sees `OMP_NUM_THREADS=1`; accelerate 1.15
  `commands/launch.py`; DeepSpeed 0.19.6 `csrc/adam` (OpenMP)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import AddVariable, Candidate, Edit, rule
from t4lint.trace import EnvironmentVariable, Fact, Launch, Trace, Wrap

NAME = "OMP_NUM_THREADS"
LAUNCHERS = ("torchrun", "torch.distributed.launch", "accelerate")


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    """The cores of the target, shared out; not where the target is no machine."""
    launch, machine = candidate.event, trace.target.instance
    if isinstance(launch, Launch) and machine is not None and machine.vcpus and launch.processes_per_node.known:
        yield AddVariable(launch, NAME, str(max(1, int(machine.vcpus) // int(launch.processes_per_node.it))))


@rule(
    name="omp-threads-left-at-one",
    severity="warning",
    summary="One CPU thread for each process with an optimizer on the CPU",
    message="{launcher} gives each of the {processes} processes one CPU thread (`OMP_NUM_THREADS=1`){why}.",
    help="Set `OMP_NUM_THREADS` to the number of cores divided by the number of processes.",
    triggers=("nproc", "num_processes", "accelerate"),
    reads=(Launch, EnvironmentVariable, Wrap),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Share the cores out among the processes",
)
def omp_threads_left_at_one(trace: Trace) -> Iterator[Candidate]:
    unset = trace.never(EnvironmentVariable, lambda variable: Fact(variable.name == NAME))
    offloads = any(_on_cpu(wrap) for wrap in trace.all(Wrap))
    for launch in trace.all(Launch):
        told = NAME in launch.environment or "num_cpu_threads_per_process" in launch.flags or "" in launch.flags
        several = launch.processes_per_node.test(lambda count: count > 1)
        yield Candidate(
            launch,
            several & unset & Fact(launch.launcher in LAUNCHERS and not told),
            severity=None if offloads else "note",
            words={
                "launcher": launch.launcher,
                "processes": launch.processes_per_node.it,
                "why": ", and the offloaded optimizer runs on it" if offloads else "",
            },
            on_request=not offloads,
        )


def _on_cpu(wrap: Wrap) -> bool:
    """Does the optimizer step on the CPU? FSDP offloads all or nothing."""
    name = "offload_param" if wrap.how.it == "fsdp" else "offload_optimizer"
    return name in wrap.options and wrap.options[name].it == "cpu"
