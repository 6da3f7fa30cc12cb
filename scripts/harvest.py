"""Signatures of training APIs by version, read from released wheels; refreshes `t4lint/libraries/data/*.json`.

    python scripts/harvest.py WHEELS        # a folder that keeps the downloaded wheels

Wheels of pure Python packages are fetched from the index by pip, never installed; their files are read with `ast` and not
imported. torch is read from the installed package only: its wheels are gigabytes. What a parameter is in a version is
noted once, at the first version that was read in which it is so; `null` stands for a parameter that is gone.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).parent.parent / "t4lint" / "libraries" / "data" / "api.json"
RELEASES = OUTPUT.with_name("releases.json")

# distribution → versions: around the releases that changed what training scripts meet, and the newest known
VERSIONS = {
    "transformers": ("4.30.2", "4.35.2", "4.41.2", "4.46.3", "4.51.3", "4.57.6", "5.0.0", "5.24.0"),
    "trl": ("0.7.11", "0.9.6", "0.12.2", "0.15.2", "0.18.2", "0.19.0", "0.21.0", "0.22.0", "0.26.0", "1.0.0", "1.16.0"),
    "accelerate": ("0.21.0", "0.27.2", "0.34.2", "1.2.1", "1.15.0"),
    "peft": ("0.7.1", "0.11.1", "0.15.2", "0.21.2"),
    "lightning": ("2.0.9", "2.2.5", "2.6.6"),
    "torch": (),
}
# name as programs import it → distribution, file in the wheel (with older places after it), class or function
NAMES: dict[str, tuple[str, tuple[str, ...], str]] = {
    "transformers.TrainingArguments": ("transformers", ("transformers/training_args.py",), "TrainingArguments"),
    "transformers.Seq2SeqTrainingArguments": (
        "transformers", ("transformers/training_args_seq2seq.py",), "Seq2SeqTrainingArguments",
    ),
    "transformers.Trainer": ("transformers", ("transformers/trainer.py",), "Trainer"),
    "transformers.BitsAndBytesConfig": ("transformers", ("transformers/utils/quantization_config.py",), "BitsAndBytesConfig"),
    "transformers.PreTrainedModel.from_pretrained": (
        "transformers", ("transformers/modeling_utils.py",), "PreTrainedModel.from_pretrained",
    ),
    "trl.BaseConfig": ("trl", ("trl/trainer/base_config.py",), "_BaseConfig|BaseConfig"),
    **{
        f"trl.{name}Config": ("trl", (f"trl/trainer/{name.lower()}_config.py",), f"{name}Config")
        for name in ("SFT", "DPO", "GRPO", "KTO", "Reward", "RLOO", "ORPO", "CPO")
    },
    "trl.SFTTrainer": ("trl", ("trl/trainer/sft_trainer.py",), "SFTTrainer"),
    "accelerate.Accelerator": ("accelerate", ("accelerate/accelerator.py",), "Accelerator"),
    "accelerate.notebook_launcher": ("accelerate", ("accelerate/launchers.py",), "notebook_launcher"),
    "peft.LoraConfig": ("peft", ("peft/tuners/lora/config.py", "peft/tuners/lora.py"), "LoraConfig"),
    "peft.PeftConfig": ("peft", ("peft/config.py",), "PeftConfig"),
    "peft.PeftConfigMixin": ("peft", ("peft/config.py",), "PeftConfigMixin"),
    "peft.prepare_model_for_kbit_training": ("peft", ("peft/utils/other.py",), "prepare_model_for_kbit_training"),
    "lightning.pytorch.Trainer": ("lightning", ("lightning/pytorch/trainer/trainer.py",), "Trainer"),
    "lightning.fabric.Fabric": ("lightning", ("lightning/fabric/fabric.py",), "Fabric"),
    "torch.utils.data.DataLoader": ("torch", ("torch/utils/data/dataloader.py",), "DataLoader"),
    "torch.optim.AdamW": ("torch", ("torch/optim/adamw.py",), "AdamW"),
    "torch.amp.GradScaler": ("torch", ("torch/amp/grad_scaler.py",), "GradScaler"),
    "torch.amp.autocast": ("torch", ("torch/amp/autocast_mode.py",), "autocast"),
    "torch.nn.parallel.DistributedDataParallel": ("torch", ("torch/nn/parallel/distributed.py",), "DistributedDataParallel"),
    "torch.cuda.is_bf16_supported": ("torch", ("torch/cuda/__init__.py",), "is_bf16_supported"),
}  # fmt: skip
REQUIRED = {"required": True}
Read = Callable[[str], "str | None"]
Parameters = dict[str, dict[str, Any]]


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__)
        return 2
    wheels = Path(arguments[0])
    table: dict[str, Any] = {}
    for distribution, versions in VERSIONS.items():
        for version, read in sources(distribution, versions, wheels):
            for name, (owner, files, path) in NAMES.items():
                if owner == distribution:
                    note(table, name, version, signature(read, files, path))
    for name, entry in table.items():
        library = NAMES[name][0]
        entry["read"] = list(VERSIONS[library]) or [importlib.metadata.version(library).partition("+")[0]]
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    known = {distribution: releases(distribution) for distribution in VERSIONS}
    RELEASES.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    print(f"{len(table)} names, {OUTPUT.stat().st_size} bytes; releases of {len(known)} libraries")
    return 0


def releases(distribution: str) -> list[str]:
    """The releases that the index lists, oldest first."""
    command = [sys.executable, "-m", "pip", "index", "versions", distribution, "--disable-pip-version-check"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    line = next(line for line in output.splitlines() if line.startswith("Available versions:"))
    found = [version.strip() for version in line.partition(":")[2].split(",")]
    return [version for version in reversed(found) if "+" not in version]


# --- wheels ------------------------------------------------------------------------------------------------------


def sources(distribution: str, versions: tuple[str, ...], wheels: Path) -> Iterator[tuple[str, Read]]:
    """Each version with a function that reads a file of it."""
    if not versions:
        spec = importlib.util.find_spec(distribution)
        assert spec is not None and spec.origin is not None
        root = Path(spec.origin).parent.parent
        yield importlib.metadata.version(distribution).partition("+")[0], lambda name: text_of(root / name)
    for version in versions:
        with zipfile.ZipFile(wheel(distribution, version, wheels)) as archive:
            names = set(archive.namelist())
            yield version, lambda name, a=archive, n=names: a.read(name).decode() if name in n else None  # type: ignore[misc]


def text_of(file: Path) -> str | None:
    return file.read_text(encoding="utf-8") if file.is_file() else None


def wheel(distribution: str, version: str, wheels: Path) -> Path:
    start = f"{distribution}-{version}-"
    found = next((file for file in wheels.glob("*.whl") if file.name.startswith(start)), None)
    if found is None:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary", ":all:", "--dest", str(wheels), f"{distribution}=={version}"]
        subprocess.run(command, check=True)
        found = next(file for file in wheels.glob("*.whl") if file.name.startswith(start))
    return found


# --- signatures --------------------------------------------------------------------------------------------------


def signature(read: Read, files: tuple[str, ...], path: str) -> tuple[Parameters, list[str]] | None:
    """The parameters of a class or function, and the names of bases whose parameters come before; None if it is not there."""
    for file in files:
        text = read(file)
        if text is None:
            continue
        tree = ast.parse(text)
        for option in path.split("|"):
            node = find(tree.body, option.split("."))
            if node is not None:
                return of_function(node) if isinstance(node, FUNCTIONS) else of_class(node)
    return None


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Definition = Any  # ast.ClassDef or one of FUNCTIONS


def find(body: list[ast.stmt], names: list[str]) -> Definition | None:
    for node in body:
        if isinstance(node, (ast.ClassDef, *FUNCTIONS)) and node.name == names[0]:
            return node if len(names) == 1 else find(node.body, names[1:])
        if isinstance(node, (ast.If, ast.Try)):
            inner = find(node.body, names)
            if inner is not None:
                return inner
    return None


def of_function(node: Definition) -> tuple[Parameters, list[str]]:
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    missing = len(positional) - len(arguments.defaults)
    defaults = [None] * missing + list(arguments.defaults)
    pairs = [*zip(positional, defaults, strict=True), *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    return {a.arg: said(d) for a, d in pairs if a.arg not in ("self", "cls")}, []


def of_class(node: ast.ClassDef) -> tuple[Parameters, list[str]]:
    initialiser = find(node.body, ["__init__"])
    if initialiser is not None:
        return of_function(initialiser)
    parameters: Parameters = {}
    for item in node.body:
        if (
            isinstance(item, ast.AnnAssign)
            and isinstance(item.target, ast.Name)
            and "ClassVar" not in ast.unparse(item.annotation)
        ):
            parameters[item.target.id] = field_of(item.value)
    return parameters, [ast.unparse(base) for base in node.bases]


def field_of(value: ast.expr | None) -> dict[str, Any]:
    if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("field"):
        keywords = {keyword.arg: keyword.value for keyword in value.keywords}
        if "default" in keywords:
            return said(keywords["default"])
        return {"code": ast.unparse(keywords["default_factory"]) + "()"} if "default_factory" in keywords else REQUIRED
    return said(value)


def said(default: ast.expr | None) -> dict[str, Any]:
    """A default as data: a literal where it is one, else its text."""
    if default is None:
        return REQUIRED
    try:
        value = ast.literal_eval(default)
    except (ValueError, TypeError):
        return {"code": re.sub(r"\s+", " ", ast.unparse(default))[:100]}
    plain = isinstance(value, (bool, int, float, str, type(None)))
    return {"default": value} if plain else {"code": ast.unparse(default)[:100]}


def note(table: dict[str, Any], name: str, version: str, found: tuple[Parameters, list[str]] | None) -> None:
    """Enter what a version has, where it differs from the version before."""
    entry = table.setdefault(name, {"library": NAMES[name][0], "parameters": {}, "bases": []})
    parameters, bases = found if found is not None else ({}, [])
    if found is not None and (not entry["bases"] or entry["bases"][-1][1] != bases):
        entry["bases"].append([version, bases])
    for parameter in dict.fromkeys([*entry["parameters"], *parameters]):
        history = entry["parameters"].setdefault(parameter, [])
        now = parameters.get(parameter)
        if (not history and now is not None) or (history and history[-1][1] != now):
            history.append([version, now])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
