"""What a fix for bf16 may not do: turn a slow run into one that ends in an error, or one that overflows."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from t4lint.changes import OnlyNew, fix, write
from t4lint.engine import Options, check

ABOUT_BF16 = ("bf16-mixed-precision", "trl-bf16-default", "bf16-guard-always-true")
WORSE = frozenset({
    "gradscaler-bf16-gradients", "gradscaler-fp16-gradients", "trl-qlora-with-fp16", "fp16-overflow-prone-model",
    "fp16-and-bf16-both-set", "nonfinite-check-with-gradscaler", "lightning-clip-with-fused-optimizer",
})  # fmt: skip


class Case(NamedTuple):
    what: str
    script: str
    offered: bool


def trained(load: str, arguments: str = "bf16=True", more: str = "") -> str:
    return f"""
import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, BitsAndBytesConfig, Trainer, TrainingArguments

model = {load}
{more}
args = TrainingArguments("out", {arguments}, per_device_train_batch_size=1)
Trainer(model=model, args=args, train_dataset=[]).train()
"""


def by_trl(load: str, arguments: str = "", peft: str = "") -> str:
    return f"""
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

model = {load}
args = SFTConfig(output_dir="out", {arguments} max_length=256, per_device_train_batch_size=1)
SFTTrainer(model=model, args=args, train_dataset=[]{peft}).train()
"""


def from_hub(name: str, dtype: str, cls: str = "AutoModelForCausalLM", more: str = "") -> str:
    return f'{cls}.from_pretrained("{name}", dtype={dtype}{more})'


FP32 = from_hub("HuggingFaceTB/SmolLM2-135M", "torch.float32")
BF16 = from_hub("HuggingFaceTB/SmolLM2-135M", "torch.bfloat16")
FP16 = from_hub("HuggingFaceTB/SmolLM2-135M", "torch.float16")
AUTO = from_hub("HuggingFaceTB/SmolLM2-135M", '"auto"')
T5 = from_hub("google/flan-t5-base", "torch.float32", "AutoModelForSeq2SeqLM")
FOUR_BITS = from_hub(
    "HuggingFaceTB/SmolLM2-135M", "torch.float16",
    more=", quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float16)",
)  # fmt: skip
ADAPTERS = ", peft_config=LoraConfig(r=8)"
LIGHTNING = """
import lightning as L
import torch
from torch import nn


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 1)

    def training_step(self, batch, index):
        return self.layer(batch).mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), fused=True)


L.Trainer(max_epochs=1, precision="bf16-mixed", gradient_clip_val=1.0).fit(Net(), [torch.rand(4, 16)])
"""

CASES = [
    # BF01: mixed precision
    Case("float32 weights", trained(FP32), True),
    Case("bf16 weights, whose gradients the scaler has no kernel for", trained(BF16), False),
    Case("weights in the checkpoint's dtype, which is bf16", trained(AUTO), False),
    Case("fp16 weights, whose gradients the scaler refuses", trained(FP16), False),
    Case("a model that overflows in fp16", trained(T5), False),
    Case("a guard that says yes, over bf16 weights", trained(BF16, "bf16=torch.cuda.is_bf16_supported()"), True),
    Case("Lightning that clips for a fused optimizer", LIGHTNING, False),
    # BF03 and BF07: TRL
    Case("TRL's default over float32 weights", by_trl(FP32), True),
    Case("TRL's default over bf16 weights", by_trl(BF16), False),
    Case("TRL's default over a 4-bit base, whose adapters it casts to bf16", by_trl(FOUR_BITS, peft=ADAPTERS), False),
    Case("bf16 by TRL over a 4-bit base", by_trl(FOUR_BITS, "bf16=True,", ADAPTERS), False),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_no_fix_makes_it_worse(case: Case, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(case.script.lstrip())
    options = Options(cwd=tmp_path, select=(*ABOUT_BF16, *WORSE))
    before = check([tmp_path], options)
    assert {it.rule for it in before.findings} & {*ABOUT_BF16}, "the case is about nothing"
    nothing = OnlyNew(None, (), None, tmp_path, "likely")
    done = fix([tmp_path], options, nothing, unsafe=True)
    assert bool(done.outcome.after) is case.offered
    write(done, [tmp_path], options, nothing)
    after = check([tmp_path], options)
    known = {it.rule for it in before.findings}
    assert not {it.rule for it in after.findings if it.rule in WORSE} - known
    assert not [it for it in after.findings if it.severity == "error" and it.rule not in known]
