"""unsloth: loads models in the dtype that the GPU has; importing it replaces torch's bf16 predicate (read in 2026.10)."""

from __future__ import annotations

from t4lint.interpret.values import Abstract, Const, ListValue, Object, Unknown
from t4lint.libraries.api import Call, calls


@calls(
    "unsloth.FastLanguageModel.from_pretrained",
    "unsloth.FastModel.from_pretrained",
    "unsloth.FastVisionModel.from_pretrained",
)
def load(call: Call) -> Abstract:
    """A model and its tokenizer: fp16 on a GPU without bf16, whatever was asked for; fp32 where all of it is trained."""
    full = call.argument("full_finetuning", None, Const(False))
    dtype: Abstract = Unknown("whether unsloth trains all weights, which it casts to float32 then")
    if isinstance(full, Const):
        dtype = Const("float32" if full.value else "float16")
    model = Object(
        "module",
        "unsloth.FastLanguageModel",
        {"$dtype": dtype, "$device": Const("cuda"), "training": Const(False), "$checkpoint": call.argument("model_name", 0),
         "$quantization": Const("4bit" if call.constant("load_in_4bit", None, True) else "none")},
    )  # fmt: skip
    return ListValue((model, Unknown("a tokenizer")), "tuple")


@calls(
    "unsloth.FastLanguageModel.get_peft_model",
    "unsloth.FastModel.get_peft_model",
    "unsloth.FastVisionModel.get_peft_model",
)
def adapters(call: Call) -> Abstract:
    model = call.argument("model", 0)
    if isinstance(model, Object) and model.kind == "module":
        call.machine.write(model.attributes, "$adapters", Const(True))
    return model


@calls("unsloth.*")
def anything(call: Call) -> Abstract:
    return Unknown(f"what {call.name} returns is not known")
