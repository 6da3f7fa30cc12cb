"""DeepSpeed, the real one: what is recorded of its engine, by hand, in the Trainer and on the phantom."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from t4lint.devices import find_target
from t4lint.record.launch import Limits, Recording, record
from t4lint.record.observe import trace_of
from t4lint.ruleset import rules
from t4lint.trace import Backward, Call, Engine, Step, Trace, Wrap

pytestmark = pytest.mark.heavy
RELEASE = "deepspeed==0.19.8"
T4 = find_target("t4")
# One process without a launcher; on a CPU, DeepSpeed would first compile an operation for shared memory, for minutes
ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
NO_COMPILER = 'deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False'


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter with DeepSpeed beside what is installed here: with it in this one, other libraries would import it too."""
    pytest.importorskip("torch")
    if importlib.util.find_spec("deepspeed") is not None:
        return sys.executable
    folder = tmp_path_factory.mktemp("deepspeed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    made = folder / "bin" / "python"
    purelib = subprocess.run(
        [str(made), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    Path(purelib, "here.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    install = [sys.executable, "-m", "pip", "--python", str(made), "install", "-q", "--no-build-isolation", RELEASE]
    done = subprocess.run(install, env={**os.environ, "DS_BUILD_OPS": "0"}, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{RELEASE} cannot be installed here: {done.stderr.strip().splitlines()[-1:]}")
    return str(made)


def run(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    python: str,
    script: str,
    device: str,
    steps: int = 2,
    launch: Sequence[str] = (),
) -> tuple[Recording, Trace]:
    for name, value in {**ALONE, "MASTER_PORT": str(20000 + os.getpid() % 20000)}.items():
        monkeypatch.setenv(name, value)
    if device == "cpu":
        monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    (folder / "train.py").write_text(textwrap.dedent(script).lstrip("\n"), encoding="utf-8")
    limits = Limits(device=device)  # type: ignore[arg-type]
    done = record([python, *launch, "train.py"], cwd=folder, steps=steps, timeout=900, limits=limits, gpu=T4.gpu)
    assert done.outcome.how == "stopped", (done.outcome, done.stderr[-3000:])
    assert not [it for it in done.journal.records if it.k == "trouble"], [
        it.d for it in done.journal.records if it.k == "trouble"
    ]
    return done, trace_of(done, T4)


def known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.it for name, value in values.items()}


BY_HAND = f"""
    import deepspeed
    import torch

    {NO_COMPILER}
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    config = {{
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 2,
        "optimizer": {{"type": "Adam", "params": {{"lr": 1e-3, "torch_adam": True}}}},
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": {{"stage": STAGE, "reduce_bucket_size": 1000}},
        "DTYPE": {{"enabled": True}},
    }}
    groups = [{{"params": model[0].parameters()}}, {{"params": model[2].parameters(), "weight_decay": 0.1}}]
    engine, optimizer, _, _ = deepspeed.initialize(model=model, model_parameters=groups, config=config)
    dtype = next(engine.module.parameters()).dtype
    for index in range(100):
        x = torch.randn(2, 16, device=engine.device, dtype=dtype)
        loss = engine(x).float().pow(2).mean()
        engine.backward(loss)
        engine.step()
    raise SystemExit("not stopped")
"""
PARAMETERS = 16 * 32 + 32 + 32 * 4 + 4


def by_hand(stage: int, dtype: str) -> str:
    return BY_HAND.replace("STAGE", str(stage)).replace("DTYPE", dtype)


def test_an_engine_by_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, python: str) -> None:
    _, trace = run(monkeypatch, tmp_path, python, by_hand(1, "bf16"), "cpu")
    (engine,) = tuple(trace.all(Engine))
    assert (engine.role, engine.where.line) == ("DeepSpeed", 15)
    assert (engine.mixed_precision.it, engine.micro_batch.it, engine.accumulation.it) == ("bf16", 2, 2)
    assert (engine.sharding.it, engine.optimizer.it) == ("zero1", "AdamW")
    (wrap,) = trace.all(Wrap)
    assert (wrap.how.it, wrap.role, wrap.where.line) == ("zero1", "engine", 15)
    options = known(wrap.options)
    assert (options["reduce_bucket_size"], options["contiguous_gradients"], options["overlap_comm"]) == (
        1000,
        True,
        False,
    )
    assert (options["offload_optimizer"], options["train_batch_size"], options["by_trainer"]) == ("none", 4, False)
    (call,) = [it for it in trace.all(Call) if it.function == "deepspeed.initialize"]
    assert known(call.arguments) == {"precision_block": True}
    steps = tuple(trace.all(Step))
    assert [(it.step, it.backwards.it, it.parameters.it) for it in steps] == [(0, 2, PARAMETERS), (1, 2, PARAMETERS)]
    assert {it.engine for it in steps} == {"DeepSpeed"}
    backwards = tuple(trace.all(Backward))
    assert [it.step for it in backwards] == [0, 0, 1, 1]
    assert {(it.divided_by.it, it.engine_divides.it, it.scaled_by.it) for it in backwards} == {(1, 2, "none")}
    assert spoken(trace) >= {"bf16-mixed-precision", "zero-on-one-gpu"}
    assert not {"accumulation-loss-not-divided", "pure-fp16-training"} & spoken(trace)


def test_on_the_phantom_with_its_own_loss_scaling_and_kernels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, python: str
) -> None:
    script = by_hand(2, "fp16").replace(', "torch_adam": True', "").replace(NO_COMPILER, "")
    done, trace = run(monkeypatch, tmp_path, python, script, "phantom")
    steps = tuple(trace.all(Step))
    assert [(it.backwards.it, it.parameters.it, it.through_scaler.it) for it in steps] == [(2, PARAMETERS, True)] * 2
    assert {str(it.device.it) for it in steps} == {"cuda"}
    backwards = tuple(trace.all(Backward))
    assert {(it.divided_by.it, it.engine_divides.it, it.scaled_by.it) for it in backwards} == {(1, 2, "DeepSpeed")}
    (engine,) = tuple(trace.all(Engine))
    assert (engine.mixed_precision.it, engine.sharding.it, engine.optimizer.it) == ("fp16", "zero2", "FusedAdam")
    assert [it.d["components"]["optimizer"] for it in done.journal.records if it.k == "held"][-1] >= 8 * PARAMETERS
    assert not {"pure-fp16-training", "gradscaler-bypassed", "autocast-without-gradscaler"} & spoken(trace)


TRAINER = f"""
    import deepspeed
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    {NO_COMPILER}
    config = {{
        "zero_optimization": {{"stage": 2, "reduce_bucket_size": "auto"}},
        "zero_force_ds_cpu_optimizer": False,
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
    }}
    arguments = TrainingArguments(
        "out",
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        max_steps=50,
        use_cpu=True,
        deepspeed=config,
        report_to="none",
    )
    data = [{{"input_ids": torch.arange(16), "labels": torch.arange(16)}} for _ in range(64)]
    model = GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=64, n_positions=32))
    trainer = Trainer(model=model, args=arguments, train_dataset=data)
    trainer.train()
    raise SystemExit("not stopped")
"""


def test_auto_as_the_trainer_fills_it_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, python: str) -> None:
    pytest.importorskip("transformers")
    _, trace = run(monkeypatch, tmp_path, python, TRAINER, "cpu")
    engines = {it.role: it for it in trace.all(Engine)}
    engine = engines["DeepSpeed"]
    assert engine.where == engines["TrainingArguments"].where, "configured there, and made in train()"
    assert (engine.mixed_precision.it, engine.micro_batch.it, engine.accumulation.it) == ("no", 2, 2)
    (wrap,) = trace.all(Wrap)
    assert (wrap.how.it, wrap.where) == ("zero2", engine.where)
    assert (wrap.options["by_trainer"].it, wrap.options["reduce_bucket_size"].it) == (True, 32 * 32)
    steps = tuple(trace.all(Step))
    assert [(it.step, it.backwards.it, it.engine) for it in steps] == [(0, 2, "Trainer"), (1, 2, "Trainer")]
    assert spoken(trace) >= {"zero-on-one-gpu"}


def spoken(trace: Trace) -> set[str]:
    """The rules of which something holds for certain."""
    return {rule.name for rule in rules() if any(it.when.holds for it in rule.judge(trace))}


TWO = ("-m", "torch.distributed.run", "--nproc_per_node", "2")


@pytest.mark.parametrize("stage", [2, 3])
def test_two_ranks_that_share_and_keep_the_optimizer_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, python: str, stage: int
) -> None:
    """Real gradients over gloo. The optimizer is torch's: DeepSpeed's own for offloading is compiled first, for minutes."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    offload = '"reduce_bucket_size": 1000, "offload_optimizer": {"device": "cpu"}'
    script = by_hand(stage, "bf16").replace('"reduce_bucket_size": 1000', offload)
    done, trace = run(monkeypatch, tmp_path, python, script, "cpu", launch=TWO)
    assert {entry.rank for entry in done.journal.records if entry.k == "step"} == {0, 1}
    assert done.outcome.exit_code == 0
    (wrap,) = trace.all(Wrap)
    options = known(wrap.options)
    assert (wrap.how.it, options["offload_optimizer"], options["offload_param"]) == (f"zero{stage}", "cpu", "none")
    assert options["train_batch_size"] == 2 * 2 * 2, "the micro-batch, the accumulation and the ranks"
    assert [(it.step, it.backwards.it) for it in trace.all(Step)] == [(0, 2), (1, 2)]
    assert "zero-on-one-gpu" not in spoken(trace)


PIPELINE = f"""
    import deepspeed
    import torch
    from deepspeed.pipe import LayerSpec, PipelineModule

    {NO_COMPILER}
    deepspeed.init_distributed("gloo")
    layers = [LayerSpec(torch.nn.Linear, 16, 32), LayerSpec(torch.nn.ReLU), LayerSpec(torch.nn.Linear, 32, 4)]
    model = PipelineModule(layers, num_stages=2, loss_fn=torch.nn.MSELoss(), partition_method="uniform")
    config = {{
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 3,
        "optimizer": {{"type": "Adam", "params": {{"lr": 1e-3, "torch_adam": True}}}},
    }}
    data = torch.utils.data.TensorDataset(torch.randn(256, 16), torch.randn(256, 4))
    engine, _, _, _ = deepspeed.initialize(
        model=model, model_parameters=list(model.parameters()), config=config, training_data=data
    )
    for _ in range(20):
        engine.train_batch()
    raise SystemExit("not stopped")
"""


def test_a_pipeline_of_two_ranks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, python: str) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    done, trace = run(monkeypatch, tmp_path, python, PIPELINE, "cpu", launch=TWO)
    assert {entry.rank for entry in done.journal.records if entry.k == "step"} == {0, 1}
    engine = next(iter(trace.all(Engine)))
    assert (engine.role, engine.mixed_precision.it, engine.accumulation.it) == ("DeepSpeed", "no", 3)
    assert engine.sharding.it == "none" and engine.where.line == 15
    steps = tuple(trace.all(Step))
    assert [(it.step, it.backwards.it) for it in steps] == [(0, 3), (1, 3)]
    assert {it.where.line for it in steps} == {19}
    assert "deepspeed-precision-unset" in spoken(trace)
