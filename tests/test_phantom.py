"""The phantom: scripts that know nothing of it, run on a card that is not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from t4lint.phantom.allocator import LARGE_SEGMENT, SMALL_SEGMENT, Allocator, DoesNotFit
from t4lint.phantom.ledger import Ledger

PYTHON = os.environ.get("T4LINT_TEST_PYTHON", sys.executable)  # of the programs: another torch may be there
ROOT = Path(__file__).resolve().parents[1]
MIB = 2**20


def test_blocks_come_from_segments_of_two_kinds() -> None:
    allocator = Allocator()
    small, large = allocator.allocate(1), allocator.allocate(3 * MIB)
    assert (allocator.allocated, allocator.reserved) == (512 + 3 * MIB, SMALL_SEGMENT + LARGE_SEGMENT)
    allocator.free(small)
    allocator.free(large)
    assert (allocator.allocated, allocator.reserved) == (0, SMALL_SEGMENT + LARGE_SEGMENT)
    allocator.release()
    assert allocator.reserved == 0


def test_from_ten_mib_on_a_segment_has_the_size_of_its_block() -> None:
    allocator = Allocator()
    allocator.allocate(11 * MIB + 1)
    assert allocator.reserved == 12 * MIB


def test_neighbours_that_are_free_are_merged() -> None:
    allocator = Allocator()
    blocks = [allocator.allocate(5 * MIB) for _ in range(4)]
    assert allocator.reserved == LARGE_SEGMENT
    for index in (0, 2, 1, 3):
        allocator.free(blocks[index])
    allocator.allocate(9 * MIB)
    allocator.allocate(9 * MIB)
    assert allocator.reserved == LARGE_SEGMENT


def test_fragments_are_of_no_use_to_a_larger_block() -> None:
    allocator = Allocator()
    blocks = [allocator.allocate(5 * MIB) for _ in range(4)]
    allocator.free(blocks[0])
    allocator.free(blocks[2])
    allocator.allocate(8 * MIB)
    assert allocator.reserved == 2 * LARGE_SEGMENT


def test_beyond_the_limit_nothing_fits_until_segments_are_given_back() -> None:
    allocator = Allocator(32 * MIB)
    first = allocator.allocate(20 * MIB)
    with pytest.raises(DoesNotFit) as caught:
        allocator.allocate(14 * MIB)
    assert caught.value.wanted == 14 * MIB
    allocator.free(first)
    allocator.allocate(30 * MIB)
    assert (allocator.reserved, allocator.peak_reserved) == (30 * MIB, 30 * MIB)


def verified(folder: Path, script: str, *flags: str) -> dict[str, Any]:
    (folder / "train.py").write_text(textwrap.dedent(script).lstrip("\n"), encoding="utf-8")
    called = [
        sys.executable, "-m", "t4lint", "verify", "--device", "phantom", "--output-format", "json", *flags, "--",
        PYTHON, "train.py",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(called, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    report["said"] = done.stderr
    return report


PLAIN = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    assert torch.cuda.get_device_name() == "Tesla T4" and torch.cuda.get_device_capability() == (7, 5)
    assert torch.cuda.is_bf16_supported() and not torch.cuda.is_bf16_supported(including_emulation=False)
    device = torch.device("cuda")
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 1000))
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    data = TensorDataset(torch.randn(64, 3, 32, 32), torch.randint(0, 1000, (64,)))
    for images, labels in DataLoader(data, batch_size=8, pin_memory=False):
        images, labels = images.to(device), labels.to(device)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(images), labels)
        assert int(labels.max()) < 1000
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
PARAMETERS = 3 * 8 * 9 + 8 + 16 + 7200 * 1000 + 1000


@pytest.mark.heavy
def test_a_plain_loop_runs_to_its_steps_with_verdicts_and_memory(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    report = verified(tmp_path, PLAIN)
    assert report["errors"] == [], report["said"]
    assert "stopped after 3 optimizer steps" in report["said"]
    verdicts = {it["rule"]: it["verdict"] for it in report["findings"]}
    assert {it["basis"] for it in verdicts.values()} == {"phantom"}
    bf16 = verdicts["bf16-mixed-precision"]
    assert (bf16["verdict"], bf16["confidence"]) == ("confirmed", "certain")
    memory = report["memory"]
    components = memory["components"]
    assert memory["basis"] == "phantom"
    assert components["weights"] == pytest.approx(4 * PARAMETERS, rel=0.01)
    assert components["optimizer"] == pytest.approx(8 * PARAMETERS, rel=0.01)
    assert components["gradients"] == pytest.approx(4 * PARAMETERS, rel=0.01)
    # the multi-tensor path of AdamW makes one more copy of the parameters: that is the peak
    assert memory["phase"] == "optimizer"
    assert components["temporary"] >= 4 * 7200 * 1000


@pytest.mark.heavy
def test_what_does_not_fit_is_told_with_its_place(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = """
        import torch

        layer = torch.nn.Linear(40000, 40000).cuda()
        optimizer = torch.optim.Adam(layer.parameters())
        layer(torch.randn(2, 40000, device="cuda")).sum().backward()
        optimizer.step()
    """
    report = verified(tmp_path, script, "--steps", "1")
    assert report["errors"] == [], "the run could be completed: that it does not fit is what it found"
    verdicts = {it["rule"]: it["verdict"]["verdict"] for it in report["findings"] if it["severity"] == "error"}
    assert verdicts == {"training-state-exceeds-gpu": "confirmed"}, report["said"]
    assert "out of memory on T4: train.py:6 (optimizer)" in str(report["notes"])
    assert report["memory"]["peak_allocated"] > report["memory"]["limit"]


@pytest.mark.heavy
def test_a_batch_that_does_not_fit_is_a_finding_of_the_run(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = """
        import torch

        layer = torch.nn.Linear(1000, 50000).cuda()
        optimizer = torch.optim.SGD(layer.parameters(), 0.1)
        x = torch.randn(50000, 1000, device="cuda")
        layer(x).square().mean().backward()
        optimizer.step()
    """
    report = verified(tmp_path, script, "--steps", "1")
    assert report["errors"] == [], report["said"]
    (finding,) = [it for it in report["findings"] if it["rule"] == "micro-batch-too-large"]
    assert (finding["verdict"]["verdict"], finding["verdict"]["basis"]) == ("confirmed", "phantom")
    assert finding["message"].startswith("This step needs at least")


@pytest.mark.heavy
def test_what_does_not_fit_without_a_training_step_is_an_error_of_its_place(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    report = verified(tmp_path, 'import torch\n\nkept = torch.empty(2**34, dtype=torch.uint8, device="cuda")\n')
    (problem,) = report["errors"]
    assert problem["message"].startswith("out of memory on T4"), report["said"]
    assert (problem["path"], problem["line"]) == ("train.py", 3)


@pytest.mark.heavy
def test_an_operation_without_values_is_never_the_person_s_error(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = """
        import torch

        device = "cuda"
        values = torch.randint(0, 9, (1000, 1000), device=device)
        torch.bincount(values.flatten())
        model = torch.nn.Linear(4, 4).to(device)
        with torch.autocast(device, dtype=torch.bfloat16):
            model(torch.randn(2, 4, device=device))
    """
    report = verified(tmp_path, script)
    assert "unsupported operation aten.bincount" in report["said"]
    (finding,) = [it for it in report["findings"] if it["rule"] == "bf16-mixed-precision"]
    assert finding["verdict"]["verdict"] == "not exercised"
    assert finding["verdict"]["reason"].startswith("unsupported operation aten.bincount")


class _Told:
    """A recorder that stands where the test puts it."""

    def __init__(self) -> None:
        self.at = ("setup", 0)

    def fact(self, kind: str, **data: Any) -> None: ...
    def count(self, what: str) -> None: ...
    def trouble(self, probe: str, error: BaseException) -> None: ...

    def phase(self) -> str:
        return self.at[0]

    def step(self) -> int:
        return self.at[1]

    def place(self) -> None: ...


class _Storage:
    def __init__(self, size: int) -> None:
        self._cdata = id(self)
        self.size = size

    def nbytes(self) -> int:
        return self.size


def test_moments_are_the_fullest_of_each_stretch_by_what_the_storages_were_in_the_end() -> None:
    told = _Told()
    ledger = Ledger(told, 32 * MIB)
    weight = _Storage(4 * MIB)
    ledger.add(weight, "empty")
    told.at = ("forward", 0)
    for _ in range(3):
        ledger.passing(2 * MIB, "mm")
    kept = _Storage(MIB)
    ledger.add(kept, "relu")
    told.at = ("backward", 0)
    del kept
    ledger.passing(MIB, "mm")
    ledger.label(weight, "weights")
    moments = [(it["in_phase"], it["components"]) for it in ledger.moments()]
    assert {"setup", "forward", "backward"} == {phase for phase, _ in moments}
    assert moments[0] == ("setup", {"weights": 4 * MIB})
    assert {"weights": 4 * MIB, "activations": 2 * MIB} in [held for _, held in moments]
    peak = max(sum(held.values()) for _, held in moments)
    assert peak == ledger.summary()["allocated"]


def test_what_was_given_back_is_given_back_in_the_second_count_too() -> None:
    ledger = Ledger(_Told(), 64 * MIB)
    ledger.passing(30 * MIB, "mm")
    ledger.emptied()
    kept = _Storage(32 * MIB)
    ledger.add(kept, "empty")
    assert (ledger.allocator.reserved, ledger.allocator.peak_reserved) == (32 * MIB, 32 * MIB)
    ledger.could_take(20 * MIB)
    ledger.passing(MIB, "mm")
    assert ledger.reserved_with_optional() == 54 * MIB


@pytest.mark.heavy
def test_an_operation_that_is_one_kernel_on_a_gpu_has_no_steps_in_between(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = """
        import torch

        parts = {"silu": torch.nn.SiLU(), "mish": torch.nn.Mish(), "norm": torch.nn.RMSNorm(1024).cuda()}
        size = 4 * 1024 * 1024
        for name, part in parts.items():
            given = torch.randn(1024, 1024, device="cuda", requires_grad=True)
            out = part(given)
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            out.backward(out.detach())
            rise = torch.cuda.max_memory_allocated() - before
            print(name, rise / size)
            fused = name != "norm" or hasattr(torch.ops.aten, "_fused_rms_norm")
            assert size <= rise < (1.1 if fused else 9) * size, (name, rise / size)
            del given, out

        torch.backends.cudnn.benchmark = True
        convolution = torch.nn.Conv2d(8, 8, 3, bias=False).cuda()
        torch.empty(1 << 26, dtype=torch.uint8, device="cuda")
        images = torch.randn(2, 8, 40, 40, device="cuda")
        held = torch.cuda.memory_reserved()
        convolution(images)
        emptied = torch.cuda.memory_reserved()
        assert held - emptied >= 1 << 26, "the first of its shape looks for the fastest plan, and empties the cache"
        torch.empty(1 << 26, dtype=torch.uint8, device="cuda")
        held = torch.cuda.memory_reserved()
        convolution(images)
        assert torch.cuda.memory_reserved() == held, "the second does not"
    """
    report = verified(tmp_path, script)
    assert not report["errors"], (report["errors"], report["said"])


@pytest.mark.heavy
def test_what_programs_print_save_and_draw(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = """
        import torch

        model = torch.nn.Linear(4, 2).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        torch.save({"model": model.state_dict()}, "model.pt")
        model.load_state_dict(torch.load("model.pt", map_location="cpu")["model"])
        for _ in range(2):
            chosen = torch.distributions.Categorical(logits=model(torch.randn(3, 4, device="cuda")))
            loss = -chosen.log_prob(chosen.sample()).mean()
            loss.backward()
            optimizer.step()
            model.cpu().cuda()  # as trainers do in the end
            print(f"{loss:.3f}", "{:>8}".format(loss), f"{torch.tensor(2):03d}")
    """
    report = verified(tmp_path, script, "--steps", "2")
    assert report["errors"] == [], report["said"]


def test_the_end_waits_for_threads_that_run(tmp_path: Path) -> None:
    """The interpreter ends a thread that comes back to Python after it, and with it, in C++, the process."""
    script = """
        import threading
        import time

        from t4lint.record.inside import phantom

        ended = []


        def work():
            until = time.monotonic() + 0.5
            while time.monotonic() < until:
                sum(range(1000))
            ended.append(True)


        sleeper = threading.Event()
        threading.Thread(target=work, daemon=True).start()
        threading.Thread(target=sleeper.wait, daemon=True).start()
        phantom._wait_for_threads()
        print(ended)
    """
    (tmp_path / "end.py").write_text(textwrap.dedent(script), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    called = [sys.executable, "end.py"]
    done = subprocess.run(called, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == ("[True]\n" if sys.platform == "linux" else done.stdout), done.stderr


@pytest.mark.heavy
def test_values_are_finite_for_who_asks_and_an_evaluation_in_inference_mode_has_numbers(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = """
        import torch

        model = torch.nn.Linear(600, 600).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            loss = model(torch.randn(3, 600, device="cuda")).square().mean()
            if not torch.isfinite(loss) or torch.isnan(loss):
                raise SystemExit("not finite")
            loss.backward()
            gradient = model.weight.grad
            spoiled = gradient.isnan().logical_or(gradient.isinf()).float().max()
            assert spoiled.item() == 0 and not (gradient != gradient).any()
            assert torch.isfinite(gradient).all() and int(torch.isnan(gradient).sum()) == 0
            with torch.cuda.nvtx.range("evaluation"), torch.inference_mode():
                out = model(torch.randn(3, 600, device="cuda"))
                assert out.mean().item() == 1.0 and out.to("cpu").numpy().shape == (3, 600)
                assert out.argmax(1).cpu().tolist()
            assert out.sum().item() == 1.0 and out.to("cpu").numpy().shape == (3, 600), "also of what was made in it"
            optimizer.step()
    """
    report = verified(tmp_path, script, "--steps", "2")
    assert report["errors"] == [], report["said"]


@pytest.mark.heavy
def test_older_types_of_tensors_a_graph_for_tensorboard_and_what_a_fresh_process_says(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = """
        import torch

        assert torch.cuda.is_available() and not torch.cuda.is_initialized()
        Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
        model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2)).cuda()
        assert torch.cuda.is_initialized()
        torch.jit.trace(model, torch.randn(2, 1, 8, 8).cuda())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            real = torch.ones(4, 1, 8, 8).type(Tensor)
            noise = Tensor(torch.zeros(4, 1, 8, 8).numpy())
            label = Tensor(4, 1).fill_(1.0)
            assert isinstance(label, torch.cuda.FloatTensor) and label.is_cuda and label.type() == "torch.cuda.FloatTensor"
            assert torch.cuda.LongTensor([1, 2]).tolist() == [1, 2] and not isinstance(label, torch.cuda.HalfTensor)
            assert real.type("torch.cuda.HalfTensor").dtype is torch.float16 and real.type(torch.float64).is_cuda
            loss = (model(real + noise).mean() - label).square().mean()
            loss.backward()
            optimizer.step()
            torch.cuda.cudart().cudaProfilerStart()
            torch.cuda.nvtx.range_push("step")
            torch.cuda.nvtx.range_pop()
    """
    report = verified(tmp_path, script, "--steps", "2")
    assert report["errors"] == [], report["said"]
