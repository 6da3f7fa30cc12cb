"""peft: adapters on a frozen base (read in 0.7 to 0.21).

Pivot: since 0.11 adapters on a 16-bit base are made in float32 (`autocast_adapter_dtype`, peft#1706).
"""

from __future__ import annotations

from typing import Any

from t4lint.interpret.values import NONE, PRESUMED, Abstract, Const, ListValue, Object, Step, Unknown
from t4lint.libraries.api import Call, aliases, calls, methods
from t4lint.libraries.families import find_family
from t4lint.libraries.torch import inner
from t4lint.trace import Call as CallEvent

# model types that LoRA has default targets for (TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING, peft 0.21.2); the table grew from
# version to version, so an older peft has no more
LORA_TARGETS = frozenset({
    "RefinedWeb", "RefinedWebModel", "bart", "bert", "blip-2", "bloom", "btlm", "chatglm", "codegen", "deberta", "deberta-v2",
    "electra", "falcon", "gemma", "gemma2", "gemma3_text", "gemma4", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj",
    "layoutlm", "llama", "llama4", "mistral", "mixtral", "mpt", "mt5", "nemotron_h", "opt", "phi", "qwen2", "qwen3", "roberta",
    "rwkv", "rwkv7", "stablelm", "t5", "xlm-roberta",
})  # fmt: skip

aliases({
    "peft.mapping.get_peft_model": "peft.get_peft_model",
    "peft.tuners.lora.LoraConfig": "peft.LoraConfig",
    "peft.tuners.lora.config.LoraConfig": "peft.LoraConfig",
})  # fmt: skip


@calls("peft.get_peft_model", "peft.PeftModel.from_pretrained")
def adapted(call: Call) -> Abstract:
    """The same model, from here on with few trainable parameters."""
    m = call.machine
    model = call.argument("model", 0)
    if isinstance(model, Object) and model.kind == "module":
        config = m.resolve(call.arguments.get("peft_config", 1) or NONE)
        m.write(model.attributes, "$adapters", Const(True))
        m.write(model.attributes, "$touched", Const(False))
        m.write(model.attributes, "$frozen", Const(False))
        upcast = call.arguments.get("autocast_adapter_dtype")
        m.write(model.attributes, "$trained", trained_dtypes(m, model, config, upcast))
        if call.name.endswith("get_peft_model"):
            m.emit(
                CallEvent, "get_peft_model", model.uid, function=call.name, arguments=adapter_fields(model, config),
            )  # fmt: skip
    return model


def adapter_fields(model: Object, config: Abstract) -> dict[str, Abstract]:
    """What a rule about adapters needs: the model's name, and the fields of the configuration as they were given."""
    quantization = model.attributes.get("$quantization")
    fields: dict[str, Abstract] = {"quantization": quantization} if isinstance(quantization, Abstract) else {}
    checkpoint = model.attributes.get("$checkpoint")
    if isinstance(checkpoint, Abstract):
        fields["model"] = checkpoint
    if isinstance(config, Object) and config.kind == "adapter config":
        fields.update({name: value for name, value in config.attributes.items() if not name.startswith("$")})
        fields["config"] = Const(config.name.rpartition(".")[2])
        fields["targets"] = default_targets(checkpoint, config)
    return fields


def default_targets(checkpoint: Any, config: Object) -> Abstract:
    """Where the adapters go when the configuration does not say: "named" if it does, else "default" or "none"."""
    if config.attributes.get("$open") is not None:
        return Unknown("which arguments the configuration has")
    said = [config.attributes.get(name) for name in ("target_modules", "target_parameters")]
    if any(value is not None and not (isinstance(value, Const) and value.value is None) for value in said):
        return Const("named")
    name = checkpoint.value if isinstance(checkpoint, Const) else None
    family = find_family(name) if isinstance(name, str) else None
    if family is None or family.name in SEVERAL_TYPES:
        return Unknown("the architecture of the model")
    return Const("default" if family.name in LORA_TARGETS else "none", (Step("derived", family.name), PRESUMED))


# families whose checkpoints have more than one model type
SEVERAL_TYPES = frozenset({"gemma3", "gemma4", "blip_2"})


