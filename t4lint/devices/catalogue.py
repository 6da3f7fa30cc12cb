"""GPUs, the places that rent them, and what a target answers to a program that asks.

The figures are in `gpus.csv` and `instances.csv`, each row with its source; a figure that no source states is named in
the row's `unverified` column. Bytes are plain bytes, rates are per second.
"""

from __future__ import annotations

import csv
import difflib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

GIB = 2**30
NEWEST_TORCH = (99,)
BF16_EMULATION_COUNTS_FROM = (2, 3)  # torch/cuda/__init__.py of 2.2.2 and 2.3.1
NATIVE_BF16_FROM = (8, 0)  # the same files: `major >= 8`
CONTEXT = (int(0.30 * GIB), int(0.45 * GIB))  # bytes that a CUDA context takes beside PyTorch's allocator, on a T4
_HERE = Path(__file__).parent
_PARTS = {0.5: "half", 0.25: "a quarter"}
_PART = re.compile(r"(.+)/(\d{1,2})")  # `t4/4`, a quarter


class UnknownTarget(ValueError):  # noqa: N818
    """No GPU, place or instance has this name."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as PyTorch sees it.

    `total_memory` is what `torch.cuda.get_device_properties` reports: for the T4 the figure of current drivers with ECC
    on, 14.56 GiB; others, from 14.57 to 14.76 GiB, belong to other drivers. Where no log states it, it is the size on
    the label, an upper bound, and `unverified` names it. The rates (`nominal_flops` of the vendor, `measured_flops` of
    square matrix products in PyTorch, `effective_flops` of training) are FLOP/s by torch dtype; the effective ones are
    assumptions (31 % of nominal for float16 and float32 on a T4), to be replaced by a measurement where there is one.
    """

    name: str
    device_name: str  # torch.cuda.get_device_name()
    architecture: str
    capability: tuple[int, int]
    sm_count: int
    total_memory: int
    context_bytes: tuple[int, int]  # (low, high)
    bandwidth: float  # bytes a second
    shared_memory_per_block: int  # bytes, with opt-in
    native_dtypes: frozenset[str]  # dtypes that the hardware computes in
    nominal_flops: Mapping[str, float] = field(hash=False)
    measured_flops: Mapping[str, float] = field(hash=False)
    effective_flops: Mapping[str, float] = field(hash=False)
    nvlink: bool
    unverified: frozenset[str]
    source: str
    aliases: tuple[str, ...] = ()
    share: float = 1  # of a whole GPU: memory and time are divided among those who use it

    @property
    def part(self) -> str:
        """How a part is called, `a quarter of` or `1/3 of`; empty for a whole GPU."""
        if self.share == 1:
            return ""
        return f"{_PARTS.get(self.share) or f'1/{1 / self.share:g}'} of"

    @property
    def short_name(self) -> str:
        """What people call it: T4, A100, RTX 2080 Ti."""
        model = self.name.removeprefix("rtx-").replace("-", " ").title() if self.name.startswith("rtx-") else ""
        return f"RTX {model}" if model else self.name.partition("-")[0].upper()

    @property
    def usable_bytes(self) -> int:
        """What a program's tensors can take at most: the total less the smallest context."""
        return self.total_memory - self.context_bytes[0]


@dataclass(frozen=True, slots=True)
class Instance:
    """A machine that a provider rents. `fraction` is the share of each GPU that it gets (vGPU). Network is per node;
    `disk_gb` is the local disk that comes with it, 0 for network disks only."""

    provider: str
    name: str
    gpu: str
    gpu_count: int
    fraction: float
    vcpus: int
    ram_gib: float
    network_gbps_baseline: float | None  # sustained
    network_gbps_max: float | None
    disk_gb: float | None
    checked: str  # when the source said so
    unverified: frozenset[str]
    source: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """Where a program is to run. `gpu` is None for a machine without one; None elsewhere means that nothing says."""

    name: str
    gpu: Gpu | None = None
    gpus: int | None = None  # per node
    instance: Instance | None = None
    vcpus: int | None = None  # per node
    ram_gib: float | None = None  # per node

    @property
    def capability(self) -> tuple[int, int] | None:
        return self.gpu.capability if self.gpu else None

    def bf16_supported(self, torch_version: str | None = None, including_emulation: bool = True) -> bool:
        """What `torch.cuda.is_bf16_supported` returns here; without a version, that of the newest torch.

        True from compute capability 8.0 on. Below, torch up to 2.2 says False, and from 2.3 on True unless
        `including_emulation=False` (a parameter since 2.4). Without CUDA it is False. Source: torch/cuda/__init__.py of
        the wheels 1.13.1 to 2.15.0.
        """
        if self.gpu is None:
            return False
        if self.gpu.capability >= NATIVE_BF16_FROM:
            return True
        version = _release(torch_version) if torch_version else NEWEST_TORCH
        return including_emulation and version >= BF16_EMULATION_COUNTS_FROM


