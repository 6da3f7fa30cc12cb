"""The same script under versions before and after each change of a library's behaviour: the answers differ as the libraries do.

The changes are those that `t4lint/libraries` and `t4lint/devices` carry as data; each was read in the releases on both sides.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from t4lint.engine import Options, check, check_with_fixes

Said = dict[str, str]  # rule → severity

GUARD = """
import torch

dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
net = torch.nn.Linear(8, 8).cuda()
with torch.no_grad(), torch.autocast("cuda", dtype=dtype):
    net(torch.rand(2, 8, device="cuda"))
"""
AUTOCAST = """
import torch

net = torch.nn.Linear(8, 8).cuda()
with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
    net(torch.rand(2, 8, device="cuda"))
"""
COMPILED = """
import torch

net = torch.compile(torch.nn.Linear(8, 8).cuda().bfloat16())
"""
TRITON = """
import triton
import triton.language as tl


@triton.jit
def kernel(a, b, c, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))
"""
GQA = """
import torch
import torch.nn.functional as F

q = torch.rand(1, 8, 64, 64, dtype=torch.float16, device="cuda")
k = torch.rand(1, 2, 64, 64, dtype=torch.float16, device="cuda")
F.scaled_dot_product_attention(q, k, k, enable_gqa=True)
"""
ARGUMENTS = """
from transformers import TrainingArguments

TrainingArguments("out", bf16=True)
"""
NO_DTYPE = """
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("HuggingFaceTB/SmolLM2-135M")
args = TrainingArguments("out", fp16=True, per_device_train_batch_size=1)
Trainer(model=model, args=args, train_dataset=[]).train()
"""
TRL_DEFAULT = """
import torch
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("HuggingFaceTB/SmolLM2-135M", torch_dtype=torch.float32)
args = SFTConfig(output_dir="out", per_device_train_batch_size=1)
SFTTrainer(model=model, args=args, train_dataset=[]).train()
"""
QLORA = """
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import {name}Config, {name}Trainer

four_bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float16)
model = AutoModelForCausalLM.from_pretrained(
    "facebook/opt-125m", torch_dtype=torch.float16, quantization_config=four_bits
)
args = {name}Config(output_dir="out", fp16=True, per_device_train_batch_size=1)
{name}Trainer(model=model, args=args, train_dataset=[], peft_config=LoraConfig(r=8)).train()
"""
ADAPTERS = """
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("facebook/opt-125m", torch_dtype=torch.float16)
model = get_peft_model(model, LoraConfig(r=8))
args = TrainingArguments("out", fp16=True, per_device_train_batch_size=1)
Trainer(model=model, args=args, train_dataset=[]).train()
"""
HEAD_TOO = ADAPTERS.replace("LoraConfig(r=8)", 'LoraConfig(r=8, modules_to_save=["lm_head"])')
KBIT_HEAD = """
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

four_bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float16)
model = AutoModelForCausalLM.from_pretrained("HuggingFaceTB/SmolLM2-135M", quantization_config=four_bits)
"""
REMOVED = """
import torch
from transformers import AutoModelForCausalLM

AutoModelForCausalLM.from_pretrained("facebook/opt-125m", torch_dtype=torch.float16, load_in_8bit=True)
"""
PACKED = """
import torch
from transformers import AutoModelForCausalLM
from trl import SFTConfig

model = AutoModelForCausalLM.from_pretrained("HuggingFaceTB/SmolLM2-135M", torch_dtype=torch.float32)
SFTConfig(output_dir="out", fp16=True, packing=True, per_device_train_batch_size=1)
"""
MAPS = """
import torch
from transformers import AutoModel

