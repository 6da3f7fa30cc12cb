"""Settings in several files that contradict each other: one finding that names all the places, and the claim behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from t4lint.engine import Options, check

FIXTURE = Path(__file__).parent.parent / "fixtures" / "contradicting-precision-settings" / "bad_four_files"


def test_one_finding_names_every_place() -> None:
    (finding,) = check([FIXTURE], Options(cwd=FIXTURE)).findings
    places = {origin.location.path for origin in finding.provenance if origin.location is not None}
    places |= {related.location.path for related in finding.related}
    assert places == {"ds.json", "run.sh", "accelerate.yaml", "train.py"}
    for text in ("bf16.enabled", "run.sh:2", "accelerate.yaml:2"):
        assert text in finding.message


CONTRADICTIONS = [({"bf16": {"enabled": True}}, "fp16"), ({"fp16": {"enabled": True}}, "bf16")]


@pytest.mark.heavy
@pytest.mark.parametrize(("config", "asked"), CONTRADICTIONS)
def test_transformers_refuses(
    config: dict[str, Any], asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import TrainingArguments
    from transformers.integrations import deepspeed

    monkeypatch.setattr(
        deepspeed, "dep_version_check", lambda name: None
    )  # the check of the settings needs no DeepSpeed
    config_class = deepspeed.HfTrainerDeepSpeedConfig
    arguments = TrainingArguments(str(tmp_path), use_cpu=True, report_to="none")
    setattr(arguments, asked, True)  # the constructor wants the hardware first
    checked = config_class(config)
    checked.trainer_config_process(arguments)
    assert any(f"{next(iter(config))}.enabled=True" in mismatch for mismatch in checked.mismatches)

    agreeing = config_class({"fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}})
    agreeing.trainer_config_process(arguments)
    assert not any(".enabled" in mismatch for mismatch in agreeing.mismatches)


@pytest.mark.heavy
@pytest.mark.parametrize(("config", "asked"), CONTRADICTIONS)
def test_accelerate_refuses(config: dict[str, Any], asked: str) -> None:
    from accelerate.utils import dataclasses

    plugin = object.__new__(dataclasses.DeepSpeedPlugin)
    plugin.deepspeed_config = config
    with pytest.raises(ValueError, match="cannot be set to"):
        plugin.set_mixed_precision(asked)
