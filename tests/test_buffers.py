"""Open buffers: texts that stand for files, of every kind, also for files that are not on disk. The language server is made of this."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from t4lint import cli
from t4lint.changes import OnlyNew, fix
from t4lint.engine import Options, check, check_with_fixes
from t4lint.findings import Report
from t4lint.fix.text import edited

RULE = "training-arguments-tf32"
GOOD = """\
from transformers import Trainer, TrainingArguments
args = TrainingArguments("out", fp16=True)
Trainer(args=args).train()
"""
BAD = GOOD.replace("fp16=True", "fp16=True, tf32=True")
PARSED = """\
from transformers import HfArgumentParser, Trainer, TrainingArguments
(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
Trainer(args=args).train()
"""
CONFIGURED = PARSED.replace("parse_args_into_dataclasses()", 'parse_yaml_file("args.yaml")')
IMPORTED = "from transformers import Trainer\nfrom make import args\nTrainer(args=args).train()\n"
MAKE = BAD.replace("Trainer, ", "").replace("Trainer(args=args).train()\n", "")


def notebook(text: str) -> str:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": text.splitlines(keepends=True)}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


CASES = {
    "a script": ({"train.py": BAD}, ["train.py"], "train.py"),
    "a notebook": ({"train.ipynb": notebook(BAD)}, ["train.ipynb"], "train.ipynb"),
    "an imported module": ({"train.py": IMPORTED, "make.py": MAKE}, ["train.py", "make.py"], "make.py"),
    "a module of a package": (
        {"train.py": IMPORTED.replace("from make", "from lib.make"), "lib/__init__.py": "", "lib/make.py": MAKE},
        ["train.py", "lib/make.py"],
        "lib/make.py",
    ),
    "a configuration": (
        {"train.py": CONFIGURED, "args.yaml": "output_dir: out\nfp16: true\ntf32: true\n"},
        ["train.py"],
        "args.yaml",
    ),
    "a launch script": (
        {"train.py": PARSED, "run.sh": "python train.py --output_dir out --fp16 True --tf32 True\n"},
        ["train.py", "run.sh"],
        "run.sh",
    ),
}


@pytest.mark.parametrize("on_disk", ["nothing", "the same", "an older text"])
@pytest.mark.parametrize("name", CASES)
def test_a_buffer_is_its_file(name: str, on_disk: str, tmp_path: Path) -> None:
    texts, paths, place = CASES[name]
    if on_disk == "nothing" and name == "a launch script":
        pytest.skip("a launch names a script that is there")
    (tmp_path / "pyproject.toml").touch()
    if on_disk != "nothing":
        for path, text in texts.items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            old = text if on_disk == "the same" else text.replace("tf32", "seed").replace("True --seed True", "True")
            (tmp_path / path).write_text(old)
    options = Options(cwd=tmp_path, texts=texts)
    report = check_with_fixes([tmp_path / path for path in paths], options)
    assert not report.problems
    assert [(it.rule, it.location.path) for it in report.findings] == [(RULE, place)]
    (finding,) = report.findings
    assert finding.fix is not None
    after = edited(texts[place], [edit for edit in finding.fix.edits if edit.path == place])
    fixed: Report = check([tmp_path / path for path in paths], Options(cwd=tmp_path, texts={**texts, place: after}))
    assert not fixed.findings and not fixed.problems


def test_fixing_buffers_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(GOOD)
    options = Options(cwd=tmp_path, texts={"train.py": BAD})
    done = fix([tmp_path / "train.py"], options, OnlyNew(None, (), None, tmp_path, "likely"), unsafe=False)
    assert done.outcome.before == {"train.py": BAD} and done.outcome.after == {"train.py": GOOD}
    assert (tmp_path / "train.py").read_text() == GOOD


def test_a_notebook_from_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import io
    import sys

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(notebook(BAD).encode())))
    assert cli.main(["-", "--stdin-filename", "a.ipynb", "--output-format", "concise"]) == 1
    assert capsys.readouterr().out.startswith(f"a.ipynb:cell 1:2:49: error[{RULE}] `TrainingArguments(tf32=True)` ends")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(notebook(BAD).encode())))
    assert cli.main(["-", "--stdin-filename", "a.ipynb", "--fix"]) == 0
    assert capsys.readouterr().out == notebook(GOOD)
