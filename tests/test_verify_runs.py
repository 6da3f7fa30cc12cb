"""`t4lint verify` under each way to start a program, from the command line to the verdicts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.heavy
pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[1]
CLIPPING, PINNING, GUARD = "gradient-clipping-before-unscale", "pin-memory-disabled", "bf16-guard-always-true"

CORE = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset


    def train():
        data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
        model = WRAP(nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        for x, y in DataLoader(data, batch_size=4):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = nn.functional.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""
CLIPPED_AT = 15


def core(wrap: str = "") -> str:
    return textwrap.dedent(CORE).lstrip("\n").replace("WRAP", wrap)


def verified(folder: Path, *command: str, **flags: str) -> dict[str, Any]:
    """The JSON report. Keyword arguments are flags of verify."""
    given = [word for name, value in flags.items() for word in (f"--{name.replace('_', '-')}", value)]
    dashes = [] if command[0].endswith(".ipynb") else ["--"]
    called = [sys.executable, "-m", "t4lint", "verify", "--output-format", "json", *given, *dashes, *command]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(called, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, 1), done.stderr + done.stdout
    report: dict[str, Any] = json.loads(done.stdout)
    report["said"] = done.stderr
    return report


def verdicts(report: dict[str, Any], *rules: str) -> dict[tuple[str, str, int], str]:
    return {
        (found["rule"], found["path"], found["cell_line"] or found["line"]): found["verdict"]["verdict"]
        for found in report["findings"]
        if found["rule"] in rules
    }


def test_the_example_has_all_four() -> None:
    report = verified(ROOT / "examples", sys.executable, "verify_me.py")
    assert [(found["rule"], found["verdict"]["verdict"]) for found in report["findings"]] == [
        (PINNING, "confirmed"),
        (GUARD, "undecided"),
        (CLIPPING, "refuted"),
        (PINNING, "not exercised"),
    ]
    assert report["findings"][0]["verdict"]["evidence"].startswith("pin_memory=False")
    said = report["said"]
    assert said.startswith("verify runs your command: ")
    assert [line.split()[0] for line in said.splitlines()[1:6]] == ["project", "network", "limits", "running", "ended"]
    assert "\r" not in said and "stopped after 3 optimizer steps" in said


RUN = "torch.distributed.run"
LAUNCH = "accelerate.commands.launch"
ANOMALY = "anomaly-detection-left-on"


@pytest.mark.parametrize(
    ("needs", "command", "refuted"),
    [
        ("torch", ("-m", RUN, "--nproc_per_node", "2", "verify_ddp.py"), CLIPPING),
        ("transformers", ("verify_trainer.py",), ANOMALY),
        ("lightning", ("verify_lightning.py",), ANOMALY),
        ("accelerate", ("-m", LAUNCH, "--cpu", "--num_processes", "1", "verify_accelerate.py"), ANOMALY),
        ("torch", ("verify_me.ipynb",), CLIPPING),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else "",
)
def test_the_other_examples_have_all_four_too(needs: str, command: tuple[str, ...], refuted: str) -> None:
    pytest.importorskip(needs)
    before = sorted(path.name for path in (ROOT / "examples").iterdir())
    notebook = command[-1].endswith(".ipynb")
    report = verified(ROOT / "examples", *(command if notebook else (sys.executable, *command)))
    found = {(one["rule"], one["verdict"]["verdict"]) for one in report["findings"] if one["verdict"]["basis"] == "cpu"}
    assert found == {
        (PINNING, "confirmed"),
        (GUARD, "undecided"),
        (refuted, "refuted"),
        (PINNING, "not exercised"),
    }
    assert len(report["findings"]) == 4 and "stopped after 3 optimizer steps" in report["said"]
    assert report["runs"][0]["processes"] == (2 if RUN in command else 1)
    assert sorted(path.name for path in (ROOT / "examples").iterdir()) == before


def test_script_and_module(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "core.py").write_text(core())
    (tmp_path / "pkg" / "__main__.py").write_text("from pkg.core import train\n\ntrain()\n")
    report = verified(tmp_path, sys.executable, "-m", "pkg")
    assert verdicts(report, CLIPPING) == {(CLIPPING, "pkg/core.py", CLIPPED_AT): "confirmed"}
    assert verdicts(report, PINNING) == {}  # a default that nobody wrote
    (clipping,) = [it for it in report["findings"] if it["rule"] == CLIPPING]
    assert "seen only in the run" not in clipping["verdict"]["evidence"]


def test_pytest(tmp_path: Path) -> None:
    pytest.importorskip("pytest")
    (tmp_path / "test_train.py").write_text(core() + "\n\ndef test_train():\n    train()\n")
    report = verified(tmp_path, sys.executable, "-m", "pytest", "-q", "test_train.py")
    assert verdicts(report, CLIPPING) == {(CLIPPING, "test_train.py", CLIPPED_AT): "confirmed"}


def test_torchrun(tmp_path: Path) -> None:
    text = core("nn.parallel.DistributedDataParallel").replace("def train():\n", 'def train():\n    setup("gloo")\n')
    text = "from torch.distributed import init_process_group as setup\n" + text + "\n\ntrain()\n"
    (tmp_path / "train.py").write_text(text)
    report = verified(tmp_path, sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "train.py")
    assert verdicts(report, CLIPPING) == {(CLIPPING, "train.py", CLIPPED_AT + 2): "confirmed"}
    assert report["runs"][0]["processes"] == 2 and report["runs"][0]["exit_code"] == 0


ACCELERATE = """
    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader, TensorDataset

    accelerator = Accelerator(mixed_precision="bf16", cpu=True)
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(data, batch_size=4, pin_memory=False)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize("launched", [False, True])
def test_accelerate(tmp_path: Path, launched: bool) -> None:
    pytest.importorskip("accelerate")
    (tmp_path / "train.py").write_text(textwrap.dedent(ACCELERATE).lstrip("\n"))
    launcher = ["-m", "accelerate.commands.launch", "--num_processes", "1", "--cpu"] if launched else []
    report = verified(tmp_path, sys.executable, *launcher, "train.py", extend_select="all")
    assert verdicts(report, "bf16-mixed-precision") == {("bf16-mixed-precision", "train.py", 5): "confirmed"}
    assert report["runs"][0]["exit_code"] == 0


