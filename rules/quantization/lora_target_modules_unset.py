"""LoRA is put on a model without `target_modules`, and PEFT has no default for its architecture.

## What happens on a T4

PEFT keeps a table of architectures with the layers that LoRA goes into. For one that is not in it, `get_peft_model` and
the trainers of TRL raise `ValueError: Please specify target_modules`. The model has been downloaded and loaded by then.
DistilBERT, ALBERT and Phi-3 are not in the table.

## How to fix it

Name the layers: `LoraConfig(target_modules="all-linear")`, or the names of the attention projections, such as
`["q_lin", "v_lin"]` for DistilBERT and `["qkv_proj", "o_proj"]` for Phi-3.

## When it is right to ignore it

When a newer PEFT than 0.21.2 has the architecture in its table. The architecture is told by the checkpoint's name; one
that is not known is not judged.

## Sources

* peft 0.21.2 `utils/constants.py` (TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING), and the error executed on DistilBERT,
  ALBERT and Phi-3
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Trace


@rule(
    name="lora-target-modules-unset",
    severity="error",
    summary="LoRA without target_modules on an architecture that PEFT has no default for",
    message="PEFT has no default `target_modules` for {architecture}: it raises a ValueError when the adapters are made.",
    help='Name the layers in `LoraConfig`, such as `target_modules="all-linear"`.',
    triggers=("LoraConfig",),
    reads=(Call,),
)
def lora_target_modules_unset(trace: Trace) -> Iterator[Candidate]:
    for call in trace.all(Call):
        if call.function.endswith("get_peft_model") and "targets" in call.arguments:
            if call.arguments["config"].it == "LoraConfig":
                targets = call.arguments["targets"]
                kind = next((origin.note for origin in targets.origins), "this architecture")
                yield Candidate(call, targets.equals("none"), words={"architecture": kind})