def find_target(name: str) -> Target:
    """The target of this name: a GPU, a place or an instance of the tables, or `cpu`; case does not matter.

    A GPU's own name stands for one of it in an unknown machine, and `t4/4` for a quarter of one, by whatever it is divided.
    """
    known = _targets_by_key()
    target = known.get(_key(name)) or _part_of(name, known)
    if target is None:
        close = difflib.get_close_matches(_key(name), known, n=5, cutoff=0.5)
        names = list(dict.fromkeys(known[key].name for key in close))[:3]
        hint = f"; did you mean {' or '.join(names)}?" if names else ""
        raise UnknownTarget(f"unknown target {name!r}{hint}")
    return target


def _part_of(name: str, known: Mapping[str, Target]) -> Target | None:
    found = _PART.fullmatch(name.strip())
    whole = known.get(_key(found[1])) if found else None
    if found is None or whole is None or whole.gpu is None or whole.instance is not None or int(found[2]) < 2:
        return None
    return Target(f"{whole.name}/{int(found[2])}", _share(whole.gpu, 1 / int(found[2])), gpus=1)


def targets() -> list[Target]:
    """All targets, each once: GPUs first, then places and instances, then `cpu`."""
    return list({target.name: target for target in _targets_by_key().values()}.values())


@cache
def gpus() -> Mapping[str, Gpu]:
    """The GPUs of `gpus.csv` by name."""
    return {row["name"]: _gpu(row) for row in _rows("gpus.csv")}


@cache
def instances() -> Mapping[str, Instance]:
    """The machines of `instances.csv` by name."""
    return {row["name"]: _instance(row) for row in _rows("instances.csv")}


@cache
def _targets_by_key() -> Mapping[str, Target]:
    known: dict[str, Target] = {}
    for gpu in gpus().values():
        target = Target(gpu.name, gpu, gpus=1)
        for name in (gpu.name, gpu.device_name, *gpu.aliases):
            known.setdefault(_key(name), target)
    for instance in instances().values():
        target = Target(
            instance.name, _share(gpus()[instance.gpu], instance.fraction), instance.gpu_count, instance,
            instance.vcpus, instance.ram_gib,
        )  # fmt: skip
        for name in (instance.name, *instance.aliases):
            known.setdefault(_key(name), target)
    known["cpu"] = Target("cpu", gpus=0)
    return known


def _key(name: str) -> str:
    return name.strip().lower().replace(" ", "-").replace("_", "-")


def _share(gpu: Gpu, fraction: float) -> Gpu:
    """A slice of a GPU: that share of the memory on the label, an upper bound (a quarter of a T4 is sold as 4 GB).

    Its time is shared too: alone it may have all of it, so only the lower, effective rates shrink.
    """
    if fraction == 1:
        return gpu
    label = math.ceil(gpu.total_memory / GIB / 4) * 4  # 14.56 GiB are sold as 16 GB, 22.06 as 24
    effective = {dtype: rate * fraction for dtype, rate in gpu.effective_flops.items()}
    unverified = gpu.unverified | {"total_memory"}
    return replace(
        gpu, total_memory=int(label * GIB * fraction), effective_flops=effective, unverified=unverified, share=fraction
    )


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (_HERE / name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _gpu(row: dict[str, str]) -> Gpu:
    major, minor = row["capability"].split(".")
    return Gpu(
        name=row["name"],
        device_name=row["device_name"],
        architecture=row["architecture"],
        capability=(int(major), int(minor)),
        sm_count=int(row["sm_count"]),
        total_memory=int(row["total_memory"] or int(row["nominal_gib"]) * GIB),
        context_bytes=(int(row["context_low"] or CONTEXT[0]), int(row["context_high"] or CONTEXT[1])),
        bandwidth=float(row["bandwidth"]),
        shared_memory_per_block=int(row["shared_memory_per_block"]),
        native_dtypes=frozenset(row["native_dtypes"].split()),
        nominal_flops=_rates(row, "nominal"),
        measured_flops=_rates(row, "measured"),
        effective_flops=_rates(row, "effective"),
        nvlink=row["nvlink"] == "yes",
        unverified=frozenset(row["unverified"].split()),
        source=row["source"],
        aliases=tuple(row["aliases"].split()),
    )


def _rates(row: dict[str, str], kind: str) -> dict[str, float]:
    columns = {"float32": f"{kind}_fp32", "float16": f"{kind}_fp16", "bfloat16": f"{kind}_bf16"}
    return {dtype: float(row[column]) for dtype, column in columns.items() if row[column]}


def _instance(row: dict[str, str]) -> Instance:
    baseline, maximum = row["network_gbps_baseline"], row["network_gbps_max"]
    return Instance(
        provider=row["provider"],
        name=row["name"],
        gpu=row["gpu"],
        gpu_count=int(row["gpu_count"]),
        fraction=float(row["fraction"]),
        vcpus=int(row["vcpus"]),
        ram_gib=float(row["ram_gib"]),
        network_gbps_baseline=float(baseline) if baseline else None,
        network_gbps_max=float(maximum) if maximum else None,
        disk_gb=float(row["disk_gb"]) if row["disk_gb"] else None,
        checked=row["checked"],
        unverified=frozenset(row["unverified"].split()),
        source=row["source"],
        aliases=tuple(row["aliases"].split()),
    )


def _release(version: str) -> tuple[int, ...]:
    """`"2.13.0+cu130"` → `(2, 13)`."""
    return tuple(int(number) for number in re.findall(r"\d+", version.split("+")[0])[:2])