TRAINER = """
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    rows = [{"input_ids": torch.arange(8), "labels": torch.arange(8)} for _ in range(32)]
    config = GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=32, n_positions=16)
    arguments = TrainingArguments(
        "out",
        bf16=True,
        use_cpu=True,
        per_device_train_batch_size=4,
        dataloader_pin_memory=False,
        report_to=[],
    )
    Trainer(GPT2LMHeadModel(config), arguments, train_dataset=rows).train()
"""


def test_trainer(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "train.py").write_text(textwrap.dedent(TRAINER).lstrip("\n"))
    report = verified(tmp_path, sys.executable, "train.py")
    found = {found["rule"]: found["verdict"]["verdict"] for found in report["findings"]}
    assert found.get("bf16-mixed-precision") == "confirmed", found
    assert not (tmp_path / "out").exists()


LIGHTNING = """
    import lightning as L
    import torch
    from torch.utils.data import DataLoader, TensorDataset


    class Model(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, index):
            x, y = batch
            return torch.nn.functional.mse_loss(self.layer(x), y)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())


    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    loader = DataLoader(data, batch_size=4, pin_memory=False)
    trainer = L.Trainer(max_epochs=1, accelerator="cpu", precision="bf16-mixed", logger=False, enable_progress_bar=False)
    trainer.fit(Model(), loader)
"""


