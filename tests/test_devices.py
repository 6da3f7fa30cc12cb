"""The tables of GPUs and instances, and what a target answers."""

from __future__ import annotations

import pickle

import pytest

from t4lint.devices import UnknownTarget, find_target, gpus, instances, targets

GIB = 2**30


def test_t4_is_what_torch_reports() -> None:
    gpu = find_target("t4").gpu
    assert gpu is not None
    assert (gpu.device_name, gpu.capability, gpu.sm_count) == ("Tesla T4", (7, 5), 40)
    assert f"{gpu.total_memory / GIB:.2f}" == "14.56"
    assert gpu.usable_bytes == gpu.total_memory - int(0.30 * GIB)
    assert gpu.effective_flops == {"float16": 20e12, "float32": 2.5e12, "bfloat16": 1e12}
    assert "bfloat16" not in gpu.native_dtypes and "tfloat32" not in gpu.native_dtypes
    assert not gpu.unverified


@pytest.mark.parametrize(
    ("name", "gpus_per_node", "vcpus"),
    [
        ("t4", 1, None),
        ("Tesla T4", 1, None),
        ("colab", 1, 2),
        ("kaggle-2xt4", 2, 4),
        ("g4dn.12xlarge", 4, 48),
        ("ecs.gn6i-c8g1.2xlarge", 1, 8),
        ("gn6i-c8g1.2xlarge", 1, 8),
        ("GN7.2XLARGE32", 1, 8),
        ("gn7.2xlarge32", 1, 8),
        ("Standard_NC64as_T4_v3", 4, 64),
        ("nc4as_t4_v3", 1, 4),
        ("a100", 1, None),
        ("cpu", 0, None),
    ],
)
def test_find_target(name: str, gpus_per_node: int, vcpus: int | None) -> None:
    target = find_target(name)
    assert (target.gpus, target.vcpus) == (gpus_per_node, vcpus)
    assert (target.gpu is None) == (name == "cpu")


def test_unknown_target_suggests_names() -> None:
    with pytest.raises(UnknownTarget, match=r"g4dn\.12xlarge"):
        find_target("g4dn.12xlrge")
    with pytest.raises(UnknownTarget, match="unknown target"):
        find_target("")


@pytest.mark.parametrize(
    ("target", "torch", "emulation", "expected"),
    [
        ("t4", "2.2.2", True, False),
        ("t4", "1.13.1", True, False),
        ("t4", "2.3.1+cu121", True, True),
        ("t4", "2.13.0", True, True),
        ("t4", None, True, True),
        ("t4", "2.13.0", False, False),
        ("v100", None, True, True),
        ("a100", "2.0.1", True, True),
        ("l4", None, False, True),
        ("cpu", None, True, False),
    ],
)
def test_bf16_supported(target: str, torch: str | None, emulation: bool, expected: bool) -> None:
    assert find_target(target).bf16_supported(torch, including_emulation=emulation) is expected


def test_a_slice_of_a_gpu_has_its_share_of_memory() -> None:
    gpu = find_target("GN7.LARGE20").gpu
    assert gpu is not None and gpu.total_memory == 4 * GIB


@pytest.mark.parametrize(
    ("name", "share", "part"),
    [
        ("GN7.LARGE20", 1 / 4, "a quarter of"), ("GN7.2XLARGE40", 1 / 2, "half of"), ("GN7.2XLARGE32", 1, ""),
        ("vgn6i-m8-vws.2xlarge", 1 / 2, "half of"), ("ecs.vgn6i-m16-vws.5xlarge", 1, ""), ("T4/3", 1 / 3, "1/3 of"),
    ],
)  # fmt: skip
def test_a_part_of_a_gpu_has_its_share_of_memory_and_time(name: str, share: float, part: str) -> None:
    gpu, whole = find_target(name).gpu, find_target("t4").gpu
    assert gpu is not None and whole is not None
    assert gpu.total_memory == (int(16 * GIB * share) if part else whole.total_memory) and gpu.part == part
    assert gpu.effective_flops["float16"] == pytest.approx(share * whole.effective_flops["float16"])
    assert gpu.measured_flops == whole.measured_flops, "alone on the GPU it may have all of its time"
    assert ("total_memory" in gpu.unverified) == bool(part)


@pytest.mark.parametrize("name", ["t4/1", "t4/0", "t4/", "kaggle-2xt4/2", "cpu/2"])
def test_what_cannot_be_divided(name: str) -> None:
    with pytest.raises(UnknownTarget):
        find_target(name)


def test_every_row_has_a_source_and_plausible_figures() -> None:
    for gpu in gpus().values():
        assert gpu.source and gpu.total_memory > 8 * GIB and gpu.sm_count > 0
    for instance in instances().values():
        assert instance.source and instance.gpu in gpus() and instance.vcpus > 0 and 0 < instance.fraction <= 1
        if instance.network_gbps_baseline and instance.network_gbps_max:
            assert instance.network_gbps_baseline <= instance.network_gbps_max


def test_targets_are_unique_and_survive_pickling() -> None:
    names = [target.name for target in targets()]
    assert len(names) == len(set(names)) and {"t4", "cpu", "colab", "g4dn.xlarge"} <= set(names)
    target = find_target("g4dn.xlarge")
    assert pickle.loads(pickle.dumps(target)) == target
    assert hash(target) == hash(find_target("G4DN.xlarge"))


def test_a_part_of_a_t4_is_no_t4() -> None:
    """Neither in memory nor by name: what fits on a T4 does not fit on half of one."""
    whole, half = find_target("GN7.2XLARGE32"), find_target("GN7.2XLARGE40")
    assert whole.gpu is not None and half.gpu is not None and whole.gpu == find_target("t4").gpu
    assert half.gpu.usable_bytes < whole.gpu.usable_bytes * 0.56 and half.gpu != whole.gpu
    assert "total_memory" in half.gpu.unverified
