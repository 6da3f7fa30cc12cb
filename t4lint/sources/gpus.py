"""Does what starts a command leave it without a GPU? A manifest or a container that hands none over, a variable, a launcher.

Only two answers are given: 0, or that nothing says. Kubernetes' pods have the devices that their limits name (`nvidia.com/gpu`,
or a claim); containers of Docker those of `--gpus`, a runtime, or a reservation. CUDA shows no device where
`CUDA_VISIBLE_DEVICES` is empty or -1. Where a machine is set up to hand GPUs to every container, people say elsewhere that they
count on it: an image with CUDA, NCCL as the backend. Such a word leaves the question open, unless limits are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from t4lint.sources.configs import ConfigNode
from t4lint.sources.document import Word
from t4lint.trace import NOT_SAID, Origin, Value

# What hands over a device, or chooses machines that have one.
_DEVICE = re.compile(
    r"nvidia|gpu|accelerator|resourceClaims?\b|runtimeClassName|amd\.com|habana|neuron|google\.com/tpu|ascend|/dev/(?:dri|kfd)",
    re.IGNORECASE,
)
# Words of programs and images that are made for GPUs.
_WISH = re.compile(r"cuda|nccl|fp16|bf16|\b(?:a10|a100|h100|l4|t4|v100)\b", re.IGNORECASE)
_OPEN = re.compile(r"\{\{")  # a template: what it is filled with is not known
_PODS = frozenset({"Pod", "Job", "CronJob", "JobSet", "PyTorchJob", "MPIJob", "Deployment", "StatefulSet"})
# Apart from these, a manifest may be completed by another one (a runtime, a cluster).


def of_manifest(root: ConfigNode) -> Value:
    """The GPUs of a job of Kubernetes: 0 where none of its containers asks for one."""
    kind = root.entries.get("kind")
    if kind is None or str(kind.value) not in _PODS:
        return NOT_SAID
    texts = list(_texts(root))
    if any(_DEVICE.search(text) for text in texts):
        return NOT_SAID
    limits = [node for node in _named(root, "resources") if {"limits", "requests"} & node.entries.keys()]
    if limits:
        return Value(0, (Origin("key", "the containers ask for no GPU", limits[0].key or limits[0].location),))
    if any(_WISH.search(text) or _OPEN.search(text) for text in texts):
        return NOT_SAID
    return Value(0, (Origin("key", "the containers ask for no GPU", kind.key or kind.location),))


def of_service(node: ConfigNode) -> Value:
    """The GPUs of a service of docker compose: 0 where it reserves none, and nothing in it counts on one."""
    if {"extends", "<<"} & node.entries.keys() or any(
        pattern.search(text) for text in _texts(node) for pattern in (_DEVICE, _WISH)
    ):
        return NOT_SAID
    where = node.entries.get("image") or node.entries.get("build") or node
    return Value(0, (Origin("key", "the service is given no GPU", where.key or where.location),))


def hidden(environment: Mapping[str, Word]) -> Value:
    """`CUDA_VISIBLE_DEVICES=""` or `-1`"""
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None or visible.text is None or not shows_none(visible.text):
        return NOT_SAID
    return Value(0, (Origin("environment", f"CUDA_VISIBLE_DEVICES={visible.text}", visible.location),))


def shows_none(text: str) -> bool:
    """Does this value of `CUDA_VISIBLE_DEVICES` show no device? What follows an invalid number is not looked at."""
    return text.strip().partition(",")[0].strip() in ("", "-1", "NoDevFiles", "none")


def on_cpu(launcher: str, flags: Mapping[str, Word]) -> Value:
    """`accelerate launch --cpu`"""
    word = flags.get("cpu") if launcher == "accelerate" else None
    if word is None or word.text is None or word.text.lower() == "false":
        return NOT_SAID
    return Value(0, (Origin("flag", "--cpu", word.location),))


def _texts(node: ConfigNode) -> Iterator[str]:
    """All keys and values below a node."""
    for _, child in node.walk():
        yield from child.entries
        if child.kind == "scalar" and child.value is not None:
            yield str(child.value)


def _named(node: ConfigNode, name: str) -> Iterator[ConfigNode]:
    for _, child in node.walk():
        if name in child.entries:
            yield child.entries[name]
