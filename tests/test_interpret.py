"""What the interpreter makes of guards, imports and whole programs; how settings reach calls is in test_followed.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from t4lint.engine import Options, check

HEAD = "import torch\nfrom transformers import TrainingArguments\n"

PROGRAM = """
def build(bf16=True):
    return TrainingArguments("o", bf16=bf16)
if torch.rand(1) > 0.5:
    build()
else:
    TrainingArguments("o", fp16=True, tf32=True)
"""


def bf16_lines(folder: Path, text: str, **files: str) -> list[int]:
    (folder / "train.py").write_text(text, encoding="utf-8")
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    report = check([folder / "train.py"], Options(cwd=folder))
    assert not report.problems, report.problems
    return [f.location.line for f in report.findings if f.rule == "bf16-mixed-precision"]


# --- guards: what each expression answers on a T4 -------------------------------------------------------------------

ON_A_T4 = {
    "torch.cuda.is_available()": True,
    "torch.cuda.get_device_capability()[0] >= 8": False,
    "torch.cuda.get_device_capability() >= (8, 0)": False,
    "torch.cuda.get_device_properties(0).major >= 8": False,
    "torch.cuda.is_bf16_supported(including_emulation=False)": False,
    "torch.cuda.is_bf16_supported(False)": False,
    "torch.cuda.is_tf32_supported()": False,
    '"A100" in torch.cuda.get_device_name()': False,
    '"T4" not in torch.cuda.get_device_name(0)': False,
    "torch.cuda.get_device_properties(0).total_memory > 20 * 1024**3": False,
    "torch.cuda.device_count() > 1": False,
}
COUNT_EMULATION = (
    "torch.cuda.is_bf16_supported()",
    "transformers.utils.is_torch_bf16_gpu_available()",
    "accelerate.utils.is_bf16_available()",
)


@pytest.mark.parametrize("guard", ON_A_T4)
def test_guards_are_decided_by_the_target(guard: str, tmp_path: Path) -> None:
    text = HEAD + f'TrainingArguments("o", bf16={guard})\n'
    assert bf16_lines(tmp_path, text) == ([3] if ON_A_T4[guard] else [])
    text = HEAD + f'if {guard}:\n    TrainingArguments("o", bf16=True)\n'
    assert bf16_lines(tmp_path, text) == ([4] if ON_A_T4[guard] else [])


@pytest.mark.parametrize("guard", COUNT_EMULATION)
@pytest.mark.parametrize(("pin", "fires"), [("", True), ("torch==2.3.1", True), ("torch==2.2.2", False)])
def test_guards_that_count_emulation(guard: str, pin: str, fires: bool, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(pin + "\n")
    library = guard.partition(".")[0]
    (tmp_path / "train.py").write_text(
        f'{HEAD}import {library}.utils\nTrainingArguments("o", bf16={guard})\n'.replace("import torch.utils\n", "")
    )
    report = check([tmp_path / "train.py"], Options(cwd=tmp_path))
    assert ("bf16-guard-always-true" in [f.rule for f in report.findings]) is fires


def test_unsloth_changes_the_answer(tmp_path: Path) -> None:
    text = f'import unsloth\n{HEAD}TrainingArguments("o", bf16=torch.cuda.is_bf16_supported())\n'
    (tmp_path / "train.py").write_text(text)
    assert check([tmp_path / "train.py"], Options(cwd=tmp_path)).findings == ()


# --- several files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "from settings import BF16",
        "import settings\nBF16 = settings.BF16",
        "from settings import *",
        "import settings as s\nBF16 = s.BF16",
        "import importlib, settings\nBF16 = settings.BF16",
    ],
)
def test_imports(line: str, tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text("BF16 = True\n")
    (tmp_path / "train.py").write_text(f'{HEAD}{line}\nTrainingArguments("o", bf16=BF16)\n')
    (finding,) = check([tmp_path / "train.py"], Options(cwd=tmp_path)).findings
    assert (finding.location.path, finding.location.line) == ("settings.py", 1)


def test_packages_relative_imports_and_cycles(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("from .a import BF16\n")
    (package / "a.py").write_text("from . import b\nfrom .b import VALUE\nBF16 = VALUE\n")
    (package / "b.py").write_text("from . import a\nVALUE = True\n")
    (tmp_path / "train.py").write_text(f'{HEAD}from pkg import BF16\nTrainingArguments("o", bf16=BF16)\n')
    (finding,) = check([tmp_path / "train.py"], Options(cwd=tmp_path)).findings
    assert (finding.location.path, finding.location.line) == ("pkg/b.py", 2)


def test_interpretation_is_deterministic(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HEAD + PROGRAM)
    first, second = (check([tmp_path / "train.py"], Options(cwd=tmp_path, show_trace=True)) for _ in range(2))
    assert first.findings == second.findings
    assert len(first.trace) == len(second.trace)
