"""`t4lint verify --device cuda` on a real GPU. `scripts/gpu_check.sh` runs these; without a GPU they are skipped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from t4lint.devices import find_target
from t4lint.record.launch import Limits, Recording, record
from t4lint.record.observe import trace_of
from t4lint.trace import Copy, Predicate, Step

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.heavy,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU, or torch is built without CUDA"),
]
ROOT = Path(__file__).resolve().parents[1]
T4 = find_target("t4")


def run(folder: Path, text: str, steps: int = 2) -> Recording:
    (folder / "train.py").write_text(textwrap.dedent(text).lstrip())
    limits = Limits(device="cuda")
    return record([sys.executable, "train.py"], cwd=folder, steps=steps, timeout=120, limits=limits, gpu=T4.gpu)


LOOP = """
    import torch
    from torch import nn

    assert torch.cuda.get_device_capability() == (7, 5), torch.cuda.get_device_capability()
    print(torch.cuda.is_bf16_supported(), torch.cuda.is_bf16_supported(including_emulation=False))
    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(4):
        x = torch.randn(64, 1024).pin_memory().to("cuda", non_blocking=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""


def test_a_run_on_the_gpu(tmp_path: Path) -> None:
    done = run(tmp_path, LOOP)
    assert done.outcome.how == "stopped", done.stderr
    assert done.stdout.splitlines()[0] == "True False"
    assert not [entry.d for entry in done.journal.records if entry.k == "trouble"]
    trace = trace_of(done, T4)
    assert trace.basis in ("t4", "gpu")
    steps = list(trace.all(Step))
    assert all(step.device.it == "cuda" and step.math.it == {"float16": 1.0} for step in steps)
    weights = 4 * 2 * 1024 * 4096
    assert weights * 4 <= steps[-1].peak.it[0] < weights * 8, "weights, gradients and two moments in float32, and some"
    copied = next(copy for copy in trace.all(Copy) if copy.non_blocking.it)
    assert (copied.source.it, copied.destination.it, copied.pinned.it) == ("cpu", "cuda", True)
    assert all(asked.result.known for asked in trace.all(Predicate))


def test_the_memory_is_the_targets(tmp_path: Path) -> None:
    text = """
        import torch
        fits = torch.empty(13 * 2**30, dtype=torch.uint8, device="cuda")
        print("fits", torch.cuda.mem_get_info()[1])
        too_much = torch.empty(2 * 2**30, dtype=torch.uint8, device="cuda")
        print("too much")
    """
    done = run(tmp_path, text)
    assert T4.gpu is not None
    assert done.stdout == f"fits {T4.gpu.total_memory}\n", done.stdout
    assert done.outcome.how == "exception" and done.outcome.detail.startswith("OutOfMemoryError"), done.outcome


def test_attention_kernels(tmp_path: Path) -> None:
    """Forbidden kernels are not there, and bf16 attention writes its matrix out, as before Ampere."""
    text = """
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention as attention

        def peak(dtype):
            q = torch.randn(1, 8, 4096, 64, device="cuda", dtype=dtype)
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            attention(q, q, q)
            return torch.cuda.max_memory_allocated() - before

        half, brain = peak(torch.float16), peak(torch.bfloat16)
        print(half < 64 * 2**20, brain > 200 * 2**20)
        try:
            with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                peak(torch.float16)
        except RuntimeError as error:
            print("No available kernel" in str(error))
    """
    done = run(tmp_path, text)
    assert done.stdout.splitlines() == ["True True", "True"], (done.stdout, done.stderr)


def test_cuda_is_not_initialised_for_the_program(tmp_path: Path) -> None:
    text = """
        import os, torch
        assert not torch.cuda.is_initialized()
        child = os.fork()
        if child == 0:
            torch.ones(1, device="cuda")
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert run(tmp_path, text).stdout == "0\n"


def test_the_report(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text((ROOT / "examples" / "verify_me.py").read_text())
    called = [sys.executable, "-m", "t4lint", "verify", "--device", "cuda", "--output-format", "json"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [*called, "--", sys.executable, "train.py"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    bases = {finding["verdict"]["basis"] for finding in report["findings"]}
    assert len(bases) == 1 and bases <= {"t4", "gpu"}
    assert report["memory"]["peak_allocated"] > 0 and report["memory"]["basis"] in bases
    guard = [one for one in report["findings"] if one["rule"] == "bf16-guard-always-true"]
    assert [one["verdict"]["verdict"] for one in guard] == ["confirmed"], "the GPU answers as a T4"
