"""Programs that stand for those of installed libraries: what they ask for, and what must not come of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from t4lint.engine import Options, check, check_with_fixes
from t4lint.libraries.programs import FOLDER, program_text

BF16 = "model_name_or_path: Qwen/Qwen2.5-0.5B\noutput_dir: o\n"


def test_every_program_is_python() -> None:
    names = [file.stem for file in FOLDER.glob("*.py")]
    assert {"trl", "axolotl", "llamafactory", "swift", "torchtune", "ultralytics", "diffusers_example", "kohya"} == set(
        names
    )
    for name in names:
        compile(program_text("trl_sft" if name == "trl" else name), name, "exec")


@pytest.mark.parametrize("name", ["run.sh", "run.yml"])
def test_no_fix_replaces_the_command(tmp_path: Path, name: str) -> None:
    """The dtype is chosen inside the program: its place is the command, which is no text to put a dtype in."""
    command = "llamafactory-cli train sft.yaml\n"
    (tmp_path / name).write_text(command if name == "run.sh" else f"jobs:\n  a:\n    steps:\n      - run: {command}")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (tmp_path / "sft.yaml").write_text(BF16 + "stage: sft\ndo_train: true\n")
    report = check_with_fixes([tmp_path], Options(cwd=tmp_path, min_confidence="possible"))
    assert report.runs and report.runs[0].command.startswith("llamafactory-cli")
    assert not [edit for finding in report.findings if finding.fix for edit in finding.fix.edits if edit.path == name]


def test_an_adapter_that_is_not_followed_is_no_missing_adapter(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("llamafactory-cli train oft.yaml\n")
    for method, wanted in (("oft", False), ("full", True)):
        settings = f"stage: sft\ndo_train: true\nquantization_bit: 4\nfinetuning_type: {method}\n"
        (tmp_path / "oft.yaml").write_text(BF16 + settings)
        found = {finding.rule for finding in check([tmp_path], Options(cwd=tmp_path)).findings}
        assert ("quantized-base-without-adapters" in found) is wanted
