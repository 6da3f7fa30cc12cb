"""ultralytics: `YOLO(...).train(...)`, the loader and the steps that it makes (read in 8.4, engine/trainer.py and data/build.py)."""

from __future__ import annotations

from typing import Any

from t4lint.interpret.values import Abstract, Const, Object, Step, Unknown
from t4lint.libraries.api import Call, calls, methods
from t4lint.libraries.torch import share
from t4lint.trace import Autocast, Backward, Engine, Loader
from t4lint.trace import Step as OptimizerStep

# `cfg/default.yaml`
DEFAULTS: dict[str, Any] = {"workers": 8, "batch": 16, "amp": True, "device": None, "nbs": 64}


@calls("ultralytics.YOLO", "ultralytics.RTDETR", "ultralytics.YOLOWorld", "ultralytics.models.yolo.model.YOLO")
def model(call: Call) -> Abstract:
    return Object("yolo", call.name, {"$model": call.argument("model", 0)})


def setting(call: Call, name: str) -> Abstract:
    default: Abstract = Const(DEFAULTS[name], (Step("default", f"{name}={DEFAULTS[name]} in ultralytics"),))
    if call.arguments.open or call.arguments.get("cfg") is not None:
        default = Unknown(f"{name} may be given by settings that are not known")
    return call.argument(name, None, default)


def capped(m: Any, asked: Abstract) -> Abstract:
    """ultralytics takes no more workers than there are CPUs for each GPU."""

    def lower(leaf: Abstract) -> Abstract:
        there = m.target.vcpus
        if not isinstance(leaf, Const) or not isinstance(leaf.value, int) or leaf.value <= 1:
            return leaf
        if there is None:
            return Unknown("as many workers as there are CPUs, if more were asked for", leaf.origins)
        return Const(min(there // max(m.target.gpus or 1, 1), leaf.value), leaf.origins)

    result: Abstract = m.mapped(asked, lower)
    return result


@methods("yolo", "train")
def train(call: Call) -> Abstract:
    m, engine = call.machine, call.receiver
    batch, amp = setting(call, "batch"), setting(call, "amp")
    device = device_of(m, setting(call, "device"))
    if device.value == "cuda":
        m.globals["$cuda"] = True
    mixed = m.mapped(amp, lambda leaf: precision(leaf, device.value))
    m.emit(Engine, "ultralytics", engine.uid, mixed_precision=mixed)
    m.emit(
        Loader,
        "train",
        engine.uid,
        batch_size=batch,
        workers=capped(m, setting(call, "workers")),
        pin_memory=Const(device.value == "cuda"),
        persistent_workers=Const(True),  # its loader keeps the workers over the epochs
        shuffle=Const(True),
        device=device,
        work=Const(("decode", "augment")),
    )
    scaled = m.mapped(mixed, lambda leaf: Const(f"scaler of {engine.uid}" if is_fp16(leaf) else "none", leaf.origins))
    region = m.mapped(mixed, lambda leaf: Const("float16" if is_fp16(leaf) else "none", leaf.origins))
    if m.truth(m.mapped(mixed, lambda leaf: Const(is_fp16(leaf)))) is True:
        m.emit(Autocast, "engine", engine.uid, device=device, dtype=Const("float16"), enabled=Const(True))
    dtype = m.mapped(mixed, lambda leaf: Const("float16" if is_fp16(leaf) else "float32", leaf.origins))
    m.emit(
        Backward, "", engine.uid, device=device, dtype=dtype, autocast=region, scaled_by=scaled, engine="ultralytics"
    )
    m.emit(
        OptimizerStep,
        "",
        f"optimizer of {engine.uid}",
        device=device,
        math=m.mapped(dtype, share),
        micro_batch=batch,
        engine="ultralytics",
    )
    return Unknown("the results of the training")


def device_of(m: Any, asked: Abstract) -> Const:
    on_cpu = m.target.gpu is None or (isinstance(asked, Const) and str(asked.value) in ("cpu", "mps"))
    return Const("cpu" if on_cpu else "cuda")


def precision(amp: Abstract, device: object) -> Abstract:
    if not isinstance(amp, Const):
        return Unknown("amp is not known", amp.origins)
    return Const("fp16" if amp.value and device == "cuda" else "no", amp.origins)


def is_fp16(mixed: Abstract) -> bool:
    return isinstance(mixed, Const) and mixed.value == "fp16"


@methods("yolo", "getattr")
def attribute(call: Call) -> Abstract:
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    return Unknown(f"{name} of the model", uid=f"{call.receiver.uid}.{name}")


@methods("yolo", "*")
def method(call: Call) -> Abstract:
    return Unknown(f"what {call.name} returns", varies=bool(call.machine.loops))


@calls("ultralytics.*")
def anything(call: Call) -> Abstract:
    from t4lint.libraries.registry import library_default

    return library_default(call)
