"""What the container around a command gives it: shared memory, network, published ports.

Read from Docker's documentation of `docker run` (/dev/shm is 64 MiB unless `--shm-size` or `--ipc` says else), the compose
specification, and Kubernetes' of pods (the runtime's 64 MiB unless a volume is mounted there).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from t4lint.sources.configs import ConfigNode
from t4lint.sources.document import Container
from t4lint.sources.launchers import Token
from t4lint.trace import NOT_SAID, Origin, Value, unknown

DEFAULT_SHARED_MEMORY = 64 * 2**20  # bytes, of Docker, Podman and containerd
_ENGINES = frozenset({"docker", "podman", "nvidia-docker"})
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([bkmg]?)(?:i?b)?", re.IGNORECASE)
_HOST_NETWORKS = ("host",)
# Flags of `docker run` that say one of the three things; each takes a value.
_SAYING = ("--shm-size", "--ipc", "--net", "--network", "-p", "--publish", "-v", "--volume", "--mount", "--tmpfs")


def size_in_bytes(text: str) -> int | None:
    """`1g`, `64mb`, `8Gi`, `2147483648`"""
    found = _SIZE.fullmatch(text.strip())
    return int(float(found[1]) * _UNITS[found[2].lower()]) if found else None


def of_command(tokens: Sequence[Token]) -> Container | None:
    """`docker run [FLAGS] IMAGE command ...`; None for any other command."""
    names = [PurePosixPath(token.text).name for token in tokens[:3]]
    if not names or names[0] not in _ENGINES or "run" not in names[1:3]:
        return None
    where = tokens[0].word.location
    said: dict[str, list[str]] = {}
    open_flags = False
    pending = ""
    for token in tokens[1:]:
        if pending:
            said.setdefault(pending, []).append(token.text)
            pending = ""
        elif token.word.text is None and not token.flag:
            open_flags = True  # `$DOCKER_FLAGS`, or `$IMAGE`
        elif token.value is not None and token.flag in _SAYING:
            said.setdefault(token.flag, []).append(token.value.text or "")
        elif token.text in _SAYING:
            pending = token.text
        elif "=" in token.text and token.text.partition("=")[0] in _SAYING:
            said.setdefault(token.text.partition("=")[0], []).append(token.text.partition("=")[2])
        elif token.text in ("-P", "--publish-all"):
            open_flags = True
    mounts = [text for name in ("-v", "--volume", "--mount", "--tmpfs") for text in said.get(name, ())]
    network = [*said.get("--net", ()), *said.get("--network", ())]
    published = [*said.get("-p", ()), *said.get("--publish", ())]
    ipc = next(iter(said.get("--ipc", ())), "")
    size = next(iter(said.get("--shm-size", ())), None)
    origin = (Origin("flag", f"{names[0]} run", where),)
    if open_flags and size is None and not ipc:
        memory = unknown("not all flags of the container are known", origin)
    else:
        memory = _shared(size, ipc, mounts, origin, f"{names[0]} run without --shm-size")
    if open_flags and not network:
        return Container(memory, unknown("not all flags of the container are known", origin), NOT_SAID)
    return Container(memory, _network(network, origin), _ports(published, origin))


def of_service(node: ConfigNode) -> Container:
    """A service of a compose file."""
    entries = node.entries
    image = entries.get("image") or entries.get("build") or node
    where = image.key or image.location
    origin = (Origin("key", "a service of docker compose", where),)
    if "extends" in entries or "<<" in entries:
        reason = unknown("the service is built on another", origin)
        return Container(reason, reason, reason)
    mounts = [_text(item) for name in ("volumes", "tmpfs") if name in entries for item in _listed(entries[name])]
    size, ipc = _scalar(entries.get("shm_size")), _scalar(entries.get("ipc"))
    memory = _shared(size, ipc or "", mounts, origin, "the service has no shm_size")
    mode = _scalar(entries.get("network_mode"))
    published = [_text(item) for item in entries["ports"].items] if "ports" in entries else []
    return Container(memory, _network([mode] if mode else [], origin), _ports(published, origin))


def of_pod(node: ConfigNode, pod: Mapping[str, ConfigNode]) -> Container:
    """A container of a Kubernetes pod; `pod` holds what the specs around it say."""
    image = node.entries["image"]
    origin = (Origin("key", "a container of a pod", image.key or image.location),)
    mounts = [
        _scalar(item.entries.get("mountPath")) or "" for item in _listed(node.entries.get("volumeMounts") or node)
    ]
    host_ipc = "host" if _scalar(pod.get("hostIPC")) == "True" else ""
    memory = _shared(None, host_ipc, mounts, origin, "nothing is mounted on /dev/shm")
    flat = "host" if _scalar(pod.get("hostNetwork")) == "True" else "flat"
    return Container(memory, Value(flat, origin), Value((), origin))


def of_runtime(job: ConfigNode) -> Container:
    """A pod of a TrainJob, whose container is described in its runtime: it has a network of its own."""
    origin = (Origin("key", "a pod of the job", job.location),)
    return Container(unknown("the runtime says what is mounted", origin), Value("flat", origin), Value((), origin))


def _shared(size: str | None, ipc: str, mounts: Sequence[str], origin: tuple[Origin, ...], note: str) -> Value:
    if ipc in ("host", "shareable") or ipc.startswith(("container:", "service:")):
        return Value("host", origin) if ipc == "host" else unknown("another container's shared memory", origin)
    if any("/dev/shm" in mount for mount in mounts):
        return unknown("something is mounted on /dev/shm", origin)
    if size is None:
        where = origin[0].location
        return Value(DEFAULT_SHARED_MEMORY, (Origin("default", note, where),))
    found = size_in_bytes(size)
    return unknown(f"the size {size!r} is not known", origin) if found is None else Value(found, origin)


def _network(names: Sequence[str], origin: tuple[Origin, ...]) -> Value:
    if not names:
        return Value("bridge", origin)
    if names[0] in _HOST_NETWORKS:
        return Value("host", origin)
    return Value("bridge", origin) if names[0] in ("bridge", "default") else unknown("a network of its own", origin)


def _ports(texts: Sequence[str], origin: tuple[Origin, ...]) -> Value:
    """The host's side of `29500:29500`, `127.0.0.1:80:80/tcp`, `5000-5010`; unknown where one cannot be read."""
    found: list[int] = []
    for text in texts:
        parts = text.partition("/")[0].split(":")
        ends = parts[-2 if len(parts) > 1 else -1].split("-")
        if not all(end.isdecimal() and len(end) < 6 for end in ends):
            return unknown(f"the ports {text!r} are not known", origin)
        found.extend(range(int(ends[0]), min(int(ends[-1]), int(ends[0]) + 65_535) + 1))
    return Value(tuple(found), origin)


def _listed(node: ConfigNode) -> list[ConfigNode]:
    if node.kind == "sequence":
        return node.items
    return [node] if node.kind == "scalar" else []


def _text(node: ConfigNode) -> str:
    """A mount or port in its short or its long form."""
    if node.kind == "mapping":
        target = _scalar(node.entries.get("published") or node.entries.get("target"))
        return target or ""
    return "" if node.value is None else str(node.value)


def _scalar(node: ConfigNode | None) -> str | None:
    return None if node is None or node.kind != "scalar" or node.value is None else str(node.value)