model = AutoModel.from_pretrained("bert-base-uncased")
model(torch.ones(1, 4, dtype=torch.long), output_attentions=True).attentions[-1]
"""


class Pivot(NamedTuple):
    """What is said of a script of the rules named on either side, before and from a version on."""

    name: str
    script: str
    before: dict[str, str]
    after: dict[str, str]
    said_before: Said
    said_after: Said


PIVOTS = [
    Pivot(
        "torch 2.3: is_bf16_supported counts emulation",
        GUARD, {"torch": "2.2.2"}, {"torch": "2.3.1"}, {}, {"bf16-guard-always-true": "warning"},
    ),
    Pivot(
        "torch 2.3: bf16 autocast no longer raises",
        AUTOCAST, {"torch": "2.2.2"}, {"torch": "2.3.1"}, {"bf16-mixed-precision": "error"}, {"bf16-mixed-precision": "warning"},
    ),
    Pivot(
        "torch 2.4: Inductor skips bf16 instead of failing in ptxas",
        COMPILED, {"torch": "2.3.1"}, {"torch": "2.4.1"}, {"torch-compile-with-bf16": "error"}, {},
    ),
    Pivot(
        "triton 3.3 (torch 2.7): no tensor cores for tl.dot",
        TRITON, {"torch": "2.6.0"}, {"torch": "2.7.1"}, {}, {"triton-tl-dot": "warning"},
    ),
    Pivot(
        "torch 2.14: the memory-efficient kernel takes enable_gqa",
        GQA, {"torch": "2.13.0"}, {"torch": "2.14.1"}, {"sdpa-enable-gqa": "warning"}, {},
    ),
    Pivot(
        "transformers 4.35: TrainingArguments asks torch's predicate",
        ARGUMENTS, {"transformers": "4.34.0"}, {"transformers": "4.35.2"},
        {"bf16-mixed-precision": "error"}, {"bf16-mixed-precision": "warning"},
    ),
    Pivot(
        "transformers 5.0: no dtype is the checkpoint's dtype",
        NO_DTYPE, {"transformers": "4.57.6"}, {"transformers": "5.0.0"}, {}, {"gradscaler-bf16-gradients": "error"},
    ),
    Pivot(
        "transformers 5.0: load_in_8bit is gone",
        REMOVED, {"transformers": "4.57.6"}, {"transformers": "5.0.0"}, {}, {"removed-argument": "error"},
    ),
    Pivot(
        "transformers 5.0: SDPA gives no attention maps",
        MAPS, {"transformers": "4.57.6"}, {"transformers": "5.0.0"}, {}, {"output-attentions-with-sdpa": "error"},
    ),
    Pivot(
        "transformers 4.53: packed samples are kept apart",
        PACKED, {"transformers": "4.51.3", "trl": "0.19.1"}, {"transformers": "4.53.3", "trl": "0.19.1"},
        {"packing-without-varlen-attention": "warning"}, {"packing-without-varlen-attention": "note"},
    ),
    Pivot(
        "trl 0.19: bf16 unless fp16 is set",
        TRL_DEFAULT, {"trl": "0.18.2"}, {"trl": "0.19.1"}, {}, {"trl-bf16-default": "warning"},
    ),
    Pivot(
        "trl 0.26: SFTTrainer casts adapters to bf16",
        QLORA.format(name="SFT"), {"trl": "0.25.1"}, {"trl": "0.26.2"}, {}, {"trl-qlora-with-fp16": "error"},
    ),
    Pivot(
        "trl 0.29: DPOTrainer casts adapters to bf16",
        QLORA.format(name="DPO"), {"trl": "0.28.0"}, {"trl": "0.29.1"}, {}, {"trl-qlora-with-fp16": "error"},
    ),
    Pivot(
        "peft 0.11: adapters on a 16-bit base are float32",
        ADAPTERS, {"peft": "0.10.0"}, {"peft": "0.11.1"}, {"gradscaler-fp16-gradients": "error"}, {},
    ),
    Pivot(
        "peft 0.11 changes nothing for modules_to_save",
        HEAD_TOO, {"peft": "0.10.0"}, {"peft": "0.11.1"},
        {"gradscaler-fp16-gradients": "error"}, {"gradscaler-fp16-gradients": "error"},
    ),
]  # fmt: skip
JUDGED = {rule for pivot in PIVOTS for rule in (*pivot.said_before, *pivot.said_after)}


def written(folder: Path, script: str, pins: dict[str, str]) -> Path:
    (folder / "train.py").write_text(script.lstrip())
    (folder / "requirements.txt").write_text("".join(f"{name}=={version}\n" for name, version in pins.items()))
    return folder


def said(folder: Path) -> Said:
    report = check([folder], Options(cwd=folder, min_confidence="likely"))
    assert not report.problems
    return {it.rule: it.severity for it in report.findings if it.rule in JUDGED}


@pytest.mark.parametrize("pivot", PIVOTS, ids=lambda pivot: pivot.name)
def test_before_and_after(pivot: Pivot, tmp_path: Path) -> None:
    only = {*pivot.said_before, *pivot.said_after}
    sides = []
    for name, pins in (("before", pivot.before), ("after", pivot.after)):
        folder = tmp_path / name
        folder.mkdir()
        found = said(written(folder, pivot.script, pins))
        sides.append({rule: severity for rule, severity in found.items() if rule in only})
    assert sides == [pivot.said_before, pivot.said_after]


@pytest.mark.parametrize(
    ("version", "asks"),
    [
        ("2.3.1", "torch.cuda.get_device_capability()[0] >= 8"),
        ("2.4.1", "is_bf16_supported(including_emulation=False)"),
    ],
)
def test_the_fix_of_a_guard_uses_what_the_version_has(version: str, asks: str, tmp_path: Path) -> None:
    """torch 2.4 added the parameter; before it the call would end in a TypeError."""
    folder = written(tmp_path, GUARD, {"torch": version})
    report = check_with_fixes([folder], Options(cwd=folder))
    (finding,) = [it for it in report.findings if it.rule == "bf16-guard-always-true"]
    assert finding.fix is not None
    text = (folder / "train.py").read_text()
    line = text.splitlines()[finding.fix.edits[0].start[0] - 1]
    edit = finding.fix.edits[0]
    assert asks in line[: edit.start[1] - 1] + edit.text + line[edit.end[1] - 1 :]


@pytest.mark.parametrize(("version", "dtype"), [("4.57.6", "float16"), ("5.0.0", "bfloat16")])
def test_what_bitsandbytes_leaves_whole(version: str, dtype: str, tmp_path: Path) -> None:
    """Before 5.0 the quantizer forces float16 where no dtype is given; since then the checkpoint's dtype stays."""
    folder = written(tmp_path, KBIT_HEAD, {"transformers": version})
    report = check([folder], Options(cwd=folder, show_trace=True))
    (loaded,) = [line for line in report.trace if "Model (load)" in line]
    assert f"dtype='{dtype}'" in loaded.replace("~", "")


