"""trl: its configurations and trainers.

Pivots, read in the released wheels 0.7 to 1.16: bf16 unless fp16 since 0.19, checkpointing on since 0.22.
"""

from __future__ import annotations

from typing import Any

from t4lint.interpret.values import NONE, Abstract, Class, Const, ListValue, Object, Unknown
from t4lint.libraries.api import Call, calls
from t4lint.libraries.torch import dtype_like, inner
from t4lint.libraries.transformers import build_arguments, build_trainer, model_object
from t4lint.trace import Attention

CONFIGS = (
    "SFTConfig", "DPOConfig", "GRPOConfig", "KTOConfig", "RewardConfig", "RLOOConfig", "OnlineDPOConfig", "ORPOConfig", "CPOConfig",
    "BCOConfig", "PRMConfig", "IterativeSFTConfig", "GKDConfig", "NashMDConfig", "XPOConfig",
)  # fmt: skip
TRAINERS = tuple(name.replace("Config", "Trainer") for name in CONFIGS)


def overrides(m: Any, name: str) -> dict[str, Any]:
    """What a trl configuration changes in the defaults of TrainingArguments."""
    changed: dict[str, Any] = {}
    if m.at_least("trl", "0.19"):
        changed["bf16"] = None  # becomes True unless fp16 is set
    if m.at_least("trl", "0.22"):
        changed["gradient_checkpointing"] = True
    if name.endswith(".SFTConfig"):
        changed["max_length"] = 1024
        changed["packing"] = False
    return changed


@calls(*[f"trl.{name}" for name in CONFIGS])
def config(call: Call) -> Abstract:
    return build_arguments(call.machine, call.name, call.arguments, {})


@calls(*[f"trl.{name}(subclass)" for name in CONFIGS])
def config_subclass(call: Call) -> Abstract:
    cls: Class = call.receiver
    return build_arguments(call.machine, call.name, call.arguments, dict(cls.fields))


@calls(*[f"trl.{name}" for name in TRAINERS], *[f"trl.{name}(subclass)" for name in TRAINERS])
def trainer(call: Call) -> Abstract:
    """A trainer; a model given by its name is loaded here, in float32 since trl 0.27."""
    m = call.machine
    built = build_trainer(m, call.name, call.arguments)
    model = built.attributes["model"]
    if isinstance(model, Const) and isinstance(model.value, str):
        loading = Call(m, "trl.loading", call.arguments, None)
        requested = Const("float32", (m.here("default", "trl loads a model given by name in float32, since 0.27"),))
        if m.at_least("trl", "0.27"):
            built.attributes["model"] = model_object(loading, "AutoModelForCausalLM", model, requested, "load")
    cast = adapters_cast(m, built)
    if cast is not None:
        built.attributes["$casts"] = cast
    return built


# The trainers that cast the trainable parameters of a 4/8-bit model to bfloat16 while they are built, and since which
# version: sft_trainer.py, grpo_trainer.py and others in 0.26.2 to 1.16.0, dpo_trainer.py from 0.29.
CASTING = {
    "SFTTrainer": "0.26", "GRPOTrainer": "0.26", "RewardTrainer": "0.26", "RLOOTrainer": "0.26", "KTOTrainer": "0.26",
    "DPOTrainer": "0.29",
}  # fmt: skip


def adapters_cast(m: Any, built: Object) -> Abstract | None:
    """The dtypes of what is trained after such a trainer was built; None where it casts nothing."""
    since = CASTING.get(built.name.rpartition(".")[2].removesuffix("(subclass)"))
    model = inner(built.attributes["model"])
    if since is None or not m.at_least("trl", since) or not isinstance(model, Object) or "unsloth" in m.imported:
        return None
    quantization = m.resolve(model.attributes.get("$quantization") or Const("none"))
    adapters = built.attributes["$peft_config"] is not NONE or model.attributes.get("$adapters") is not None
    if not (isinstance(quantization, Const) and quantization.value in ("4bit", "8bit") and adapters):
        return None
    # what was done to single parameters before is undone here; what comes after counts
    m.write(model.attributes, "$touched", Const(False))
    note = f"{built.name} casts the trainable parameters of a {quantization.value} model to bfloat16, since trl {since}"
    return ListValue((Const("bfloat16"),), "tuple", origins=(m.here("version", note),))


@calls("trl.ModelConfig")
def model_config(call: Call) -> Abstract:
    return Object("namespace", call.name, dict(call.arguments.keywords))


@calls("trl.*")
def anything(call: Call) -> Abstract:
    from t4lint.libraries.registry import library_default

    return library_default(call)


__all__ = ["Attention", "Unknown", "dtype_like"]
