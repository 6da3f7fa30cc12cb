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


def checked_by_transformers(config: dict[str, Any], arguments: Any) -> list[str]:
    """What transformers finds to differ; DeepSpeed itself is not needed for that, only accelerate's reading of the file."""
    from accelerate.utils.deepspeed import HfDeepSpeedConfig
    from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

    class Checked(HfTrainerDeepSpeedConfig, HfDeepSpeedConfig):  # type: ignore[misc]
        def __init__(self, config: dict[str, Any]) -> None:
            HfDeepSpeedConfig.__init__(self, config)
            self._dtype, self.mismatches = None, []

    found = Checked(config)
    found.trainer_config_process(arguments)
    return [mismatch for mismatch in found.mismatches if ".enabled" in mismatch]


@pytest.mark.heavy
@pytest.mark.parametrize(("config", "asked"), CONTRADICTIONS)
def test_transformers_refuses(config: dict[str, Any], asked: str, tmp_path: Path) -> None:
    from transformers import TrainingArguments

    arguments = TrainingArguments(str(tmp_path), use_cpu=True, report_to="none")
    setattr(arguments, asked, True)  # the constructor wants the hardware first
    assert checked_by_transformers(config, arguments)
    assert not checked_by_transformers({"fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}}, arguments)


@pytest.mark.heavy
@pytest.mark.parametrize(("config", "asked"), CONTRADICTIONS)
def test_accelerate_refuses(config: dict[str, Any], asked: str) -> None:
    from accelerate.utils import dataclasses

    plugin = object.__new__(dataclasses.DeepSpeedPlugin)
    plugin.deepspeed_config = config
    with pytest.raises(ValueError, match="cannot be set to"):
        plugin.set_mixed_precision(asked)
