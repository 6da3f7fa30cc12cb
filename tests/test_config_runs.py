"""Files that must not be read; those that are read are in test_followed.py."""

from __future__ import annotations

from pathlib import Path

from t4lint.engine import Options, check


def test_a_file_outside_the_project_is_not_read(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text("[project]\nname='x'\n")
    (tmp_path / "secret.yaml").write_text("bf16: true\n")
    (project / "train.py").write_text(
        "import yaml\nfrom transformers import TrainingArguments\n"
        'TrainingArguments("o", **yaml.safe_load(open("../secret.yaml")))\n'
    )
    assert not [f for f in check([project], Options(cwd=project)).findings if f.rule == "bf16-mixed-precision"]