def test_lightning(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    (tmp_path / "train.py").write_text(textwrap.dedent(LIGHTNING).lstrip("\n"))
    report = verified(tmp_path, sys.executable, "train.py")
    assert report["runs"][0]["exit_code"] == 0
    assert "stopped after 3 optimizer steps" in report["said"]
    assert {found["rule"]: found["verdict"]["verdict"] for found in report["findings"]}.get(PINNING) != "refuted"


def notebook(*cells: str) -> str:
    code = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": cell.splitlines(True)}
        for cell in cells
    ]
    return json.dumps({"cells": code, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def test_notebook(tmp_path: Path) -> None:
    first = "!pip install something\n%matplotlib inline\nfiles = !ls\n" + core()
    text = notebook(first, "%%time\ndisplay(get_ipython())\ntrain()\n", "%%bash\nrm -rf /tmp/nothing-of-yours\n")
    (tmp_path / "train.ipynb").write_text(text)
    report = verified(tmp_path, "train.ipynb")
    assert verdicts(report, CLIPPING) == {(CLIPPING, "train.ipynb", CLIPPED_AT + 3): "confirmed"}
    found = next(found for found in report["findings"] if found["rule"] == CLIPPING)
    assert found["cell"] == 0
    assert "clip_grad_norm_" in text.splitlines()[found["line"] - 1]
    assert [path.name for path in tmp_path.iterdir()] == ["train.ipynb"]


def test_an_exception_in_a_notebook_names_the_cell(tmp_path: Path) -> None:
    text = notebook("import torch\n", "a = 1\nraise ValueError('stop')\n")
    (tmp_path / "train.ipynb").write_text(text)
    called = [sys.executable, "-m", "t4lint", "verify", "train.ipynb"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        called, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 2
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "raise" in line)
    assert f"ValueError: stop (cell 2, line 2) at train.ipynb:{line}" in done.stderr
    assert "  | ValueError: stop" in done.stderr.splitlines()


@pytest.mark.parametrize(("argument", "code"), [("tf32=True", 1), ("fp16=print(1 / 0)", 2)])
def test_an_exception_that_an_error_foretold_is_a_finding_and_no_failure(
    argument: str, code: int, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(
        f"from transformers import TrainingArguments\nTrainingArguments('out', {argument})\n"
    )
    called = [sys.executable, "-m", "t4lint", "verify", "--device", "cpu", "--", sys.executable, "train.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        called, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == code
    assert ("note: the run ended as training-arguments-tf32 says: ValueError" in done.stdout) == (code == 1)
    assert ("error: verify: ZeroDivisionError" in done.stdout) == (code == 2)


def test_the_settings_near_each_file_hold(tmp_path: Path) -> None:
    """Those near the script say what the run is judged for; in a file of another folder, those near that file."""
    files = {
        "t4lint.toml": f'ignore = ["{PINNING}"]\n',
        "job/t4lint.toml": f'target = "l4"\nseverity = {{ {PINNING} = "note" }}\n',
        "job/train.py": """
            import sys
            sys.path.append("lib")
            from torch.utils.data import DataLoader
            from helper import loader
            known = DataLoader([1], pin_memory=False)
            hidden = eval("{'pin_memory': False}")
            seen = DataLoader([1], **hidden)
            meant = DataLoader([1], **hidden)  # t4lint: ignore[pin-memory-disabled] it is read once
            other = loader([1], hidden)
            """,
        "lib/helper.py": """
            from torch.utils.data import DataLoader
            def loader(data, options):
                return DataLoader(data, pin_memory=False, **{**options, "batch_size": 1}) if not options \\
                    else DataLoader(data, **options)
            """,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text).lstrip("\n"))
    report = verified(tmp_path, sys.executable, "job/train.py", device="cpu")
    assert report["target"]["name"] == "l4"
    assert [(it["path"], it["line"], it["severity"], it["suppressed"]) for it in report["findings"]] == [
        ("job/train.py", 5, "note", None),
        ("job/train.py", 7, "note", None),
    ]
    assert {it["verdict"]["verdict"] for it in report["findings"]} == {"confirmed"}
