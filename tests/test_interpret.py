"""Each way in which a setting reaches a call, in a program where it is reachable only that way: bad, and good."""

from __future__ import annotations

from pathlib import Path

import pytest

from t4lint.engine import Options, check

HEAD = "import torch\nfrom transformers import TrainingArguments\n"

# {value} is True in the bad program and False in the good one; the finding lands where {value} stands
WAYS: dict[str, str] = {
    "literal": 'TrainingArguments("o", bf16={value})\n',
    "constant": 'BF16 = {value}\nTrainingArguments("o", bf16=BF16)\n',
    "two names": 'A = {value}\nB = A\nTrainingArguments("o", bf16=B)\n',
    "tuple": 'a, b = 1, {value}\nTrainingArguments("o", bf16=b)\n',
    "helper": 'def wants():\n    return {value}\nTrainingArguments("o", bf16=wants())\n',
    "helper with early return": (
        'def wants(n):\n    if n > 1:\n        return {value}\n    return False\nTrainingArguments("o", bf16=wants(2))\n'
    ),
    "parameter default": 'def build(bf16={value}):\n    return TrainingArguments("o", bf16=bf16)\nbuild()\n',
    "keyword of a call": 'def build(bf16):\n    return TrainingArguments("o", bf16=bf16)\nbuild(bf16={value})\n',
    "kwargs": 'options = dict(bf16={value})\nTrainingArguments("o", **options)\n',
    "dict literal": 'options = {{"bf16": {value}}}\nTrainingArguments("o", **options)\n',
    "dict update": 'options = {{}}\noptions.update(bf16={value})\nTrainingArguments("o", **options)\n',
    "dict item": 'options = {{}}\noptions["bf16"] = {value}\nTrainingArguments("o", **options)\n',
    "nested dict": 'cfg = {{"train": {{"bf16": {value}}}}}\nTrainingArguments("o", bf16=cfg["train"]["bf16"])\n',
    "dict get": 'cfg = {{"bf16": {value}}}\nTrainingArguments("o", bf16=cfg.get("bf16", False))\n',
    "class attribute": 'class Config:\n    bf16 = {value}\nTrainingArguments("o", bf16=Config.bf16)\n',
    "instance attribute": (
        "class Config:\n    def __init__(self):\n        self.bf16 = {value}\n"
        'TrainingArguments("o", bf16=Config().bf16)\n'
    ),
    "inheritance": 'class A:\n    bf16 = {value}\nclass B(A):\n    pass\nTrainingArguments("o", bf16=B().bf16)\n',
    "property": (
        "class Config:\n    @property\n    def bf16(self):\n        return {value}\n"
        'TrainingArguments("o", bf16=Config().bf16)\n'
    ),
    "method": (
        "class Runner:\n    def __init__(self, bf16={value}):\n        self.bf16 = bf16\n"
        '    def args(self):\n        return TrainingArguments("o", bf16=self.bf16)\nRunner().args()\n'
    ),
    "super": (
        "class A:\n    def __init__(self, bf16):\n        self.bf16 = bf16\n"
        "class B(A):\n    def __init__(self):\n        super().__init__(bf16={value})\n"
        'TrainingArguments("o", bf16=B().bf16)\n'
    ),
    "dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass Config:\n    bf16: bool = {value}\n"
        'TrainingArguments("o", bf16=Config().bf16)\n'
    ),
    "dataclass field": (
        "from dataclasses import dataclass, field\n@dataclass\nclass Config:\n"
        '    bf16: bool = field(default={value})\nTrainingArguments("o", bf16=Config().bf16)\n'
    ),
    "argparse": (
        'import argparse\np = argparse.ArgumentParser()\np.add_argument("--bf16", type=bool, default={value})\n'
        'a = p.parse_args()\nTrainingArguments("o", bf16=a.bf16)\n'
    ),
    "argparse group and vars": (
        'import argparse\np = argparse.ArgumentParser()\ng = p.add_argument_group("x")\n'
        'g.add_argument("--bf16", default={value})\na = vars(p.parse_args())\nTrainingArguments("o", bf16=a["bf16"])\n'
    ),
    "parser set_defaults": (
        'import argparse\np = argparse.ArgumentParser()\np.add_argument("--bf16")\np.set_defaults(bf16={value})\n'
        'TrainingArguments("o", bf16=p.parse_args().bf16)\n'
    ),
    "subclass of TrainingArguments": (
        "from dataclasses import dataclass\n@dataclass\nclass Mine(TrainingArguments):\n    bf16: bool = {value}\nMine('o')\n"
    ),
    "parser of dataclasses": (
        "from dataclasses import dataclass\nfrom transformers import HfArgumentParser\n@dataclass\n"
        "class Extra:\n    half: bool = {value}\n"
        "(extra,) = HfArgumentParser((Extra,)).parse_args_into_dataclasses()\n"
        'TrainingArguments("o", bf16=extra.half)\n'
    ),
    "click": (
        'import click\n@click.command()\n@click.option("--bf16", default={value})\ndef main(bf16):\n'
        '    TrainingArguments("o", bf16=bf16)\nif __name__ == "__main__":\n    main()\n'
    ),
    "typer": (
        "import typer\napp = typer.Typer()\n@app.command()\ndef main(bf16: bool = {value}):\n"
        '    TrainingArguments("o", bf16=bf16)\nif __name__ == "__main__":\n    app()\n'
    ),
    "typer option": (
        "import typer\ndef main(bf16: bool = typer.Option({value})):\n"
        '    TrainingArguments("o", bf16=bf16)\ntyper.run(main)\n'
    ),
    "fire": 'import fire\ndef main(bf16={value}):\n    TrainingArguments("o", bf16=bf16)\nfire.Fire(main)\n',
    "absl": (
        'from absl import app, flags\nflags.DEFINE_bool("bf16", {value}, "")\ndef main(_):\n'
        '    TrainingArguments("o", bf16=flags.FLAGS.bf16)\napp.run(main)\n'
    ),
    "partial": ('from functools import partial\nbuild = partial(TrainingArguments, "o", bf16={value})\nbuild()\n'),
    "closure": (
        "def outer():\n    bf16 = {value}\n    def inner():\n        return TrainingArguments('o', bf16=bf16)\n"
        "    return inner\nouter()()\n"
    ),
    "lambda": 'pick = lambda: {value}\nTrainingArguments("o", bf16=pick())\n',
    "getattr": 'class C:\n    bf16 = {value}\nTrainingArguments("o", bf16=getattr(C, "bf16"))\n',
    "setattr": 'class C:\n    pass\nc = C()\nsetattr(c, "bf16", {value})\nTrainingArguments("o", bf16=c.bf16)\n',
    "namespace": (
        'from types import SimpleNamespace\nc = SimpleNamespace(bf16={value})\nTrainingArguments("o", bf16=c.bf16)\n'
    ),
    "comprehension": ('options = {{k: v for k, v in [("bf16", {value})]}}\nTrainingArguments("o", **options)\n'),
    "star": 'def build(d, *rest):\n    return TrainingArguments(d, bf16=rest[0])\nbuild("o", {value})\n',
    "global": (
        'BF16 = None\ndef setup():\n    global BF16\n    BF16 = {value}\nsetup()\nTrainingArguments("o", bf16=BF16)\n'
    ),
    "walrus": 'if (b := {value}) or True:\n    TrainingArguments("o", bf16=b)\n',
    "match": (
        'kind = "a"\nmatch kind:\n    case "a":\n        b = {value}\n    case _:\n        b = False\n'
        'TrainingArguments("o", bf16=b)\n'
    ),
    "try": 'try:\n    b = {value}\nexcept ImportError:\n    b = False\nTrainingArguments("o", bf16=b)\n',
    "decorated": (
        "import functools\ndef logged(f):\n    @functools.wraps(f)\n    def inner(*a, **k):\n        return f(*a, **k)\n"
        '    return inner\n@logged\ndef build(bf16):\n    return TrainingArguments("o", bf16=bf16)\nbuild(bf16={value})\n'
    ),
    "loop over names": (
        'options = {{}}\nfor name in ["bf16"]:\n    options[name] = {value}\nTrainingArguments("o", **options)\n'
    ),
    "main guard": ('def main():\n    TrainingArguments("o", bf16={value})\nif __name__ == "__main__":\n    main()\n'),
    "set after construction": 'a = TrainingArguments("o")\na.bf16 = {value}\n',
}


def bf16_lines(folder: Path, text: str, **files: str) -> list[int]:
    (folder / "train.py").write_text(text, encoding="utf-8")
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    report = check([folder / "train.py"], Options(cwd=folder))
    assert not report.problems, report.problems
    return [f.location.line for f in report.findings if f.rule == "bf16-mixed-precision"]


@pytest.mark.parametrize("way", WAYS)
def test_a_setting_is_followed(way: str, tmp_path: Path) -> None:
    bad = HEAD + WAYS[way].format(value="True")
    wanted = [number for number, line in enumerate((HEAD + WAYS[way]).splitlines(), 1) if "{value}" in line]
    assert bf16_lines(tmp_path, bad) == wanted
    assert bf16_lines(tmp_path, HEAD + WAYS[way].format(value="False")) == []


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
    (tmp_path / "train.py").write_text(HEAD + "".join(text.format(value="True") for text in list(WAYS.values())[:12]))
    first, second = (check([tmp_path / "train.py"], Options(cwd=tmp_path, show_trace=True)) for _ in range(2))
    assert first.findings == second.findings
    assert len(first.trace) == len(second.trace)
