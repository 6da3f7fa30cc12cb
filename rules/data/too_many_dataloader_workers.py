"""A DataLoader has more worker processes than the machine has virtual CPUs.

## What happens on a T4

Machines with a T4 are small: Colab gives 2 virtual CPUs, Kaggle and the smallest cloud instances 4. Workers beyond that
take the CPU from each other and from the process that feeds the GPU, and each costs memory and start-up time. PyTorch
warns once (`This DataLoader will create 8 worker processes in total. Our suggested max number of worker in current system
is 2`), and the run goes on, slower or killed for lack of shared memory.

## How to fix it

At most as many workers as virtual CPUs: 2 on Colab, 4 on Kaggle; or `min(os.cpu_count(), n)`, which is right everywhere.

## When it is right to ignore it

When workers mostly wait, as for a remote store, and the host's memory carries them: the option `per-cpu` says how many
workers a virtual CPU may have. Only targets whose virtual CPUs are
known are judged (`--target colab`, `kaggle`, or an instance). Loaders of libraries that clamp the number themselves
(ultralytics, kohya) are none of the program's own.

## Sources

* torch 2.13 `utils/data/dataloader.py` (`_check_worker_number_rationality`); googlecolab/colabtools#3415; virtual CPUs
  of the instances: providers' documentation, 2023 to 2025
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from t4lint.rule import Candidate, rule
from t4lint.trace import Launch, Loader, Trace


@dataclass(frozen=True)
class Options:
    """What people may set."""

    per_cpu: float = 1.0
    """Workers that each virtual CPU may have; more than 1 where workers mostly wait for a network."""


@rule(
    name="too-many-dataloader-workers",
    severity="warning",
    summary="More DataLoader workers than the machine has virtual CPUs",
    message="{workers} workers{each} share the {vcpus} virtual CPUs of {machine}, so they take turns and slow the loading down.",
    help="Use at most as many workers as virtual CPUs, or `min(os.cpu_count(), n)`.",
    triggers=("num_workers", "num-workers", "workers"),
    reads=(Launch, Loader),
    options=Options,
)
def too_many_dataloader_workers(trace: Trace, options: Options) -> Iterator[Candidate]:
    vcpus = trace.target.vcpus
    if not vcpus:
        return
    processes = _processes(trace)
    for loader in trace.all(Loader):
        too_many = loader.workers.test(lambda workers: workers * processes > vcpus * options.per_cpu)
        yield Candidate(
            loader,
            too_many,
            blame=loader.workers,
            words={
                "workers": loader.workers.it,
                "each": f" in each of {processes} processes" if processes > 1 else "",
                "vcpus": vcpus,
                "machine": trace.target.name,
            },
        )


def _processes(trace: Trace) -> int:
    """Processes on one machine; one where the launch does not say."""
    counts = [launch.processes_per_node.it for launch in trace.all(Launch) if launch.processes_per_node.known]
    return next((count for count in reversed(counts) if isinstance(count, int) and count > 0), 1)
