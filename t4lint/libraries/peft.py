"""peft: adapters on a frozen base (read in 0.21)."""

from __future__ import annotations

from t4lint.interpret.values import Abstract, Const, Object, Unknown
from t4lint.libraries.api import Call, calls


@calls("peft.get_peft_model", "peft.PeftModel.from_pretrained", "peft.mapping.get_peft_model")
def adapted(call: Call) -> Abstract:
    """The same model, from here on with few trainable parameters."""
    model = call.argument("model", 0)
    if isinstance(model, Object) and model.kind == "module":
        call.machine.write(model.attributes, "$adapters", Const(True))
    return model


@calls("peft.prepare_model_for_kbit_training")
def prepared(call: Call) -> Abstract:
    return call.argument("model", 0)


@calls(
    "peft.LoraConfig",
    "peft.PeftConfig",
    "peft.PrefixTuningConfig",
    "peft.PromptTuningConfig",
    "peft.IA3Config",
    "peft.AdaLoraConfig",
)
def config(call: Call) -> Abstract:
    return Object("adapter config", call.name, dict(call.arguments.keywords))


@calls("peft.*")
def anything(call: Call) -> Abstract:
    return Unknown(f"what {call.name} returns is not known")
