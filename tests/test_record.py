"""The recorder over real programs: what it sees, how runs end, and that a program behaves as without it."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from t4lint import engine
from t4lint.devices import find_target
from t4lint.findings import Finding, Report
from t4lint.record import launch
from t4lint.record.launch import Limits, Recording, child_environment, is_secret, project_root, record
from t4lint.record.observe import COMMAND, trace_of
from t4lint.rule import Candidate, Rule
from t4lint.trace import (
    Attention,
    Autocast,
    Backward,
    Call,
    Compile,
    Copy,
    Engine,
    EnvironmentVariable,
    Evaluation,
    Exit,
    GradientRead,
    Key,
    Launch,
    Loader,
    Location,
    Model,
    Optimizer,
    Predicate,
    ProcessGroup,
    Save,
    Scaler,
    Step,
    Switch,
    Trace,
    Wrap,
    ZeroGrad,
)
from t4lint.verify import verify

pytestmark = pytest.mark.heavy
pytest.importorskip("torch")

LOOP = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    device = "cuda" if torch.cuda.is_available() else "cpu"
    loader = DataLoader(
        TensorDataset(torch.randn(64, 8), torch.randn(64, 1)),
        batch_size=4,
        num_workers=0, pin_memory=False, shuffle=True,
    )
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cuda")
    torch.backends.cuda.matmul.allow_tf32 = True
    for epoch in range(2):
        for i, (x, y) in enumerate(loader):
            x, y = x.to(device, non_blocking=True), y.to(device)
            with torch.autocast("cuda", dtype=torch.float16):
                loss = nn.functional.mse_loss(
                    model(x), y)
            scaler.scale(loss / 2).backward()
            if i % 2:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=True)
                print("step", i)
    torch.save(model.state_dict(), "model.pt")
    print("done")
"""


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def write(folder: Path, text: str, name: str = "train.py") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(textwrap.dedent(text).lstrip("\n"))
    return path


def run(folder: Path, text: str, *, steps: int = 2, timeout: float = 120, launch: tuple[str, ...] = ()) -> Recording:
    write(folder, text)
    return record([sys.executable, *launch, "train.py"], cwd=folder, steps=steps, timeout=timeout)


def observed(recording: Recording, target: str = "t4") -> Trace:
    troubles = [entry.d for entry in recording.journal.records if entry.k == "trouble"]
    assert not troubles
    return trace_of(recording, find_target(target))


def test_plain_loop(tmp_path: Path) -> None:
    recording = run(tmp_path, LOOP)
    assert recording.outcome.how == "stopped", recording.stderr
    trace = observed(recording)

    loader = next(trace.all(Loader))
    assert (loader.where.path, loader.where.line, loader.where.end_line) == ("train.py", 6, 10)
    values = loader.batch_size.it, loader.workers.it, loader.pin_memory.it, loader.shuffle.it, loader.sampler.it
    assert values == (4, 0, False, True, "none")
    assert next(trace.all(Predicate)).result.unknown
    assert next(trace.all(Switch)).name == "torch.backends.cuda.matmul.allow_tf32"
    assert next(trace.all(Optimizer)).name.it == "AdamW"

    region = next(trace.all(Autocast))
    assert (region.device.it, region.dtype.it, region.enabled.it, region.role) == ("cuda", "float16", True, "")
    assert region.loops == ("train.py:15", "train.py:16")

    order = [(type(event).__name__, getattr(event, "operation", "")) for event in trace.events if event.step == 0]
    cycle = [pair for pair in order if pair[0] in ("Scaler", "Backward", "GradientRead", "Step")]
    assert cycle == [
        ("Scaler", "init"), ("Scaler", "scale"), ("Backward", ""), ("Scaler", "scale"), ("Backward", ""),
        ("Scaler", "unscale"), ("GradientRead", ""), ("Scaler", "step"), ("Step", ""),
    ]  # fmt: skip
    backward = next(trace.all(Backward))
    assert (backward.dtype.it, backward.autocast.it, backward.scaled_by.it) == ("float16", "float16", "scaler#0")
    assert backward.inside_autocast.it is False and backward.device.unknown
    step = next(trace.all(Step))
    assert step.math.likely and not loader.pin_memory.likely
    assert step.math.it == {"float16": 1.0} and step.backwards.it == 2 and step.through_scaler.it is True
    assert next(trace.all(GradientRead)).subject == step.subject == "optimizer#0"
    assert next(trace.all(ZeroGrad)).set_to_none.it is True
    assert trace.versions["torch"].known and "torch" in trace.imported
    assert trace.never(Save).holds is None and trace.never(Evaluation).holds is None

    on_cpu = observed(recording, "cpu")
    assert next(on_cpu.all(Step)).math.it == {"float32": 1.0}
    assert next(on_cpu.all(Predicate)).result.it is False
    assert next(on_cpu.all(Copy)).source.it == "cpu"
    assert next(on_cpu.all(Backward)).device.it == "cpu"


