"""A GPU that is larger than the target's, without one: `torch.cuda` is a stand-in, and the answers are the target's."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from t4lint.devices import find_target
from t4lint.record.inside import card, journal
from t4lint.record.journal import Journal, Record
from t4lint.record.launch import Limits, Outcome, Recording, _card
from t4lint.record.observe import basis_of, trace_of
from t4lint.trace import Copy, Predicate, Step
from t4lint.verify import NO_GPU, memory_of, problems_of

T4 = find_target("t4")
GIB = 2**30


@dataclass
class Gpus:
    """What torch has of the driver: the figures of each GPU, and what was set."""

    names: list[str]
    total: int = 140 * GIB
    fractions: dict[int, float] = field(default_factory=dict)
    switches: dict[str, bool] = field(default_factory=lambda: {"flash": True, "cudnn": True, "mem_efficient": True})
    queue: list[Any] = field(default_factory=list)
    initialized: bool = False

    def properties(self, device: Any = None) -> Any:
        capability = (7, 5) if "T4" in self.names[device or 0] else (9, 0)
        total = 15637086208 if "T4" in self.names[device or 0] else self.total
        return SimpleNamespace(
            name=self.names[device or 0], major=capability[0], minor=capability[1], total_memory=total,
            multi_processor_count=132, warp_size=32,
        )  # fmt: skip

    def start(self) -> None:
        self.initialized = True
        for function in self.queue:
            function()


def stand_in(gpus: Gpus) -> Any:
    """As much of torch as `card` touches. Derived answers are derived as torch derives them (torch/cuda/__init__.py)."""
    cuda = SimpleNamespace(
        get_device_properties=gpus.properties,
        mem_get_info=lambda device=None: (gpus.total - GIB, gpus.total),
        set_per_process_memory_fraction=lambda share, device=None: gpus.fractions.__setitem__(device or 0, share),
        memory_reserved=lambda device=None: 2 * GIB,
        device_count=lambda: len(gpus.names),
        is_initialized=lambda: gpus.initialized,
        _lazy_call=gpus.queue.append,
        memory=SimpleNamespace(),
    )
    cuda.get_device_capability = lambda device=None: (
        cuda.get_device_properties(device).major,
        cuda.get_device_properties(device).minor,
    )
    switches = {
        name: value
        for switch in gpus.switches
        for name, value in (
            (f"_set_sdp_use_{switch}", lambda on, switch=switch: gpus.switches.__setitem__(switch, on)),
            (f"_get_{switch}_sdp_enabled", lambda switch=switch: gpus.switches[switch]),
        )
    }
    low = SimpleNamespace(
        _cuda_setMemoryFraction=lambda share, device: gpus.fractions.__setitem__(device, share), **switches
    )
    seen: list[bool] = []
    functional = SimpleNamespace(
        scaled_dot_product_attention=lambda query, *rest: seen.append(gpus.switches["mem_efficient"]), seen=seen
    )
    return SimpleNamespace(
        cuda=cuda, _C=low, version=SimpleNamespace(cuda="13.0"), nn=SimpleNamespace(functional=functional),
        bfloat16="bfloat16", float16="float16", compiler=SimpleNamespace(is_compiling=lambda: False),
    )  # fmt: skip


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(journal, "emit", lambda kind, site=None, n=1, **data: found.append((kind, data)))
    for name, value in _card({}, "auto", T4.gpu).items():
        monkeypatch.setenv(name, value)
    return found


def test_a_larger_gpu_answers_as_the_target(told: list[tuple[str, dict[str, Any]]]) -> None:
    gpus = Gpus(["NVIDIA H200", "NVIDIA H200"])
    torch = stand_in(gpus)
    card.install(torch)
    assert not gpus.initialized and not told, "installing does not initialise CUDA"
    assert torch.cuda.get_device_capability() == (7, 5)
    properties = torch.cuda.get_device_properties(0)
    assert (properties.name, properties.total_memory, properties.multi_processor_count) == ("Tesla T4", 15637086208, 40)
    assert properties.warp_size == 32 and properties.shared_memory_per_block_optin == 65536
    gpus.start()
    usable = 15637086208 - 483183820
    assert gpus.fractions == {0: usable / gpus.total, 1: usable / gpus.total}
    assert told == [
        (
            "card",
            {"name": "NVIDIA H200", "capability": [9, 0], "total_memory": gpus.total, "count": 2, "capped": usable},
        )
    ]
    assert torch.cuda.mem_get_info() == (15637086208 - 2 * GIB - 483183820, 15637086208)
    torch.cuda.set_per_process_memory_fraction(0.5)
    assert gpus.fractions[0] * gpus.total == pytest.approx(15637086208 / 2)
    torch.cuda.set_per_process_memory_fraction(1.0)
    assert gpus.fractions[0] * gpus.total == pytest.approx(usable), "a program cannot lift the cap"


def test_attention_kernels_that_the_target_lacks_stay_off(told: list[tuple[str, dict[str, Any]]]) -> None:
    gpus = Gpus(["NVIDIA H200"])
    torch = stand_in(gpus)
    card.install(torch)
    gpus.start()
    assert gpus.switches == {"flash": False, "cudnn": False, "mem_efficient": True}
    assert torch._C._get_flash_sdp_enabled(), "the program reads what it would read on the target"
    torch._C._set_sdp_use_flash(True)
    torch._C._set_sdp_use_cudnn(False)
    assert not gpus.switches["flash"] and not torch._C._get_cudnn_sdp_enabled()
    attention = torch.nn.functional.scaled_dot_product_attention
    for dtype in ("bfloat16", "float16"):
        attention(SimpleNamespace(dtype=dtype, is_cuda=True))
    assert torch.nn.functional.seen == [False, True] and gpus.switches["mem_efficient"]


def test_on_the_target_itself_nothing_is_changed(told: list[tuple[str, dict[str, Any]]]) -> None:
    gpus = Gpus(["Tesla T4"])
    torch = stand_in(gpus)
    card.install(torch)
    gpus.start()
    assert torch.cuda.get_device_properties(0).multi_processor_count == 132, "the real one's answer"
    assert not gpus.fractions and gpus.switches["flash"]
    assert torch.cuda.mem_get_info() == (gpus.total - GIB, gpus.total)
    assert told[0][1]["capped"] is None and told[0][1]["name"] == "Tesla T4"


def test_a_smaller_gpu_is_not_capped(told: list[tuple[str, dict[str, Any]]]) -> None:
    gpus = Gpus(["NVIDIA GeForce RTX 4070"], total=12 * GIB)
    card.install(stand_in(gpus))
    gpus.start()
    assert not gpus.fractions and told[0][1]["capped"] is None


def test_without_cuda_in_the_build_nothing_happens(told: list[tuple[str, dict[str, Any]]]) -> None:
    gpus = Gpus(["NVIDIA H200"])
    torch = stand_in(gpus)
    torch.version.cuda = None
    card.install(torch)
    assert not gpus.queue and torch.cuda.get_device_properties == gpus.properties


def test_a_probe_that_fails_is_told_and_changes_nothing(told: list[tuple[str, dict[str, Any]]]) -> None:
    gpus = Gpus(["NVIDIA H200"])
    torch = stand_in(gpus)
    del torch._C._cuda_setMemoryFraction
    card.install(torch)
    gpus.start()
    assert not [kind for kind, _ in told if kind == "card"]


def test_what_the_launch_tells() -> None:
    assert _card({}, "cpu", T4.gpu) == {"CUDA_VISIBLE_DEVICES": ""}
    assert _card({}, "auto", None) == {}
    given = _card({"CUBLAS_WORKSPACE_CONFIG": ":16:8"}, "cuda", T4.gpu)
    assert "CUBLAS_WORKSPACE_CONFIG" not in given and given["NVIDIA_TF32_OVERRIDE"] == "0"
    assert json.loads(given["T4LINT_CARD"])["capability"] == [7, 5]
    assert "NVIDIA_TF32_OVERRIDE" not in _card({}, "cuda", find_target("a10g").gpu)
    assert Limits().device == "auto"


# --- what follows from a run on a GPU --------------------------------------------------------------------------------


def entry(kind: str, **data: Any) -> Record:
    return Record(v=1, k=kind, t=1.0, pid=1, u=(("train.py", 1),), d=data)


def ran(*records: Record) -> Recording:
    outcome = Outcome("stopped", 0, "stopped after 3 optimizer steps")
    return Recording(("python", "train.py"), Path("/p"), Path("/p"), Journal(records), outcome, 1.0, "", "")


STEP = entry("step", subject="optimizer#0", device="cuda", asked={"bfloat16": 1.0}, ran={"float16": 1.0}, backwards=1)
COPIED = entry("copy", source="cpu", destination="cuda", non_blocking=True, pinned=True, size=8)
ASKED = entry("predicate", function="torch.cuda.is_bf16_supported", result=True)
MEMORY = entry(
    "memory", counted="allocated", phases={"forward": 90, "backward": 100}, peak=100, peak_in="backward", reserved=128
)


@pytest.mark.parametrize(("name", "basis"), [("Tesla T4", "t4"), ("NVIDIA H200", "gpu")])
def test_devices_and_answers_are_known(name: str, basis: str) -> None:
    recording = ran(entry("card", name=name, capped=None), ASKED, COPIED, STEP, MEMORY)
    trace = trace_of(recording, T4)
    assert trace.basis == basis == basis_of(recording, T4)
    (step,), (copy,), (asked,) = trace.all(Step), trace.all(Copy), trace.all(Predicate)
    assert (step.device.it, step.math.it, step.peak.it) == ("cuda", {"float16": 1.0}, (100.0, 100.0))
    assert (copy.source.it, copy.destination.it, copy.pinned.it) == ("cpu", "cuda", True)
    assert asked.result.it is True
    memory = memory_of(recording, T4)
    assert memory is not None and T4.gpu is not None
    assert (memory["peak_allocated"], memory["high"], memory["phase"], memory["basis"]) == (100, 128, "backward", basis)
    assert memory["limit"] == T4.gpu.usable_bytes
    assert not problems_of(recording, "cuda")


def test_without_a_gpu_they_are_not() -> None:
    recording = ran(ASKED, entry("copy", source="cpu", destination="cpu", non_blocking=True, pinned=None), STEP)
    trace = trace_of(recording, T4)
    (step,), (copy,), (asked,) = trace.all(Step), trace.all(Copy), trace.all(Predicate)
    assert trace.basis == "cpu" and memory_of(recording, T4) is None
    assert not (step.device.known or copy.pinned.known or asked.result.known or step.peak.known)
    assert [problem.message for problem in problems_of(recording, "cuda")] == [NO_GPU]
    assert not problems_of(recording, "auto")
