"""Each kind of event of the vocabulary is recorded, or is said to be seen only in files."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from t4lint.devices import find_target
from t4lint.record.launch import Recording, record
from t4lint.record.observe import EVERYTHING, UNSEEN, kernel_of, trace_of
from t4lint.trace import Call, Compile, Event, Forward, Key, Operation, Trace, events

ROOT = Path(__file__).resolve().parents[1]

PROGRAM = """
    import torch
    from torch import nn
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.data.distributed import DistributedSampler


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 1)

        def forward(self, x):
            hidden = self.first(x)
            hidden = hidden.masked_fill(torch.zeros(8, dtype=torch.bool), -1e9)
            return self.second(hidden)


    model, criterion = Net(), nn.BCELoss()
    optimizer = torch.optim.AdamW(model.parameters())
    sampler = DistributedSampler(list(range(8)), num_replicas=2, rank=0, shuffle=False)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
            out = model(torch.randn(4, 8))
        loss = criterion(torch.sigmoid(out), torch.ones(4, 1))
        loss.backward()
        optimizer.step()
        torch.cuda.empty_cache()
        if loss > 1000:
            break
        model.eval()
        with torch.no_grad():
            out = model(torch.randn(4, 8)).cpu()
        model.train()
        torch.autograd.grad(model(torch.randn(4, 8)).sum(), list(model.parameters()))
    torch.full((2, 2), -1e9, dtype=torch.float32)
    with torch.autocast("cuda", dtype=torch.float16):
        torch.matmul(out, out.T).masked_fill(torch.ones(4, 4, dtype=torch.bool), -1e9)
"""


def line_of(text: str) -> int:
    lines = textwrap.dedent(PROGRAM).lstrip().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def run(folder: Path, text: str, *launch: str, steps: int = 0) -> Recording:
    (folder / "train.py").write_text(textwrap.dedent(text).lstrip())
    done = record([sys.executable, *launch, "train.py"], cwd=folder, steps=steps, timeout=200)
    assert done.outcome.how in ("finished", "stopped"), done.stderr
    assert not [entry for entry in done.journal.records if entry.k == "trouble"]
    return done


def at(trace: Trace, kind: str, line: int) -> list[Event]:
    return [event for event in trace.events if event.key == Key(kind, event.role, "train.py", line, line)]


def test_every_kind_is_recorded_or_said_not_to_be() -> None:
    kinds = {kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)} - {Event}
    assert kinds == EVERYTHING
    page = (ROOT / "docs" / "verify.md").read_text(encoding="utf-8")
    assert {kind.__name__ for kind in UNSEEN} == {
        "Allocation", "Keep", "Setting", "InstanceRequest", "Requirement", "TrainerFile",
    }  # fmt: skip
    assert all(f"`{kind.__name__}`" in page for kind in UNSEEN)


def test_the_kernel_that_is_left() -> None:
    assert kernel_of(["FLASH_ATTENTION", "MATH"], recent=False) == "math"
    assert kernel_of(["FLASH_ATTENTION", "MATH"], recent=True) == "flash"
    assert kernel_of(["CUDNN_ATTENTION"], recent=False) == "none"


@pytest.mark.heavy
def test_a_program_with_most_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    done = run(tmp_path, PROGRAM)
    trace, plain = trace_of(done, find_target("t4")), trace_of(done, find_target("cpu"))
    training = at(trace, "Forward", line_of("out = model(torch.randn(4, 8))\n".strip()))
    assert [(it.grad.it, it.training.it, it.dtype.it) for it in training] == [(True, True, "float32")] * 4  # type: ignore[attr-defined]
    evaluating = at(plain, "Forward", line_of(".cpu()"))
    assert [(it.grad.it, it.training.it, it.device.it) for it in evaluating] == [(False, False, "cpu")] * 4  # type: ignore[attr-defined]
    (filled,) = at(trace, "Operation", line_of("hidden.masked_fill"))
    assert isinstance(filled, Operation)
    assert (filled.dtype.it, filled.constant.it, filled.autocast.it) == ("float32", -1e9, "none")
    (lowered,) = at(trace, "Operation", line_of("torch.matmul"))
    assert isinstance(lowered, Operation)  # on a GPU the product would be float16: a CPU run does not show it
    assert not lowered.dtype.known and lowered.autocast.it == "float16"
    assert [event.role for event in at(trace, "Operation", line_of("torch.full"))] == ["full"]
    assert [event.role for event in at(trace, "Operation", line_of("criterion("))] == ["binary_cross_entropy"]
    (attention,) = at(trace, "Attention", line_of("sdpa_kernel(["))
    assert attention.kernel.it == "math"  # type: ignore[attr-defined]
    for text, role, count in (
        ("empty_cache", "empty_cache", 4),
        ("set_epoch", "set_epoch", 4),
        ("autograd.grad", "grad", 4),
    ):
        assert [event.role for event in at(trace, "Call", line_of(text))] == [role] * count
    assert [event.role for event in at(trace, "HostSync", line_of("if loss"))] == ["bool"]
    assert [event.destination.it for event in at(plain, "Copy", line_of(".cpu()"))] == ["cpu"]  # type: ignore[attr-defined]


COLLECTIVES = """
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(4))
    if dist.get_rank() == 0:
        dist.broadcast(torch.ones(2), 0)
    else:
        dist.broadcast(torch.zeros(2), 0)
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.mark.heavy
def test_collectives_and_which_ranks_take_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    done = run(tmp_path, COLLECTIVES, "-m", "torch.distributed.run", "--nproc_per_node", "2")
    trace = trace_of(done, find_target("cpu"))
    found = {(it.operation, it.where.line): (it.ranks.it, it.bytes_sent.it) for it in trace.all(events.Collective)}
    assert found == {
        ("all_reduce", 5): ("all", 16),
        ("broadcast", 7): ("rank 0", 8),
        ("broadcast", 9): ("rank 1", 8),
        ("barrier", 10): ("all", 0),
    }


