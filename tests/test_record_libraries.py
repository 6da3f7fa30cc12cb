"""What is recorded of libraries beside torch and transformers: the real ones, each in a program of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from t4lint.devices import find_target
from t4lint.record.launch import Recording, record
from t4lint.record.observe import trace_of
from t4lint.ruleset import rules
from t4lint.trace import Call, Engine, Step, Trace

pytestmark = pytest.mark.heavy
pytest.importorskip("torch")
TORCHAO = "torchao==0.18.0"
T4 = find_target("t4")


def run(folder: Path, text: str, path: Path | None = None, steps: int = 2) -> tuple[Recording, Trace]:
    (folder / "train.py").write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **({"PYTHONPATH": str(path)} if path else {})}
    done = record([sys.executable, "train.py"], cwd=folder, steps=steps, timeout=300, environment=environment)
    assert done.outcome.how in ("finished", "stopped"), (done.outcome, done.stderr[-3000:])
    assert not [entry.d for entry in done.journal.records if entry.k == "trouble"]
    return done, trace_of(done, T4)


def calls(trace: Trace) -> dict[str, list[tuple[int, dict[str, Any]]]]:
    """Of each function: the lines where it was called, with the arguments that are known."""
    found: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for call in trace.all(Call):
        known = {name: value.it for name, value in call.arguments.items() if value.known}
        found.setdefault(call.function, []).append((call.where.line, known))
    return found


def spoken(trace: Trace) -> set[str]:
    """The rules of which something holds for certain."""
    return {rule.name for rule in rules() if any(it.when.holds for it in rule.judge(trace))}


@pytest.fixture(scope="module")
def torchao(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with torchao: installed beside transformers and PEFT, these would import it in each other test as well."""
    folder = tmp_path_factory.mktemp("torchao")
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), TORCHAO]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{TORCHAO} cannot be installed here: {done.stderr.strip().splitlines()[-1:]}")
    return folder


def test_weights_that_torchao_quantizes_and_layers_that_it_turns_into_float8(tmp_path: Path, torchao: Path) -> None:
    _, trace = run(
        tmp_path,
        """
        import torch
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training
        from torchao.quantization import Int8WeightOnlyConfig, quantize_

        served = torch.nn.Sequential(torch.nn.Linear(32, 32))
        quantize_(served, Int8WeightOnlyConfig())
        served(torch.randn(16, 32))
        emulated = convert_to_float8_training(
            torch.nn.Sequential(torch.nn.Linear(32, 32)), config=Float8LinearConfig(emulate=True)
        )
        optimizer = torch.optim.SGD(emulated.parameters(), lr=0.1)
        for _ in range(20):
            emulated(torch.randn(16, 32)).sum().backward()
            optimizer.step()
        """,
        torchao,
    )
    found = calls(trace)
    assert found["torchao.quantization.quantize_"] == [(6, {"config": "Int8WeightOnlyConfig"})]
    assert found["torchao.float8.convert_to_float8_training"] == [(8, {"emulate": True})]
    assert len(tuple(trace.all(Step))) == 2
    assert not {"torchao-float8", "torchao-int4"} & spoken(trace), "int8 and emulation work on a T4"


def test_float8_and_int4_as_a_t4_would_refuse_them(tmp_path: Path, torchao: Path) -> None:
    """The calls are seen also where this machine cannot carry them out."""
    _, trace = run(
        tmp_path,
        """
        import torch
        from torchao.float8 import convert_to_float8_training
        from torchao.quantization import Int4WeightOnlyConfig, quantize_

        try:
            quantize_(torch.nn.Sequential(torch.nn.Linear(256, 256)).bfloat16(), Int4WeightOnlyConfig())
        except Exception as error:
            print(type(error).__name__)
        convert_to_float8_training(torch.nn.Sequential(torch.nn.Linear(32, 32)))
        """,
        torchao,
    )
    found = calls(trace)
    assert found["torchao.quantization.quantize_"] == [(6, {"config": "Int4WeightOnlyConfig"})]
    assert found["torchao.float8.convert_to_float8_training"] == [(9, {"emulate": False})]
    assert {"torchao-float8", "torchao-int4"} <= spoken(trace)


LIGHTNING = """
    import lightning as L
    import torch
    from torch.utils.data import DataLoader, TensorDataset


    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def training_step(self, batch, index):
            return self.layer(batch[0]).pow(2).mean()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())


    data = TensorDataset(torch.randn(64, 8))
    quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer = L.Trainer(
        accelerator="cpu", devices=1, precision="bf16-mixed", accumulate_grad_batches=2, gradient_clip_val=0.5, **quiet
    )
    trainer.fit(Module(), DataLoader(data, batch_size=4))
    raise SystemExit("not stopped")
"""


def test_lightnings_trainer(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    done, trace = run(tmp_path, LIGHTNING)
    assert done.outcome.how == "stopped"
    (engine,) = trace.all(Engine)
    assert (engine.role, engine.where.line) == ("Trainer", 20)
    assert (engine.mixed_precision.it, engine.accumulation.it) == ("bf16", 2)
    ((line, arguments),) = calls(trace)["lightning.pytorch.Trainer"]
    assert (line, arguments["precision"], arguments["gradient_clip_val"]) == (20, "bf16", 0.5)
    steps = tuple(trace.all(Step))
    assert [step.backwards.it for step in steps] == [2, 2], "the last of them runs inside of the optimizer's step"
    assert steps[0].math.known
    assert "bf16-mixed-precision" in spoken(trace)


def test_lightnings_fabric_and_what_its_trainer_refuses(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    _, trace = run(
        tmp_path,
        """
        import lightning as L
        import torch

        try:
            L.Trainer(gpus=1)
        except TypeError as error:
            print(error)
        fabric = L.Fabric(accelerator="cpu", devices=1, precision="32-true")
        model = torch.nn.Linear(8, 1)
        model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for _ in range(20):
            fabric.backward(model(torch.randn(4, 8)).sum())
            optimizer.step()
            optimizer.zero_grad()
        """,
    )
    engines = {(engine.role, engine.where.line): engine for engine in trace.all(Engine)}
    assert engines["Fabric", 8].mixed_precision.it == "no"
    refused = next(call for call in trace.all(Call) if call.function == "lightning.pytorch.Trainer")
    assert refused.where.line == 5 and refused.arguments["gpus"].it == 1
    assert "gpus" in str(refused.raises.it)
    assert len(tuple(trace.all(Step))) == 2


def test_spawned_processes_are_seen_with_the_call_that_starts_them(tmp_path: Path) -> None:
    done, trace = run(
        tmp_path,
        """
        import torch
        import torch.multiprocessing as mp


        def work(rank, width):
            model = torch.nn.Linear(width, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(20):
                model(torch.ones(2, width)).sum().backward()
                optimizer.step()


        if __name__ == "__main__":
            mp.spawn(work, args=(4,), nprocs=2)
        """,
    )
    assert done.outcome.how == "stopped"
    assert calls(trace)["torch.multiprocessing.spawn"] == [(14, {"nprocs": 2})]
    trained = {entry.pid for entry in done.journal.records if entry.k == "step"}
    assert len(trained) == 2
    assert [it.step for it in trace.all(Step)] == [0, 1, 0, 1], "without a process group there are no ranks to merge"
