"""Whole invocations: bad input beside good, launches, projects of several files, worlds."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from t4lint import ruleset
from t4lint.devices import find_target
from t4lint.engine import Options, UnknownRule, about, check, check_command, select
from t4lint.findings import Report
from t4lint.rule import Candidate, Rule
from t4lint.trace import Fact, Loader, Trace

BAD = 'from transformers import TrainingArguments\n\nTrainingArguments("out", bf16=True)\n'


def lint(folder: Path, *names: str, **options: object) -> Report:
    paths = [folder / name for name in names] or [folder]
    return check(paths, Options(cwd=folder, **options))  # type: ignore[arg-type]


def places(report: Report) -> list[tuple[str, int, str]]:
    return [(finding.location.path, finding.location.line, finding.rule) for finding in report.findings]


class TestBadInput:
    def test_a_broken_file_is_named_and_the_others_go_on(self, tmp_path: Path) -> None:
        (tmp_path / "broken.py").write_text("import torch\n\ndef f(:\n    bf16 = True\n")
        (tmp_path / "fine.py").write_text(BAD)
        report = lint(tmp_path)
        assert [(p.path, p.line) for p in report.problems] == [("broken.py", 3)]
        assert places(report) == [("fine.py", 3, "bf16-mixed-precision")]

    def test_a_broken_file_without_anything_to_judge_is_named_too(self, tmp_path: Path) -> None:
        (tmp_path / "broken.py").write_text("x = (\n")
        assert [p.path for p in lint(tmp_path).problems] == ["broken.py"]

    def test_binary_and_undeclared_encodings(self, tmp_path: Path) -> None:
        (tmp_path / "binary.py").write_bytes(bytes(range(256)) * 4)
        (tmp_path / "latin.py").write_bytes(b"# caf\xe9\nimport torch\n")
        (tmp_path / "fine.py").write_text(BAD)
        report = lint(tmp_path)
        assert sorted(p.path for p in report.problems) == ["binary.py", "latin.py"]
        assert places(report) == [("fine.py", 3, "bf16-mixed-precision")]

    def test_a_broken_link_and_a_loop_of_links(self, tmp_path: Path) -> None:
        (tmp_path / "fine.py").write_text(BAD)
        (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere.py")
        (tmp_path / "loop").symlink_to(tmp_path)
        report = lint(tmp_path)
        assert [p.path for p in report.problems] == ["gone.py"]
        assert places(report) == [("fine.py", 3, "bf16-mixed-precision")]

    def test_a_folder_that_cannot_be_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "locked").mkdir()
        (tmp_path / "fine.py").write_text(BAD)
        real = os.scandir

        def scandir(path: object = ".") -> object:
            if Path(str(path)).name == "locked":
                raise PermissionError(13, "Permission denied")
            return real(path)  # type: ignore[call-overload]

        monkeypatch.setattr(os, "scandir", scandir)
        report = lint(tmp_path)
        assert [p.path for p in report.problems] == ["locked"]
        assert places(report) == [("fine.py", 3, "bf16-mixed-precision")]

    def test_an_unknown_rule_suggests_the_nearest(self) -> None:
        with pytest.raises(UnknownRule, match="did you mean fp32-training"):
            select(["fp32-trainig"])

    @pytest.mark.parametrize("depth", [500, 50_000])
    def test_deep_nesting_is_refused_not_fatal(self, tmp_path: Path, depth: int) -> None:
        (tmp_path / "deep.py").write_text(f"bf16 = {'(' * depth}1{')' * depth}\n")
        assert [p.path for p in lint(tmp_path).problems] == ["deep.py"]


class TestOddInputThatIsLinted:
    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"# only a comment\n",
            BAD.replace("\n", "\r\n").encode(),
            b"\xef\xbb\xbf" + BAD.encode(),
            b"# -*- coding: latin-1 -*-\n# caf\xe9\n" + BAD.encode(),
            BAD.encode("utf-16"),
            BAD.encode() + b"# " + b"x" * 5_000_000 + b"\n",
        ],
        ids=["empty", "comment", "crlf", "bom", "latin-1", "utf-16", "5 MB"],
    )
    def test_it(self, tmp_path: Path, data: bytes) -> None:
        (tmp_path / "train.py").write_bytes(data)
        report = lint(tmp_path)
        assert not report.problems
        found = [rule for _, _, rule in places(report)]
        assert found == (["bf16-mixed-precision"] if len(data) > 20 else [])

    def test_a_place_after_wide_characters_counts_code_points(self, tmp_path: Path) -> None:
        line = 'x = "日本😀"; TrainingArguments("out", bf16=True)\n'
        (tmp_path / "train.py").write_text("from transformers import TrainingArguments\n" + line, encoding="utf-8")
        (finding,) = lint(tmp_path).findings
        assert line[finding.location.column - 1 : finding.location.end_column - 1] == "True"


class TestRuns:
    def test_a_launch_line_is_where_the_finding_lands(self, tmp_path: Path) -> None:
        (tmp_path / "run.sh").write_text("python train.py --bf16 True\n")
        (tmp_path / "train.py").write_text(
            "from transformers import HfArgumentParser, TrainingArguments\n"
            "args, = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
        )
        report = lint(tmp_path, "train.py")
        assert places(report) == [("run.sh", 1, "bf16-mixed-precision")]
        assert report.runs[0].launch == "run.sh:1"

    def test_two_launches_are_two_runs(self, tmp_path: Path) -> None:
        (tmp_path / "run.sh").write_text("python train.py --bf16\npython train.py --fp16\n")
        (tmp_path / "train.py").write_text(
            "import argparse\nfrom transformers import TrainingArguments\np = argparse.ArgumentParser()\n"
            'p.add_argument("--bf16", action="store_true")\np.add_argument("--fp16", action="store_true")\n'
            'a = p.parse_args()\nTrainingArguments("out", bf16=a.bf16, fp16=a.fp16)\n'
        )
        report = lint(tmp_path)
        assert len(report.runs) == 2
        assert places(report) == [("run.sh", 1, "bf16-mixed-precision")]

    def test_values_come_from_other_files_of_the_project(self, tmp_path: Path) -> None:
        (tmp_path / "settings").mkdir()
        (tmp_path / "settings" / "__init__.py").write_text("from .base import PRECISION\n")
        (tmp_path / "settings" / "base.py").write_text('PRECISION = {"bf16": True}\n')
        (tmp_path / "train.py").write_text(
            "from transformers import TrainingArguments\nfrom settings import PRECISION\n"
            'TrainingArguments("out", **PRECISION)\n'
        )
        report = lint(tmp_path, "train.py")
        assert places(report) == [("settings/base.py", 1, "bf16-mixed-precision")]

    def test_a_command_is_checked_as_one_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "train.py").write_text(
            "from transformers import HfArgumentParser, TrainingArguments\n"
            "args, = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
        )
        report = check_command(["python", "train.py", "--tf32", "True"], Options(cwd=tmp_path))
        assert [finding.rule for finding in report.findings] == ["training-arguments-tf32"]

    def test_pins_of_the_project_decide_versions(self, tmp_path: Path) -> None:
        (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
        (tmp_path / "train.py").write_text(BAD)
        (tmp_path / "requirements.txt").write_text("torch==2.1.2\n")
        (finding,) = lint(tmp_path, "train.py").findings
        assert finding.severity == "error"


class TestWorlds:
    def test_a_test_that_cannot_be_decided_gives_a_possible_finding_only(self, tmp_path: Path) -> None:
        (tmp_path / "train.py").write_text(
            "import os\nfrom transformers import TrainingArguments\n"
            'TrainingArguments("out", bf16=os.path.exists("flag"))\n'
        )
        assert places(lint(tmp_path)) == []
        (finding,) = [f for f in lint(tmp_path, min_confidence="possible").findings if "bf16" in f.rule]
        assert finding.confidence == "possible"

    def test_both_sides_of_a_fork_are_wrong_so_the_finding_is_certain(self, tmp_path: Path) -> None:
        (tmp_path / "train.py").write_text(
            "import os\nfrom transformers import TrainingArguments\n"
            'if os.path.exists("flag"):\n    size = 4\nelse:\n    size = 8\n'
            'TrainingArguments("out", bf16=True, per_device_train_batch_size=size)\n'
        )
        (finding,) = lint(tmp_path).findings
        assert finding.confidence == "certain"

    def test_the_same_test_twice_is_one_test(self, tmp_path: Path) -> None:
        (tmp_path / "train.py").write_text(
            "import os\nfrom transformers import TrainingArguments\n"
            'fast = os.path.exists("flag")\nkind = "bf16" if fast else "fp16"\n'
            'if fast:\n    kind = "fp16"\nTrainingArguments("out", bf16=kind == "bf16", fp16=kind == "fp16")\n'
        )
        assert lint(tmp_path, min_confidence="possible").findings == ()

    def test_a_function_that_nothing_calls_is_looked_at_but_never_certain(self, tmp_path: Path) -> None:
        (tmp_path / "train.py").write_text(
            "from transformers import TrainingArguments\n\ndef main(name):\n"
            "    return TrainingArguments(name, bf16=True)\n"
        )
        (finding,) = lint(tmp_path).findings
        assert (finding.location.line, finding.confidence) == (4, "likely")
        assert finding.presumption == "nothing that was read calls this code"

    def test_what_is_not_certain_says_what_it_rests_on(self, tmp_path: Path) -> None:
        (tmp_path / "flag.py").write_text(
            "import argparse\nfrom transformers import TrainingArguments\nparser = argparse.ArgumentParser()\n"
            'parser.add_argument("--bf16", default=True)\nTrainingArguments("out", bf16=parser.parse_args().bf16)\n'
        )
        (tmp_path / "gone.py").write_text(
            'from transformers import TrainingArguments\nTrainingArguments("out", evaluation_strategy="no")\n'
        )
        (tmp_path / "sure.py").write_text(
            'from transformers import TrainingArguments\nTrainingArguments("out", bf16=True)\n'
        )
        found = {it.location.path: (it.confidence, it.presumption) for it in lint(tmp_path).findings}
        assert found == {
            "flag.py": ("likely", "it rests on a default that a launch or another version may change"),
            "gone.py": ("likely", "no version is pinned"),
            "sure.py": ("certain", ""),
        }

    def test_a_notebook_that_upgrades_a_library_is_not_held_to_the_pin_of_the_project(self, tmp_path: Path) -> None:
        (tmp_path / "requirements.txt").write_text("transformers==4.32.1\n")
        argument = 'from transformers import TrainingArguments\nTrainingArguments("out", evaluation_strategy="no")'
        for name, install in (("kept", "!pip install transformers"), ("newest", "!pip install -U transformers")):
            cells = [
                {"cell_type": "code", "source": text, "metadata": {}, "outputs": [], "execution_count": None}
                for text in (install, argument)
            ]
            notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
            (tmp_path / f"{name}.ipynb").write_text(json.dumps(notebook))
        found = [(it.rule, it.location.path) for it in lint(tmp_path).findings]
        assert found == [("removed-argument", "newest.ipynb")]


class TestHanging:
    @pytest.mark.parametrize(
        "text",
        [
            "def f(n):\n    return f(n + 1)\nf(0)\n",
            "while True:\n    pass\n",
            "x = 'a'\nfor _ in range(10**9):\n    x = x + x\n",
            "x = 10 ** 10 ** 10\ny = 'x' * 10**12\nz = [0] * 10**9\n",
            "class A(A):\n    pass\n",
            "import train\nfrom train import *\n",
            "f = lambda g: g(g)\nf(f)\n",
            "x = [x for x in x for x in x]\n",
        ],
    )
    def test_it_ends(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "train.py").write_text(BAD + text)
        report = lint(tmp_path)
        assert [rule for _, _, rule in places(report)] == ["bf16-mixed-precision"]
        assert not report.problems


# --- rules and cases that are off by default ------------------------------------------------------------------------


def loaders_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, default: bool, **chosen: Any) -> list[int]:
    """What two made-up cases of a rule say of two loaders: the milder one, of the second loader, is on request."""

    def found(trace: Trace) -> Iterator[Candidate]:
        for number, loader in enumerate(trace.all(Loader)):
            yield Candidate(loader, Fact(True), on_request=number == 1)

    made = Rule(
        name="made-up", family="data", severity="note", summary="", message="Made up.", help="", triggers=("DataLoader",),
        reads=(Loader,), check=found, page="", default=default,
    )  # fmt: skip
    monkeypatch.setattr(ruleset, "rules", lambda own=(): (made,))
    program = tmp_path / "train.py"
    program.write_text("from torch.utils.data import DataLoader\nDataLoader([1])\nDataLoader([2])\n")
    report = check([program], Options(cwd=tmp_path, **chosen))
    assert not report.problems
    return [finding.location.line for finding in report.findings]


def test_a_rule_that_is_off_runs_when_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert loaders_found(tmp_path, monkeypatch, default=False) == []
    for chosen in ({"select": ("made-up",)}, {"extend_select": ("data",)}, {"select": ("all",)}):
        assert loaders_found(tmp_path, monkeypatch, default=False, **chosen) == [2, 3]


def test_a_case_on_request_is_shown_where_its_rule_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert loaders_found(tmp_path, monkeypatch, default=True) == [2]
    assert loaders_found(tmp_path, monkeypatch, default=True, extend_select=("made-up",)) == [2, 3]
    assert loaders_found(tmp_path, monkeypatch, default=True, select=("made-up",)) == [2, 3]
    assert loaders_found(tmp_path, monkeypatch, default=True, extend_select=("made-up",), ignore=("made-up",)) == []


# --- other targets ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("t4", "On a T4, T4s and an old T4: {x}"),
        ("colab", "On a T4, T4s and an old T4: {x}"),
        ("v100", "On a V100, V100s and an old V100: {x}"),
        ("l4", "On an L4, L4s and an old L4: {x}"),
        ("a100-80gb", "On an A100, A100s and an old A100: {x}"),
        ("rtx-2080-ti", "On an RTX 2080 Ti, RTX 2080 Tis and an old RTX 2080 Ti: {x}"),
    ],
)
def test_messages_name_the_gpu_of_the_target(target: str, said: str) -> None:
    assert about("On a T4, T4s and an old T4: {x}", find_target(target)) == said


def test_a_finding_names_the_gpu_that_it_is_about(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BAD)
    (finding,) = check([tmp_path], Options(cwd=tmp_path, target="v100", select=("bf16-mixed-precision",))).findings
    assert "V100" in finding.message and "T4" not in finding.message + finding.help