REPLICAS = """
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    try:
        torch.cuda.set_device(dist.get_rank())
    except Exception:
        pass
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    model = DistributedDataParallel(net)
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.randn(8, 4)
    with model.no_sync():
        model(data).sum().backward()
    loss = model(data).sum()
    with model.no_sync():
        loss.backward()
    model(data).sum().backward()
    optimizer.step()
    dist.destroy_process_group()
"""


@pytest.mark.heavy
def test_what_ddp_is_given_and_where_it_leaves_gradients_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    done = run(tmp_path, REPLICAS, "-m", "torch.distributed.run", "--nproc_per_node", "2", steps=1)
    trace = trace_of(done, find_target("t4"))
    (wrap,) = trace.all(events.Wrap)
    assert (wrap.how.it, wrap.normalization.it, wrap.gradient_bytes.it) == ("ddp", "BatchNorm", 4)
    choice = next(trace.all(events.DeviceChoice))
    assert (choice.role, choice.index.it, choice.where.line) == ("set_device", 0, 8)
    hook = next(call for call in trace.all(events.Call) if call.role == "register_comm_hook")
    assert str(hook.arguments["hook"].it).endswith("default_hooks.fp16_compress_hook")
    backwards = [(it.in_no_sync.it, it.forward_in_no_sync.it) for it in trace.all(events.Backward)]
    assert backwards == [(True, True), (True, False), (False, False)]


@pytest.mark.heavy
def test_calls_that_rules_read_a_late_compile_and_the_layout_of_convolutions(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    program = """
        import torch
        from transformers import DataCollatorWithFlattening, GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


        def metrics(predictions):
            return {}


        model = GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=32, n_positions=16))
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
        model.enable_input_require_grads()
        early = torch.compile(model, backend="eager")
        trainer = Trainer(model=model, args=TrainingArguments("out", use_cpu=True, report_to="none"), compute_metrics=metrics)
        late = torch.compile(model, backend="eager")
        collator = DataCollatorWithFlattening()
        layers = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Conv2d(4, 4, 3))
        layers(torch.randn(1, 3, 8, 8))
        other = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3)).to(memory_format=torch.channels_last)
        other(torch.randn(1, 3, 8, 8))
        torch.nn.Linear(2, 2)(torch.randn(1, 2))
    """
    trace = trace_of(run(tmp_path, program), find_target("t4"))
    calls = {it.function: {name: value.it for name, value in it.arguments.items()} for it in trace.all(Call)}
    assert calls["transformers.Trainer"] == {"compute_metrics": "metrics"}
    assert calls["gradient_checkpointing_enable"] == {"reentrant": True}
    assert calls["enable_input_require_grads"] == {"done": True}
    assert "transformers.DataCollatorWithFlattening" in calls
    assert [it.late.it for it in trace.all(Compile)] == [False, True]
    assert [it.layout.it for it in trace.all(Forward)] == ["contiguous", "channels_last", "none"]


@pytest.mark.heavy
@pytest.mark.parametrize("optimizer", ["SGD(model.parameters(), lr=0.1)", "LBFGS(model.parameters(), max_iter=3)"])
def test_what_a_closure_does_belongs_to_its_step(tmp_path: Path, optimizer: str) -> None:
    pytest.importorskip("torch")
    program = f"""
        import torch

        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.{optimizer}


        def closure():
            optimizer.zero_grad()
            loss = model(torch.ones(2, 4)).pow(2).sum()
            loss.backward()
            return loss


        for _ in range(3):
            optimizer.step(closure)
        if not isinstance(optimizer, torch.optim.LBFGS):
            optimizer.step()
    """
    trace = trace_of(run(tmp_path, program), find_target("cpu"))
    order = [type(it).__name__ for it in trace.events if isinstance(it, (events.Backward, events.Step))]
    times = order.index("Step")
    assert times >= 1 and order == ["Backward"] * times + ["Step"] + order[times + 1 :]
    steps = list(trace.all(events.Step))
    assert [it.step for it in steps] == [0, 1, 2, 3][: len(steps)]
    assert steps[0].backwards.it == times and steps[0].math.it == {"float32": 1.0}
    assert [it.where.line for it in steps[:3]] == [15] * 3
    assert "LBFGS" in optimizer or (len(steps), steps[3].backwards.it) == (4, 0)
