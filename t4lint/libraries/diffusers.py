"""diffusers: the networks of a diffusion model, which training scripts load one by one (read in 0.21 to 0.42).

Pipelines, schedulers and trackers train nothing: what they return is not known.
"""

from __future__ import annotations

from t4lint.interpret.values import NONE, Abstract, Const, Object
from t4lint.libraries.api import Call, calls
from t4lint.libraries.registry import library_default
from t4lint.libraries.torch import dtype_like
from t4lint.trace import Model

# Classes of networks: `from_pretrained` loads one part (`subfolder=`) of a checkpoint.
NETWORKS = (
    "UNet2DConditionModel", "UNet2DModel", "AutoencoderKL", "ControlNetModel", "DiTTransformer2DModel", "PixArtTransformer2DModel",
    "SD3Transformer2DModel", "FluxTransformer2DModel", "Transformer2DModel", "VQModel", "AutoencoderTiny", "T2IAdapter",
)  # fmt: skip


@calls(*[f"diffusers.{name}.from_pretrained" for name in NETWORKS])
def load(call: Call) -> Abstract:
    """A network in float32, whatever the checkpoint holds, unless `torch_dtype` asks for another dtype."""
    m = call.machine
    cls = call.name.rpartition(".")[0].rpartition(".")[2]
    asked = m.resolve(call.arguments.get("torch_dtype") or NONE)
    dtype: Abstract = Const(
        "float32", (m.here("default", f"diffusers loads a {cls} in float32 unless torch_dtype is given"),)
    )
    if not (isinstance(asked, Const) and asked.value is None):
        dtype = m.mapped(asked, lambda leaf: dtype_like(m, leaf) or leaf)
    return network(call, cls, call.argument("pretrained_model_name_or_path", 0), dtype, "load")


@calls(*[f"diffusers.{name}" for name in NETWORKS], *[f"diffusers.{name}.from_config" for name in NETWORKS])
def create(call: Call) -> Abstract:
    cls = next(name for name in NETWORKS if name in call.name.split("."))
    return network(call, cls, NONE, Const("float32"), "create")


def network(call: Call, cls: str, checkpoint: Abstract, dtype: Abstract, role: str) -> Object:
    m = call.machine
    fields = {"$dtype": dtype, "$device": Const("cpu"), "training": Const(role == "create"), "$checkpoint": checkpoint}
    module = Object("module", f"diffusers.{cls}", fields)
    named = {} if role == "create" else {"name": checkpoint}
    m.emit(Model, role, module.uid, dtype=dtype, quantization=Const("none"), evidence=f"diffusers.{cls}", **named)
    return module


@calls("diffusers.*")
def anything(call: Call) -> Abstract:
    return library_default(call)