def trained_dtypes(m: Any, model: Any, config: Abstract, upcast: Abstract | None) -> Abstract:
    """The dtypes of the parameters that are trained on top of a base, as a tuple."""
    model = inner(model)
    if not isinstance(config, Object) or config.kind != "adapter config" or config.attributes.get("$open") is not None:
        return Unknown("the configuration of the adapters")
    base = m.resolve(model.attributes.get("$dtype") or Unknown("the dtype of the base"))
    quantization = m.resolve(model.attributes.get("$quantization") or Const("none"))
    quantized = not (isinstance(quantization, Const) and quantization.value == "none")
    copies = m.resolve(config.attributes.get("modules_to_save") or NONE)
    saved = not (isinstance(copies, Const) and not copies.value) and not (
        isinstance(copies, ListValue) and not copies.items
    )
    on = m.truth(upcast) if upcast is not None else True
    dtypes: list[Const] = []
    if quantized or (on is True and m.at_least("peft", "0.11")):
        dtypes.append(Const("float32"))
    elif on is None or not isinstance(base, Const):
        return Unknown("the dtype of the adapters")
    else:
        dtypes.append(Const(base.value, base.origins))
    if saved:
        if isinstance(copies, Unknown):
            return Unknown("which modules are trained in full")
        if quantized or not isinstance(base, Const):
            return Unknown("the dtype of the modules that are trained in full")
        if base.value not in [dtype.value for dtype in dtypes]:
            dtypes.append(Const(base.value, base.origins))
    if saved and isinstance(copies, ListValue) and copies.items:
        origins = copies.origins or copies.items[0].origins
    else:
        origins = copies.origins if saved else upcast.origins if upcast is not None else base.origins
    return ListValue(tuple(dtypes), "tuple", origins=origins)


@calls(
    "peft.prepare_model_for_kbit_training",
    "peft.utils.prepare_model_for_kbit_training",
    "peft.prepare_model_for_int8_training",
)
def prepared(call: Call) -> Abstract:
    """The base is frozen, and what is not quantized in it becomes float32."""
    m = call.machine
    model = call.argument("model", 0)
    if isinstance(model, Object) and model.kind == "module":
        cast = Const("float32", (m.here("derived", "prepare_model_for_kbit_training casts to float32"),))
        m.write(model.attributes, "$dtype", cast)
        m.write(model.attributes, "$frozen", Const(True))
        checkpoint = model.attributes.get("$checkpoint")
        name = checkpoint if isinstance(checkpoint, Abstract) else Unknown("which model it is")
        m.emit(
            CallEvent, "prepared", model.uid, function="peft.prepare_model_for_kbit_training", arguments={"model": name}
        )
        if m.truth(call.argument("use_gradient_checkpointing", 1, Const(True))) is not False:
            done = {"done": Const(True)}
            m.emit(CallEvent, "input grads", model.uid, function="enable_input_require_grads", arguments=done)
    return model


@methods("module", "add_adapter")
def add_adapter(call: Call) -> Abstract:
    """transformers' and diffusers' own way to an adapter: its dtype is left to the library."""
    if isinstance(call.receiver, Object):
        call.machine.write(call.receiver.attributes, "$adapters", Const(True))
    return NONE


@calls(
    "peft.LoraConfig",
    "peft.PeftConfig",
    "peft.PrefixTuningConfig",
    "peft.PromptTuningConfig",
    "peft.IA3Config",
    "peft.AdaLoraConfig",
    "peft.LoHaConfig",
    "peft.LoKrConfig",
    "peft.VeraConfig",
    "peft.OFTConfig",
)
def config(call: Call) -> Abstract:
    given = dict(call.arguments.keywords)
    m = call.machine
    more: dict[str, Abstract] = {"**": Unknown("star-arguments that are not known")} if call.arguments.open else {}
    m.emit(CallEvent, call.name.rpartition(".")[2], "", function=call.name, arguments={**given, **more})
    if call.arguments.open:
        given["$open"] = Const(True)
    return Object("adapter config", call.name, given)


@calls("peft.*")
def anything(call: Call) -> Abstract:
    return Unknown(f"what {call.name} returns is not known")
