"""What the operators of Kubernetes give the pods of a job beside what its manifest says, and cloud tools the nodes of a task.

Kubeflow's Trainer (`TrainJob`) and training operator (`PyTorchJob`) set `PET_NNODES` and the rest for torchrun, and the latter
`MASTER_ADDR`, `RANK` and `WORLD_SIZE` for programs that make their process group themselves, where `WORLD_SIZE` counts pods;
Volcano's plugin `pytorch` does the same. Read from kubeflow/trainer (`runtime/framework/plugins/torch`), kubeflow/training-operator
(`controller.v1/pytorch/envvar.go`) and Volcano's `plugins/distributed-framework/pytorch`. SkyPilot and dstack number nodes and
GPUs in variables of their own, as their documentation of distributed tasks says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from t4lint.sources.configs import ConfigNode
from t4lint.trace import NOT_SAID, Origin, Value, unknown, whole_number

_GPU = "nvidia.com/gpu"
_WAITING = ("PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT")


class Given(NamedTuple):
    """A variable that an operator sets: its value, None where only the running job knows it, and the key that says so."""

    name: str
    value: str | None
    where: ConfigNode


class Job(NamedTuple):
    """A job of an operator: what its pods are given, how many of them run the command (or are MPI's workers), and the
    processes in each that MPI may start."""

    variables: tuple[Given, ...] = ()
    pods: Value = NOT_SAID
    slots: Value = NOT_SAID


def job_of(root: ConfigNode) -> Job:
    """What the operator of a job makes of it; nothing for other manifests."""
    variables = given_by_operator(root)
    counted = next((it for it in variables if it.name in ("WORLD_SIZE", "PET_NNODES")), None)
    if counted is not None:
        return Job(variables, _count(counted.value, counted.where, "the job has {} pods"))
    workers, slots = root.find("spec.mpiReplicaSpecs.Worker.replicas"), root.find("spec.slotsPerWorker")
    if workers is None:
        return Job(variables)
    each = NOT_SAID if slots is None else _count(_text(slots), slots, "slotsPerWorker: {}")
    return Job((), _count(_text(workers), workers, "the job has {} workers"), each)


def _count(text: str | None, node: ConfigNode, note: str) -> Value:
    origin = (Origin("key", note.format(text or "?"), node.key or node.location),)
    if text is None or not text.isdecimal() or len(text) > 6:
        return unknown("the manifest does not say how many pods", origin)
    return Value(int(text), origin)


def given_by_operator(job: ConfigNode) -> tuple[Given, ...]:
    """The variables of each pod or node that the operator of a job sets; empty for what is no such job."""
    if "run" in job.entries and "num_nodes" in job.entries and "apiVersion" not in job.entries:
        return tuple(_skypilot(job))
    if {"type", "commands", "nodes"} <= job.entries.keys() and _text(job.entries["type"]) == "task":
        return tuple(_dstack(job))
    kind = _text(job.entries.get("kind"))
    if kind == "TrainJob":
        return tuple(_train_job(job))
    if kind == "PyTorchJob":
        return tuple(_pytorch_job(job))
    if kind == "Job" and _text(job.entries.get("apiVersion")).startswith("batch.volcano.sh"):
        return tuple(_volcano_job(job))
    return ()


def _skypilot(job: ConfigNode) -> Iterator[Given]:
    """A task of SkyPilot on several nodes: `accelerators: T4:4`, or `{T4: 4}`."""
    asked = job.find("resources.accelerators")
    each = _text(asked).partition(":")[2] or "1"
    if asked is not None and asked.kind == "mapping":
        counts = {_text(count) for count in asked.entries.values()}
        each = counts.pop() if len(counts) == 1 else ""
    yield Given("SKYPILOT_NUM_NODES", _whole(_text(job.entries["num_nodes"])), job.entries["num_nodes"])
    if asked is not None:
        yield Given("SKYPILOT_NUM_GPUS_PER_NODE", _whole(each), asked)


def _dstack(job: ConfigNode) -> Iterator[Given]:
    """A task of dstack on several nodes: `gpu: 2`, `gpu: T4:2`, `gpu: {name: T4, count: 2}`; a range says nothing."""
    nodes, gpu = job.entries["nodes"], job.find("resources.gpu")
    yield Given("DSTACK_NODES_NUM", _whole(_text(nodes)), nodes)
    if gpu is None:
        return
    count = gpu.find("count") if gpu.kind == "mapping" else None
    parts = _text(count if count is not None else gpu).split(":")
    numbers = [part for part in parts if part.isdecimal()]
    each = numbers[0] if len(numbers) == 1 else None if ".." in _text(gpu) or gpu.kind == "mapping" else "1"
    yield Given("DSTACK_GPUS_PER_NODE", each, gpu)


def _whole(text: str) -> str | None:
    return text if text.isdecimal() else None


def _train_job(job: ConfigNode) -> Iterator[Given]:
    """Only where a command is written: it is torchrun's, or that of a runtime for torch."""
    trainer = job.find("spec.trainer")
    if trainer is None:
        return
    nodes, each = trainer.entries.get("numNodes"), trainer.entries.get("numProcPerNode")
    gpus = _gpus(trainer.entries.get("resourcesPerNode"))
    yield from _torchrun(_text(nodes) or None, _text(each) or "auto", gpus, trainer, nodes or trainer, each or trainer)


def _pytorch_job(job: ConfigNode) -> Iterator[Given]:
    replicas = job.find("spec.pytorchReplicaSpecs")
    if replicas is None:
        return
    count = _sum(replicas.entries.values())
    each = job.find("spec.nprocPerNode")
    gpus = next((found for spec in replicas.entries.values() if (found := _pod_gpus(spec)) is not None), None)
    if job.find("spec.elasticPolicy") is not None:
        count = None  # between minReplicas and maxReplicas
    yield from _torchrun(count, _text(each) or "auto", gpus, replicas, replicas, each or replicas)
    yield from _by_hand(count, replicas)


def _volcano_job(job: ConfigNode) -> Iterator[Given]:
    tasks, plugin = job.find("spec.tasks"), job.find("spec.plugins.pytorch")
    if tasks is not None and plugin is not None:
        yield from _by_hand(_sum(tasks.items), tasks)


def _torchrun(
    nodes: str | None, each: str, gpus: ConfigNode | None, job: ConfigNode, at: ConfigNode, each_at: ConfigNode
) -> Iterator[Given]:
    yield Given("PET_NNODES", nodes if nodes is not None and nodes.isdecimal() else None, at)
    if each == "auto" and gpus is not None and _text(gpus).isdecimal():
        each, each_at = _text(gpus), gpus
    yield Given("PET_NPROC_PER_NODE", each if each.isdecimal() or each in ("auto", "gpu") else None, each_at)
    for name in _WAITING:
        yield Given(name, None, job)


def _by_hand(pods: str | None, at: ConfigNode) -> Iterator[Given]:
    """`RANK` and `MASTER_PORT` too, which are not known in a manifest and which nothing is judged by."""
    yield Given("MASTER_ADDR", None, at)
    yield Given("WORLD_SIZE", pods, at)


def _sum(specs: Iterable[ConfigNode]) -> str | None:
    """How many pods the parts of a job have together; one where a part does not say."""
    counts = [whole_number(_text(spec.entries.get("replicas")) or "1") for spec in specs]
    return str(sum(count or 0 for count in counts)) if counts and None not in counts else None


def _pod_gpus(spec: ConfigNode) -> ConfigNode | None:
    containers = spec.find("template.spec.containers")
    found = [_gpus(item.entries.get("resources")) for item in (containers.items if containers is not None else [])]
    return next((node for node in found if node is not None), None)


def _gpus(resources: ConfigNode | None) -> ConfigNode | None:
    if resources is None:
        return None
    for name in ("limits", "requests"):
        part = resources.entries.get(name)
        if part is not None and _GPU in part.entries:
            return part.entries[_GPU]
    return None


def _text(node: ConfigNode | None) -> str:
    return "" if node is None or node.value is None else str(node.value)
