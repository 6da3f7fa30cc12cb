"""Settings that are only reachable through a file which the program or its launch reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from t4lint.engine import Options, check

HF = (
    "from transformers import HfArgumentParser, TrainingArguments\n"
    "import os, sys\n"
    "parser = HfArgumentParser(TrainingArguments)\n"
)
DEEPSPEED = '{\n  "bf16": {\n    "enabled": true\n  }\n}\n'

# name: (files, (path, line) of the finding); what {value} is decides
CASES: dict[str, tuple[dict[str, str], tuple[str, int]]] = {
    "yaml.safe_load": (
        {
            "train.py": "import yaml\nfrom transformers import TrainingArguments\n"
            'cfg = yaml.safe_load(open("cfg.yaml"))\nTrainingArguments("o", bf16=cfg["train"]["bf16"])\n',
            "cfg.yaml": "train:\n  bf16: {value}\n",
        },
        ("cfg.yaml", 2),
    ),
    "with open": (
        {
            "train.py": "import json\nfrom transformers import TrainingArguments\n"
            'with open("cfg.json") as f:\n    cfg = json.load(f)\nTrainingArguments("o", **cfg)\n',
            "cfg.json": '{{"bf16": {value}}}\n',
        },
        ("cfg.json", 1),
    ),
    "OmegaConf": (
        {
            "train.py": "from omegaconf import OmegaConf\nfrom transformers import TrainingArguments\n"
            'cfg = OmegaConf.load("cfg.yaml")\nTrainingArguments("o", bf16=cfg.train.bf16)\n',
            "cfg.yaml": "train:\n  bf16: {value}\n",
        },
        ("cfg.yaml", 2),
    ),
    "hydra": (
        {
            "train.py": "import hydra\nfrom transformers import TrainingArguments\n"
            '@hydra.main(config_path="conf", config_name="base", version_base=None)\n'
            "def main(cfg):\n    TrainingArguments('o', bf16=cfg.trainer.bf16)\n"
            'if __name__ == "__main__":\n    main()\n',
            "conf/base.yaml": "defaults:\n  - trainer: fast\n  - _self_\nseed: 1\n",
            "conf/trainer/fast.yaml": "bf16: {value}\n",
        },
        ("conf/trainer/fast.yaml", 1),
    ),
    "hydra override": (
        {
            "train.py": "import hydra\nfrom transformers import TrainingArguments\n"
            '@hydra.main(config_path="conf", config_name="base")\n'
            "def main(cfg):\n    TrainingArguments('o', bf16=cfg.bf16)\nmain()\n",
            "conf/base.yaml": "bf16: false\n",
            "run.sh": "python train.py bf16={value}\n",
        },
        ("run.sh", 1),
    ),
    "parse_yaml_file": (
        {
            "train.py": HF + 'args, = parser.parse_yaml_file("args.yaml")\n',
            "args.yaml": "output_dir: o\nbf16: {value}\n",
        },
        ("args.yaml", 2),
    ),
    "a json file on the command line": (
        {
            "train.py": HF + "if len(sys.argv) == 2 and sys.argv[1].endswith('.json'):\n"
            "    args, = parser.parse_json_file(json_file=sys.argv[1])\n"
            "else:\n    args, = parser.parse_args_into_dataclasses()\n",
            "args.json": '{{"output_dir": "o",\n "bf16": {value}}}\n',
            "run.sh": "python train.py args.json\n",
        },
        ("args.json", 2),
    ),
    "TrlParser --config": (
        {
            "train.py": "from trl import SFTConfig, TrlParser\nargs, = TrlParser((SFTConfig,)).parse_args_and_config()\n",
            "sft.yaml": "output_dir: o\nfp16: false\nbf16: {value}\n",
            "run.sh": "python train.py --config sft.yaml\n",
        },
        ("sft.yaml", 3),
    ),
    "accelerate config": (
        {
            "train.py": "from accelerate import Accelerator\naccelerator = Accelerator()\n",
            "acc.yaml": "num_processes: 1\nmixed_precision: {word}\n",
            "run.sh": "accelerate launch --config_file acc.yaml train.py\n",
        },
        ("acc.yaml", 2),
    ),
    "deepspeed json": (
        {
            "train.py": HF + "args, = parser.parse_args_into_dataclasses()\n",
            "ds.json": '{{\n  "bf16": {{"enabled": {value}}}\n}}\n',
            "run.sh": "deepspeed train.py --output_dir o --deepspeed ds.json\n",
        },
        ("ds.json", 2),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_value_in_the_file_counts(case: str, tmp_path: Path) -> None:
    files, place = CASES[case]
    for value, word, wanted in (("true", "bf16", [place]), ("false", "fp16", [])):
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.format(value=value, word=word) if name not in ("train.py",) else text)
        report = check([tmp_path], Options(cwd=tmp_path))
        assert not report.problems
        found = [(f.location.path, f.location.line) for f in report.findings if f.rule == "bf16-mixed-precision"]
        assert found == wanted, (value, [(f.rule, f.location) for f in report.findings])


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
