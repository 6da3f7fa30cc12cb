"""A container has the default 64 MiB of shared memory, and several GPUs or loader workers want to use it.

## What happens on a T4

T4s exchange gradients through /dev/shm: there is no NVLink, and NCCL does not use peer access through the CPU. DataLoader
workers hand their batches over there too. Containers get 64 MiB unless they are told otherwise. NCCL then stops with
`failed to extend /dev/shm/nccl-...`, and workers die with `Bus error`, after minutes or at the first larger batch.

## How to fix it

`docker run --shm-size=1g` (more with many workers) or `--ipc=host`; `shm_size: 1gb` in compose; in Kubernetes an `emptyDir`
of `medium: Memory` that is mounted on `/dev/shm`.

## When it is right to ignore it

When the container's engine is configured with a larger default (`default-shm-size`). A single process without loader
workers is not reported, nor are workers that hand over tokens or small pictures, nor a launch in a Dockerfile, since what runs the
image is not in sight.

## Sources

* Docker documentation of `--shm-size`; NCCL 2.30 documentation on Docker (`--shm-size=1g --ulimit memlock=-1`); torch 2.13
  documentation of multi-process data loading
* containers are not run here; the default is that of Docker 27, Podman 5 and containerd 2
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import AddFlag, Candidate, Edit, rule
from t4lint.trace import FALSE, NOT_SAID, Fact, Launch, Loader, ProcessGroup, Trace
from t4lint.trace.questions import uses_nccl

LEAST = 256 * 2**20  # bytes; NCCL takes about 10 MB a channel and peer, a batch of images with four workers 100 MB

LARGE = {"decode", "extract"}  # what is done to samples that are large: images and sound that are read from files


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    yield AddFlag(candidate.event, "shm-size", "1g", to="container")


@rule(
    name="container-shm-too-small",
    severity="warning",
    summary="A container with 64 MiB of shared memory for several GPUs or workers",
    message="The container has {size} MiB of shared memory (/dev/shm), which {user} outgrow{ends}: the run ends in {how}.",
    help="Give it more: `--shm-size=1g` or `--ipc=host`, `shm_size` in compose, a Memory emptyDir on /dev/shm in Kubernetes.",
    triggers=("docker", "podman", "image", "build"),
    reads=(Launch, Loader, ProcessGroup),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Give the container 1 GiB of shared memory",
)
def container_shm_too_small(trace: Trace) -> Iterator[Candidate]:
    for launch in trace.all(Launch):
        size = launch.shared_memory
        if size == NOT_SAID:
            continue
        small = size.test(lambda room: room != "host" and room < LEAST)
        processes = launch.processes_per_node.test(lambda count: count > 1) if uses_nccl(trace) else FALSE
        workers = _workers(trace)
        by_ranks = processes.holds is True
        yield Candidate(
            launch,
            small & (processes | workers),
            blame=size,
            words={
                "size": size.it // 2**20 if isinstance(size.it, int) else "little",
                "user": "the processes of several GPUs" if by_ranks else "loader workers",
                "ends": "",
                "how": "`failed to extend /dev/shm/nccl`" if by_ranks else "a bus error",
            },
        )


def _workers(trace: Trace) -> Fact:
    """Do worker processes hand over large samples? A batch of tokens, or of pictures of a few kilobytes, is far below 64 MiB."""
    found = FALSE
    for loader in trace.all(Loader):
        if loader.role != "eval":
            found |= loader.workers.test(lambda count: count > 0) & loader.work.test(
                lambda kinds: bool(LARGE & set(kinds))
            )
    return found