def test_output_exit_code_and_folder_are_as_without_us(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    write(folder, LOOP)
    before = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    recording = record([sys.executable, "train.py"], cwd=folder, steps=0, timeout=120)
    assert recording.outcome.how == "finished"
    assert sorted(path.relative_to(folder) for path in folder.rglob("*")) == before
    plain = subprocess.run([sys.executable, "train.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert (recording.outcome.exit_code, recording.stdout) == (plain.returncode, plain.stdout)
    lines = [line.partition("project/")[2] or line for line in recording.stderr.splitlines()]
    assert lines == [line.partition("project/")[2] or line for line in plain.stderr.splitlines()]


def test_exception_and_exit_event(tmp_path: Path) -> None:
    recording = run(tmp_path, "import torch\n\ndef check():\n    raise ValueError('no GPU')\n\ncheck()\n")
    outcome = recording.outcome
    assert (outcome.how, outcome.exit_code, outcome.path, outcome.line) == ("exception", 1, "train.py", 4)
    assert outcome.detail == "ValueError: no GPU"
    trace = observed(recording)
    assert next(trace.all(Exit)).where.line == 4
    assert trace.never(Step).holds is None


def test_exit_code_is_kept(tmp_path: Path) -> None:
    recording = run(tmp_path, "import sys\nsys.exit(7)\n")
    assert (recording.outcome.how, recording.outcome.exit_code) == ("failed", 7)


@pytest.mark.parametrize("caught", ["BaseException", "SystemExit"])
def test_program_that_swallows_the_exit(tmp_path: Path, caught: str) -> None:
    recording = run(
        tmp_path,
        f"""
        import torch
        weight = torch.nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for i in range(1000):
            try:
                (weight * 2).sum().backward()
                optimizer.step()
            except {caught}:
                print("caught", i)
        """,
        steps=1,
    )
    assert recording.outcome.how == "stopped"
    assert recording.stdout.count("caught") < 10


def test_loader_workers_stay_silent(tmp_path: Path) -> None:
    recording = run(
        tmp_path,
        """
        import torch
        from torch.utils.data import DataLoader, Dataset

        class Data(Dataset):
            def __len__(self):
                return 16
            def __getitem__(self, index):
                return torch.ones(4) @ torch.ones(4, 4).to("cpu")

        if __name__ == "__main__":
            model = torch.nn.Linear(4, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for context in ("fork", "spawn"):
                for batch in DataLoader(Data(), batch_size=4, num_workers=2, multiprocessing_context=context):
                    model(batch).sum().backward()
                    optimizer.step()
            print("end")
        """,
        steps=0,
    )
    assert recording.outcome.how == "finished" and recording.stdout == "end\n", recording.stderr
    main = next(entry.pid for entry in recording.journal.records if entry.k == "torch")
    others = {entry.k for entry in recording.journal.records if entry.pid != main}
    assert others <= {"process", "torch", "exit", "imports"}
    assert [loader.workers.it for loader in observed(recording).all(Loader)][:1] == [2]


def test_killed_run_leaves_a_readable_journal(tmp_path: Path) -> None:
    recording = run(
        tmp_path,
        """
        import os, signal, torch
        weight = torch.nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for i in range(5):
            (weight * 2).sum().backward()
            optimizer.step()
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        steps=0,
    )
    assert recording.outcome.how == "killed" and recording.journal.corrupt == 0
    assert len(list(observed(recording).all(Step))) == 5


def test_time_limit_ends_the_group(tmp_path: Path) -> None:
    recording = run(tmp_path, "import time\ntime.sleep(60)\n", timeout=1.5)
    assert recording.outcome.how == "timeout" and recording.seconds < 30


def test_recorder_that_does_not_load(tmp_path: Path) -> None:
    recording = run(tmp_path, "print('hello')\n", launch=("-E", "-S"))
    assert recording.outcome.how == "not loaded"
    assert record(["no-such-command-here"], cwd=tmp_path).outcome.how == "not started"


def test_two_ranks(tmp_path: Path) -> None:
    recording = run(
        tmp_path,
        """
        import os
        os.environ["NCCL_DEBUG"] = "INFO"
        import torch
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel as DDP

        dist.init_process_group("gloo")
        model = DDP(torch.nn.Linear(4, 1), find_unused_parameters=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in range(50):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if dist.get_rank() == 1:
                torch.save({}, "rank1.pt")
        """,
        launch=("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"),
    )
    assert recording.outcome.how == "stopped", recording.stderr
    trace = observed(recording)
    started = next(trace.all(Launch))
    assert (started.launcher, started.nodes.it, started.processes_per_node.it) == ("torchrun", 1, 2)
    assert started.where.path == COMMAND
    program = [event for event in trace.all(EnvironmentVariable) if event.set_in == "program"]
    assert [(event.name, event.value.it) for event in program] == [("NCCL_DEBUG", "INFO")]
    group = next(trace.all(ProcessGroup))
    assert group.backend.unknown and group.world_size.it == 2
    assert next(observed(recording, "cpu").all(ProcessGroup)).backend.it == "gloo"
    wrap = next(trace.all(Wrap))
    assert (wrap.how.it, wrap.replicated.it, wrap.gradient_bytes.it) == ("ddp", 5, 4.0)
    assert wrap.options["find_unused_parameters"].it is True
    assert len(list(trace.all(Step))) == 2
    assert len(list(trace.all(Save))) == 1  # only rank 1 gets there


def test_spawned_processes(tmp_path: Path) -> None:
    recording = run(
        tmp_path,
        """
        import os
        import torch
        import torch.distributed as dist
        import torch.multiprocessing as mp

        def main(rank):
            os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29533")
            dist.init_process_group("gloo", rank=rank, world_size=2)
            model = torch.nn.Linear(4, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(20):
                model(torch.ones(2, 4)).sum().backward()
                optimizer.step()

        if __name__ == "__main__":
            mp.spawn(main, nprocs=2)
        """,
    )
    assert recording.outcome.how == "stopped", recording.stderr
    assert len(list(observed(recording).all(Step))) == 2


def test_compile_script_and_subclasses_still_work(tmp_path: Path) -> None:
    recording = run(
        tmp_path,
        """
        import inspect
        import torch
        import torch.nn.functional as F

        @torch.compile(backend="eager", fullgraph=True)
        def compiled(x, w):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = F.linear(x, w) @ w
            return y.to(torch.float32).sum() if not torch.cuda.is_available() else y.sum()

        class Sub(torch.Tensor):
            seen = []
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                cls.seen.append(func is F.linear)
                return super().__torch_function__(func, types, args, kwargs or {})

        scripted = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Conv1d(1, 1, 1)))
        x, w = torch.ones(1, 4), torch.ones(4, 4)
        print(float(compiled(x, w)), scripted(x).shape, F.linear(x.as_subclass(Sub), w).shape, Sub.seen[0])
        print(torch.nn.LSTM(4, 4)(torch.ones(2, 4))[0].shape, list(inspect.signature(torch.autocast).parameters)[0])
        print(torch.vmap(lambda a: a @ w)(torch.ones(3, 4)).shape, torch.func.grad(lambda a: (a @ w).sum())(x).shape)

        @torch.autocast("cuda", dtype=torch.float16)
        def forward():
            return (torch.nn.Parameter(w) @ w).sum()

        forward().backward()
        """,
        steps=0,
    )
    assert recording.outcome.how == "finished", recording.stderr
    first, second, third = recording.stdout.splitlines()
    assert first == "64.0 torch.Size([1, 4]) torch.Size([1, 4]) True"
    assert second == "torch.Size([2, 4]) device_type"
    assert third == "torch.Size([3, 4]) torch.Size([1, 4])"
    assert next(observed(recording).all(Backward)).autocast.it == "float16"


def test_links_are_cut_before_they_are_written_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("t4lint.record.sandbox.LARGE", 64)
    for name in ("opened.bin", "saved.pt", "grown.bin", "read.bin"):
        (tmp_path / name).write_bytes(b"x" * 100)
    write(
        tmp_path,
        """
        import os, torch
        print(os.path.islink("read.bin"), len(open("read.bin", "rb").read()))
        open("opened.bin", "wb").write(b"new")
        torch.save({}, "saved.pt")
        with open("grown.bin", "ab") as file:
            file.write(b"new")
        print(os.path.getsize("opened.bin"), os.path.getsize("grown.bin"))
        """,
    )
    recording = record([sys.executable, "train.py"], cwd=tmp_path, limits=Limits(sandbox="copy"))
    assert recording.stdout == "True 100\n3 103\n", recording.stderr
    assert {path.read_bytes() for path in tmp_path.glob("*.bin")} == {b"x" * 100}
    assert (tmp_path / "saved.pt").read_bytes() == b"x" * 100
    assert recording.notes


def test_casts_and_clipping_by_value(tmp_path: Path) -> None:
    recording = run(
        tmp_path,
        """
        import torch
        model = torch.nn.Linear(4, 4)
        model.to("cpu")
        model.to(torch.bfloat16)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(2, 4, dtype=torch.bfloat16)).sum().backward()
        torch.nn.utils.clip_grad_value_(list(model.parameters()), 1.0)
        optimizer.step()
        """,
    )
    trace = observed(recording)
    cast = next(trace.all(Model))
    assert (cast.role, cast.dtype.it, cast.where.line, cast.parameters.it) == ("cast", "bfloat16", 4, 20)
    assert next(trace.all(GradientRead)).subject == "optimizer#0"
    assert next(trace.all(Step)).math.it == {"bfloat16": 1.0}
    assert next(trace.all(Backward)).scaled_by.it == "none"


def test_what_the_program_picks_by_asking_is_unknown_for_a_gpu(tmp_path: Path) -> None:
    recording = run(
        tmp_path,
        """
        import torch
        from torch.utils.data import DataLoader
        cuda = torch.cuda.is_available()
        scaler = torch.amp.GradScaler(enabled=cuda)
        DataLoader([1], pin_memory=cuda)
        DataLoader([1], pin_memory=False)
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in range(9):
            with torch.autocast("cuda", dtype=torch.float16, enabled=cuda):
                loss = model(torch.ones(2, 4)).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        """,
    )
    trace = observed(recording)
    assert [loader.pin_memory.known for loader in trace.all(Loader)] == [False, True]
    region, backward, step = next(trace.all(Autocast)), next(trace.all(Backward)), next(trace.all(Step))
    assert region.dtype.it == "float16" and region.enabled.unknown
    assert backward.scaled_by.unknown and backward.autocast.unknown and step.math.unknown
    assert all(call.enabled.unknown for call in trace.all(Scaler))
    assert next(observed(recording, "cpu").all(Step)).math.it == {"float32": 1.0}


def test_a_question_about_bf16_hides_the_dtype(tmp_path: Path) -> None:
    recording = run(
        tmp_path,
        """
        import torch
        dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
        context = torch.autocast("cuda", dtype=dtype)
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in range(9):
            with context:
                model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
        """,
    )
    trace = observed(recording)
    assert next(trace.all(Autocast)).dtype.unknown and next(trace.all(Step)).math.unknown
    assert next(observed(recording, "cpu").all(Autocast)).dtype.it == "float16"


TINY = """
    import torch
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 64
        def __getitem__(self, index):
            return {"input_ids": torch.arange(8), "labels": torch.tensor(index % 2)}

    config = BertConfig(
        vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
    )
    model = BertForSequenceClassification(config)
"""


def test_trainer(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    recording = run(
        tmp_path,
        TINY
        + """
    args = TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        bf16=True,
        use_cpu=True,
        report_to=[],
    )
    trainer = Trainer(model=model, args=args, train_dataset=Data(), eval_dataset=Data())
    trainer.train()
""",
    )
    assert recording.outcome.how == "stopped", recording.stderr
    trace = observed(recording)
    engine = next(trace.all(Engine))
    assert (engine.role, engine.where.line, engine.where.end_line) == ("TrainingArguments", 15, 22)
    assert (engine.mixed_precision.it, engine.micro_batch.it, engine.accumulation.it) == ("bf16", 4, 2)
    assert engine.tf32.it is None and engine.pin_memory.it is False
    call = next(trace.all(Call))
    assert call.function == "transformers.TrainingArguments"
    assert set(call.arguments) == {
        "output_dir", "per_device_train_batch_size", "gradient_accumulation_steps", "bf16", "use_cpu", "report_to",
    }  # fmt: skip
    assert len(list(trace.all(Engine))) == 1
    loaders = list(trace.all(Loader))
    assert [(loader.role, loader.where.line, loader.batch_size.it) for loader in loaders] == [("train", 24, 4)]
    region = next(trace.all(Autocast))
    assert (region.role, region.dtype.it, region.where.line) == ("engine", "bfloat16", 24)
    step = next(trace.all(Step))
    assert (step.engine, step.where.line, step.backwards.it) == ("Trainer", 24, 2)
    assert step.math.it["bfloat16"] > 0.9
    assert next(trace.all(Backward)).autocast.it == "bfloat16"
    assert not (tmp_path / "out").exists()


def test_training_arguments_that_raise(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    recording = run(
        tmp_path,
        """
        from dataclasses import dataclass
        from transformers import TrainingArguments

        @dataclass
        class Mine(TrainingArguments):
            extra: int = 3

        args = Mine(output_dir="out", tf32=True)
        """,
    )
    assert recording.outcome.how == "exception" and recording.outcome.line == 8
    trace = observed(recording)
    call = next(trace.all(Call))
    assert call.function == "transformers.TrainingArguments" and call.arguments["tf32"].it is True
    assert call.raises.it.startswith("ValueError: --tf32 requires")
    assert next(trace.all(Engine)).tf32.it is True
    assert call.role == "TrainingArguments" and not list(trace.all(Exit))


def test_what_is_asked_of_a_load_and_of_trl_is_seen_also_when_it_fails(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    recording = run(
        tmp_path,
        """
        import torch
        from transformers import AutoModelForCausalLM
        from trl import SFTConfig
        try:
            AutoModelForCausalLM.from_pretrained(
                "no/such", dtype=torch.bfloat16, attn_implementation="flash_attention_2")
        except OSError:
            SFTConfig(output_dir="out")
        """,
    )
    trace = observed(recording)
    load, attention, engine = next(trace.all(Model)), next(trace.all(Attention)), next(trace.all(Engine))
    assert (load.role, load.requested_dtype.it, load.name.it, load.dtype.known) == (
        "load",
        "bfloat16",
        "no/such",
        False,
    )
    assert (attention.role, attention.implementation.it) == ("config", "flash_attention_2")
    assert (engine.role, engine.mixed_precision.it) == ("SFTConfig", "bf16")
    assert engine.mixed_precision.origins[0].how == "default"
    assert not list(trace.all(Switch)) and not list(trace.all(Compile))


def test_accelerator_and_pretrained(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    recording = run(
        tmp_path,
        TINY
        + """
    from accelerate import Accelerator
    model.save_pretrained("saved")
    model = BertForSequenceClassification.from_pretrained("saved", dtype=torch.float32)
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
    optimizer = torch.optim.AdamW(model.parameters())
    loader = torch.utils.data.DataLoader(Data(), batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
""",
    )
    assert recording.outcome.how == "stopped", recording.stderr
    trace = observed(recording)
    load = next(trace.all(Model))
    assert (load.role, load.requested_dtype.it, load.dtype.it) == ("load", "float32", "float32")
    assert (load.name.it, load.quantization.it, load.attention.it) == ("saved", "none", "sdpa")
    engine = next(trace.all(Engine))
    assert (engine.role, engine.mixed_precision.it, engine.accumulation.it) == ("Accelerator", "bf16", 2)
    assert len(list(trace.all(Loader))) == 1
    region = next(trace.all(Autocast))
    assert (region.role, region.where.line) == ("engine", 24)
    step = next(trace.all(Step))
    assert (step.engine, step.where.line, step.backwards.it) == ("Accelerator", 26, 2)
    assert next(trace.all(Backward)).engine == "Accelerator"


def test_verify_joins_both_witnesses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`verify` with a stand-in for the engine: one finding that holds, one that the run refutes, one that it adds."""

    def check(trace: Trace) -> Iterator[Candidate]:
        for loader in trace.all(Loader):
            yield Candidate(loader, when=loader.pin_memory.equals(False))

    rule = Rule("pin", "data", "warning", "", "", "", (), (Loader,), check, "")

    def finding(line: int) -> Finding:
        where = Location("train.py", line, 1, line, 30)
        return Finding("pin", "warning", "certain", where, "", "", keys=(Key("Loader", "", "train.py", line, line),))

    predicted = Report("t4", (finding(2), finding(3), finding(6)), (), (), 1)
    monkeypatch.setattr("t4lint.verify.predict", lambda argv, options: predicted)
    monkeypatch.setattr("t4lint.engine.options.select", lambda *names: (rule,))
    write(
        tmp_path,
        """
        from torch.utils.data import DataLoader
        DataLoader([1], pin_memory=False)
        DataLoader([1], pin_memory=True)
        DataLoader([1])
        raise RuntimeError("no data")
        DataLoader([1])
        """,
    )
    options = engine.Options(cwd=tmp_path)
    report = verify([sys.executable, "train.py"], options=options, device="auto", steps=2, timeout=60)
    verdicts = [(one.location.line, one.verdict.verdict if one.verdict else "") for one in report.findings]
    assert verdicts == [(2, "confirmed"), (3, "refuted"), (6, "not exercised"), (4, "confirmed")]
    last = report.findings[2].verdict
    assert last is not None and last.reason == "the run ended before: RuntimeError: no data (train.py:5)"
    assert [problem.line for problem in report.problems] == [5] and report.runs[0].exit_code == 1


def test_a_loader_that_refuses_its_options_confirms_what_was_predicted(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        from torch.utils.data import DataLoader
        for batch in DataLoader([1, 2], batch_size=2, prefetch_factor=2):
            pass
        """,
    )
    options = engine.Options(cwd=tmp_path, select=("worker-options-without-workers",))
    report = verify([sys.executable, "train.py"], options=options, device="auto", steps=2, timeout=60)
    assert [one.verdict.verdict for one in report.findings if one.verdict] == ["confirmed"]


def test_inside_imports_nothing_of_ours() -> None:
    """It runs under the user's interpreter: standard library only, torch through `sys.modules`."""
    for path in (Path(launch.__file__).parent / "inside").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            assert all(name.partition(".")[0] in sys.stdlib_module_names for name in names), path


# --- without running anything ------------------------------------------------------------------------------------


def test_environment_is_scrubbed(tmp_path: Path) -> None:
    secrets = ["HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "OPENAI_API_KEY", "DB_PASSWORD"]
    kept = ["PATH", "TOKENIZERS_PARALLELISM", "NCCL_DEBUG", "HF_HOME", "CUDA_VISIBLE_DEVICES", "KEYBOARD"]
    assert all(map(is_secret, secrets)) and not any(map(is_secret, kept))
    given = dict.fromkeys([*secrets, *kept], "1") | {"PYTHONPATH": f"{tmp_path}/lib:/elsewhere"}
    child = child_environment(given, tmp_path, Path("/copy"))
    assert not set(secrets) & set(child) and set(kept) <= set(child)
    assert child["WANDB_MODE"] == "offline" and child["HF_HUB_OFFLINE"] == "1"
    assert child["PYTHONPATH"].split(":")[1:] == ["/copy/lib", "/elsewhere"]


def test_project_root(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert project_root(inner, ["python", "x.py"]) == tmp_path
