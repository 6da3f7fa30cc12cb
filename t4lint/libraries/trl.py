"""trl: its configurations and trainers.

Pivots, read in the released wheels 0.7 to 1.16: bf16 unless fp16 since 0.19, checkpointing on since 0.22.
"""

from __future__ import annotations

from typing import Any

from t4lint.interpret.values import NONE, PRESUMED, Abstract, Class, Const, ListValue, Object, Step, Unknown
from t4lint.libraries import signatures
from t4lint.libraries.api import Arguments, Call, calls
from t4lint.libraries.flags import Flags, override
from t4lint.libraries.torch import inner
from t4lint.libraries.transformers import (
    bits_and_bytes_config,
    build_arguments,
    build_trainer,
    model_object,
    say_overrides,
)
from t4lint.trace import Engine

CONFIGS = (
    "SFTConfig", "DPOConfig", "GRPOConfig", "KTOConfig", "RewardConfig", "RLOOConfig", "OnlineDPOConfig", "ORPOConfig", "CPOConfig",
    "BCOConfig", "PRMConfig", "IterativeSFTConfig", "GKDConfig", "NashMDConfig", "XPOConfig",
)  # fmt: skip
TRAINERS = tuple(name.replace("Config", "Trainer") for name in CONFIGS)


def overrides(m: Any, name: str, known: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What a trl configuration adds to the fields of TrainingArguments, and changes where it was not harvested itself."""
    changed: dict[str, Any] = {}
    if name not in signatures.table() and m.at_least("trl", "0.19"):
        changed["bf16"] = None  # becomes True unless fp16 is set
    if name not in signatures.table() and m.at_least("trl", "0.22"):
        changed["gradient_checkpointing"] = True
    if name.endswith(".SFTConfig"):
        changed.update({"max_length": 1024, "packing": False})
        changed.update({field: known[field]["default"] for field in changed if "default" in known.get(field, ())})
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
    if isinstance(call.receiver, Class):
        say_overrides(m, call.receiver)
    built = build_trainer(m, call.name, call.arguments)
    model = built.attributes["model"]
    if isinstance(model, Const) and isinstance(model.value, str):
        loading = Call(m, "trl.loading", call.arguments, None)
        requested = Const("float32", (m.here("default", "trl loads a model given by name in float32, since 0.27"),))
        if m.at_least("trl", "0.27"):
            built.attributes["model"] = model_object(loading, "AutoModelForCausalLM", model, requested, "load")
    length = call.arguments.get("max_seq_length")
    if length is not None and "SFTTrainer" in call.name and not m.at_least("trl", "0.13"):
        limit_length(m, built.attributes["args"], m.resolve(length))
    cast = adapters_cast(m, built)
    if cast is not None:
        built.attributes["$casts"] = cast
    return built


def limit_length(m: Any, arguments: Abstract, length: Abstract) -> None:
    """`SFTTrainer(max_seq_length=)` takes the place of what its arguments say, until trl 0.12 (read in 0.7.11 to 0.12.2)."""
    if isinstance(length, Const) and length.value is None:
        return
    for draft in m.drafts:
        if draft.kind is Engine and isinstance(arguments, Object) and draft.subject == arguments.uid:
            draft.fields["sequence_length"] = length


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


# the fields that decide what is loaded and how, as in the dataclasses of trl 1.16; the dtype's default is older than 0.27's
# "float32" only there
SETTINGS: dict[str, dict[str, Any]] = {
    "trl.ModelConfig": {
        "model_name_or_path": None, "model_revision": "main", "dtype": "float32", "attn_implementation": None, "use_peft": False,
        "load_in_8bit": False, "load_in_4bit": False, "bnb_4bit_quant_type": "nf4", "use_bnb_nested_quant": False,
        "trust_remote_code": False,
    },
    "trl.ScriptArguments": {
        "dataset_name": None, "dataset_config": None, "dataset_train_split": "train", "dataset_test_split": "test",
        "dataset_streaming": False,
    },
}  # fmt: skip


def settings(m: Any, name: str, given: dict[str, Abstract], flags: Flags | None = None) -> Object:
    """A ModelConfig or ScriptArguments: what is given, else what the command line or a file says, else the default."""
    short = name.rpartition(".")[2]
    result = Object("namespace", name)
    for field, default in SETTINGS[name].items():
        presumed = (PRESUMED,) if flags is not None and not flags.launched else ()
        value: Abstract = Const(default, (Step("default", f"default of {short}({field}={default!r})"), *presumed))
        if field == "dtype" and not m.at_least("trl", "0.27"):
            value = Unknown("the default dtype of this version of trl", uid=f"{short}.dtype")
        value = given.get(field, value)
        kind = "bool" if isinstance(default, bool) else "str"
        result.attributes[field] = override(flags, [field], value, kind) if flags is not None else value
    result.attributes.update({key: value for key, value in given.items() if key not in result.attributes})
    return result


@calls(*SETTINGS)
def model_config(call: Call) -> Abstract:
    return settings(call.machine, call.name, dict(call.arguments.keywords))


@calls("trl.get_quantization_config", "trl.get_peft_config")
def from_model_config(call: Call) -> Abstract:
    """None unless the ModelConfig asks for quantization or adapters."""
    config = call.argument("model_args", 0)
    names = ("load_in_4bit", "load_in_8bit") if call.name.endswith("quantization_config") else ("use_peft",)
    if isinstance(config, Object) and all(
        call.machine.truth(config.attributes.get(name) or Unknown("?")) is False for name in names
    ):
        return Const(None)
    if isinstance(config, Object) and names[0] == "load_in_4bit":
        given = {name: config.attributes[name] for name in names if name in config.attributes}
        given["bnb_4bit_compute_dtype"] = config.attributes.get("dtype") or Unknown("the dtype")  # trl 1.16 hands it on
        return bits_and_bytes_config(Call(call.machine, "transformers.BitsAndBytesConfig", Arguments((), given), None))
    return Unknown("what the model configuration asks for", uid=f"{call.name} {id(config)}")


@calls("trl.*")
def anything(call: Call) -> Abstract:
    from t4lint.libraries.registry import library_default

    return library_default(call)