# --- versions that nothing pins ------------------------------------------------------------------------------------

FLASH = """
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained(
    "HuggingFaceTB/SmolLM2-135M", torch_dtype=torch.float16, attn_implementation="flash_attention_2"
)
Trainer(model=model, args=TrainingArguments("out", overwrite_output_dir=True), train_dataset=[]).train()
"""


def judged(folder: Path, script: str, pins: dict[str, str]) -> dict[str, tuple[str, str]]:
    """rule → (severity, confidence)"""
    folder = written(folder, script, pins)
    report = check([folder], Options(cwd=folder, min_confidence="likely"))
    assert not report.problems
    return {it.rule: (it.severity, it.confidence) for it in report.findings}


def test_what_the_newest_refuses_is_judged_for_the_newest_that_takes_it(tmp_path: Path) -> None:
    """transformers 5.0 took `overwrite_output_dir` out, and keeps the bf16 of the checkpoint, which the scaler refuses."""
    refused = NO_DTYPE.replace('"out", ', '"out", overwrite_output_dir=True, ')
    assert judged(tmp_path, NO_DTYPE, {})["gradscaler-bf16-gradients"][0] == "error"
    unpinned = judged(tmp_path, refused, {})
    assert unpinned["removed-argument"] == ("note", "likely")
    assert "gradscaler-bf16-gradients" not in unpinned
    pinned = judged(tmp_path, refused, {"transformers": "5.0.0"})
    assert pinned["removed-argument"] == ("error", "certain")
    assert pinned["gradscaler-bf16-gradients"] == ("error", "certain")


def test_what_holds_with_the_presumed_version_alone_is_likely(tmp_path: Path) -> None:
    """`evaluation_strategy` was last in transformers 4.50.3, which packs without regard to samples; 4.53 does not."""
    old = PACKED.replace("fp16=True, ", 'fp16=True, evaluation_strategy="no", ')
    pins = {"trl": "0.19.1"}
    assert judged(tmp_path, PACKED, pins)["packing-without-varlen-attention"][0] == "note"
    assert judged(tmp_path, old, pins)["packing-without-varlen-attention"] == ("warning", "likely")
    folder = written(tmp_path, old, pins)
    report = check([folder], Options(cwd=folder))
    (finding,) = [it for it in report.findings if it.rule == "packing-without-varlen-attention"]
    assert finding.provenance[-1].note.startswith("transformers 4.50.3: presumed")


def test_what_holds_with_every_version_stays_certain(tmp_path: Path) -> None:
    assert judged(tmp_path, FLASH, {})["flash-attention-backend"] == ("error", "certain")


def test_a_selection_does_not_change_what_is_presumed(tmp_path: Path) -> None:
    folder = written(tmp_path, NO_DTYPE.replace('"out", ', '"out", overwrite_output_dir=True, '), {})
    report = check([folder], Options(cwd=folder, select=("gradscaler-bf16-gradients",)))
    assert not report.findings
