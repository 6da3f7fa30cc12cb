"""torchvision and timm: models by name."""

from __future__ import annotations

from t4lint.interpret.values import Abstract, Const, Object, Unknown
from t4lint.libraries.api import Call, calls
from t4lint.libraries.torch import default_dtype, new_optimizer
from t4lint.trace import Model


@calls("torchvision.models.*", "timm.create_model", "timm.models.create_model", "timm.models.*")
def create_model(call: Call) -> Abstract:
    """A vision model in fp32 on the CPU (torchvision 0.29 and timm 1.0 build nothing else by default)."""
    m = call.machine
    if call.name.rpartition(".")[2] in ("get_model", "create_model"):
        name = call.argument("model_name", 0)
    elif call.name.rpartition(".")[2][:1].islower():
        name = Const(call.name.rpartition(".")[2], (m.here("literal", call.name),))
    else:
        name = Unknown("which model it is")
    if call.name.rpartition(".")[2].startswith(
        ("get_", "list_", "is_", "resume_", "load_", "safe_", "register_")
    ) and not call.name.endswith("get_model"):
        return Unknown(f"what {call.name} returns is not known")
    module = Object(
        "module",
        call.name,
        {"$dtype": default_dtype(m), "$device": Const("cpu"), "training": Const(True), "$checkpoint": name},
    )
    if "norm_layer" in call.arguments.keywords:
        module.attributes["norm_layer"] = call.arguments.keywords["norm_layer"]
    m.emit(Model, "create", module.uid, name=name, dtype=default_dtype(m))
    return module


@calls("timm.optim.create_optimizer_v2", "timm.optim.create_optimizer")
def create_optimizer(call: Call) -> Abstract:
    return new_optimizer(call, "timm")


@calls("timm.data.create_loader")
def create_loader(call: Call) -> Abstract:
    return Object("loader", call.name)


@calls(
    "timm.data.*",
    "timm.layers.*",
    "timm.scheduler.*",
    "timm.utils.*",
    "torchvision.ops.*",
    "torchvision.utils.*",
    "torchvision.io.*",
)
def other(call: Call) -> Abstract:
    return Unknown(f"what {call.name} returns is not known")
