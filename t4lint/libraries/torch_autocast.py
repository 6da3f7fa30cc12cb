"""Autocast and GradScaler."""

from __future__ import annotations

from typing import Any

from t4lint.interpret.values import (
    NONE,
    Abstract,
    Const,
    Object,
    Symbol,
    Tensor,
    TensorFacts,
    Unknown,
)
from t4lint.libraries.api import Call, aliases, calls, methods
from t4lint.libraries.torch_cuda import device_type
from t4lint.trace import Autocast, Scaler
from t4lint.trace import Call as CallEvent

aliases({
    "torch.amp.autocast_mode.autocast": "torch.autocast",
    "torch.amp.autocast": "torch.autocast",
    "torch.cuda.amp.autocast_mode.autocast": "torch.cuda.amp.autocast",
    "torch.amp.grad_scaler.GradScaler": "torch.amp.GradScaler",
    "torch.GradScaler": "torch.amp.GradScaler",  # torch 2.3 and later
    "torch.cuda.amp.grad_scaler.GradScaler": "torch.cuda.amp.GradScaler",
    "torch.half": "torch.float16",
    "torch.float": "torch.float32",
    "torch.double": "torch.float64",
})  # fmt: skip

# torch's own defaults of the autocast dtype by device (torch 2.13, torch/amp/autocast_mode.py)
DEFAULT_DTYPES = {"cuda": "torch.float16", "cpu": "torch.bfloat16"}


@calls("torch.autocast")
def autocast(call: Call) -> Abstract:
    device = call.argument("device_type", 0, Const("cuda"))
    return region(call, device, call.arguments.get("dtype", 1), call.argument("enabled", 2, Const(True)))


@calls("torch.cuda.amp.autocast")
def cuda_autocast(call: Call) -> Abstract:
    # the positional order differs from torch.autocast: enabled, dtype, cache_enabled
    call.machine.emit(CallEvent, "deprecated", function=call.name, arguments={})
    return region(call, Const("cuda"), call.arguments.get("dtype", 1), call.argument("enabled", 0, Const(True)))


@calls("torch.cpu.amp.autocast")
def cpu_autocast(call: Call) -> Abstract:
    return region(call, Const("cpu"), call.arguments.get("dtype", 1), call.argument("enabled", 0, Const(True)))


def region(call: Call, device: Abstract, dtype: Abstract | None, enabled: Abstract) -> Abstract:
    kind = device_type(call.machine, device)
    given = call.machine.resolve(dtype) if dtype is not None else NONE
    if isinstance(given, Const) and given.value is None:
        if kind in DEFAULT_DTYPES:
            step = call.machine.here("default", f"autocast's default dtype on {kind}")
            given = Symbol(DEFAULT_DTYPES[kind], (step,))
        else:
            given = Unknown("autocast's default dtype on a device that is not known")
    return Object("autocast", call.name, {"device": device, "dtype": given, "enabled": enabled})


@methods("autocast", "enter")
def enter(call: Call) -> Abstract:
    attributes = call.receiver.attributes
    device = attributes["device"]
    if isinstance(device, Object):
        device = device.attributes["type"]
    call.machine.emit(
        Autocast, attributes.get("$role", ""), device=device, dtype=attributes["dtype"], enabled=attributes["enabled"]
    )
    return call.receiver  # type: ignore[no-any-return]


@methods("autocast", "__enter__")
def enter_by_hand(call: Call) -> Abstract:
    call.machine.regions.append(call.receiver)
    return enter(call)


@methods("autocast", "__exit__")
def leave_by_hand(call: Call) -> Abstract:
    if call.receiver in call.machine.regions:
        call.machine.regions.remove(call.receiver)
    return NONE


@methods("autocast", "__call__")
def decorate(call: Call) -> Abstract:
    """`@autocast(...)` around a function: the function is called inside the region."""
    function = call.arguments.get("func", 0)
    return function if function is not None else NONE


def asked_dtype(m: Any) -> tuple[str, Any]:
    """The dtype of the innermost autocast region as asked for, and the region: ("none", None) outside one."""
    for item in [*reversed(m.regions), m.globals.get("torch.global_autocast")]:
        if isinstance(item, Unknown) and item.autocast:
            return "?", None  # a context manager that cannot be followed may be anything
        if not (isinstance(item, Object) and item.kind == "autocast"):
            continue
        enabled = m.truth(item.attributes["enabled"])
        if enabled is False:
            return "none", None
        dtype = m.resolve(item.attributes["dtype"])
        if enabled is None or not isinstance(dtype, (Symbol, Const)):
            return "?", item
        return dtype_name(dtype), item
    return "none", None


def active_dtype(m: Any) -> str:
    """The dtype that matmuls take under autocast on the target: CUDA regions do nothing on a target without a GPU."""
    dtype, item = asked_dtype(m)
    if item is None:
        return dtype
    kind = device_type(m, item.attributes["device"])
    if m.target.gpu is None and kind == "cuda":
        return "none"
    if m.target.gpu is not None and kind == "cpu":
        return "none"
    return dtype


def dtype_name(value: Abstract) -> str:
    """`torch.float16` → `float16`; "?" for what is not a dtype."""
    if isinstance(value, Symbol) and value.name.startswith("torch."):
        return value.name.removeprefix("torch.")
    if isinstance(value, Const) and isinstance(value.value, str):
        name = value.value.removeprefix("torch.")
        return {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "half": "float16"}.get(name, name)
    return "?"


# --- GradScaler ----------------------------------------------------------------------------------------------------


@calls(
    "torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler"
)
def grad_scaler(call: Call) -> Abstract:
    # torch.amp.GradScaler(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
    position = 5 if call.name == "torch.amp.GradScaler" else 4
    enabled = call.argument("enabled", position, Const(True))
    scaler = Object("scaler", call.name, {"enabled": enabled})
    if call.name == "torch.cuda.amp.GradScaler":
        call.machine.emit(CallEvent, "deprecated", function=call.name, arguments={})
    sharded = Const(call.name.endswith("ShardedGradScaler"))
    call.machine.emit(Scaler, subject=scaler.uid, operation="init", enabled=enabled, sharded=sharded)
    return scaler


@methods("scaler", "scale")
def scale(call: Call) -> Abstract:
    value = call.arguments.get("outputs", 0)
    say(call, "scale")
    if call.machine.truth(call.receiver.attributes["enabled"]) is False:
        return value if value is not None else NONE
    facts = value.facts if isinstance(value, Tensor) else unknown_facts(value)
    return Tensor(facts.but(scaled_by=call.receiver.uid))


def unknown_facts(value: Abstract | None) -> TensorFacts:
    """What is known of a loss that came out of an unresolved call: the autocast region it was made in."""
    if isinstance(value, Unknown) and value.autocast:
        return TensorFacts(autocast=frozenset({value.autocast}), math=frozenset({"?"}), graph=True)
    return TensorFacts(graph=True, math=frozenset({"?"}), autocast=frozenset({"?"}))


def say(call: Call, operation: str, optimizer: str = "") -> None:
    call.machine.emit(
        Scaler,
        subject=call.receiver.uid,
        operation=operation,
        optimizer=optimizer,
        enabled=call.receiver.attributes["enabled"],
    )


def optimizer_name(value: Abstract | None) -> str:
    """A name for the optimizer that a scaler is called with; empty when it cannot be told which."""
    if isinstance(value, Object):
        return value.uid
    return f"unknown {value.uid}" if isinstance(value, Unknown) and not value.varies else ""


@methods("scaler", "unscale_")
def unscale(call: Call) -> Abstract:
    say(call, "unscale", optimizer_name(call.arguments.get("optimizer", 0)))
    return NONE


@methods("scaler", "step")
def step(call: Call) -> Abstract:
    from t4lint.libraries.torch import optimizer_step

    optimizer = call.arguments.get("optimizer", 0)
    say(call, "step", optimizer_name(optimizer))
    optimizer_step(call.machine, optimizer, through_scaler=True)
    return NONE


@methods("scaler", "update")
def update(call: Call) -> Abstract:
    say(call, "update")
    return NONE


@methods("scaler", "is_enabled")
def is_enabled(call: Call) -> Abstract:
    enabled: Abstract = call.receiver.attributes["enabled"]
    return enabled


@methods("scaler", "*")
def other(call: Call) -> Abstract:
    return Unknown("a value of the scaler", varies=True)


@calls("torch.set_autocast_enabled", "torch.set_autocast_dtype", "torch.set_autocast_gpu_dtype")
def set_autocast(call: Call) -> Abstract:
    """Autocast switched on by hand, for everything that follows."""
    on = call.machine.truth(call.arguments.positional[-1]) if call.arguments.positional else None
    region_: Any = (
        None
        if on is False
        else Object(
            "autocast",
            call.name,
            {"device": Const("cuda"), "dtype": Unknown("the dtype set by hand"), "enabled": Const(True)},
        )
    )
    call.machine.write(call.machine.globals, "torch.global_autocast", region_)
    return NONE


@calls("torch.is_autocast_enabled")
def is_autocast_enabled(call: Call) -> Abstract:
    dtype = active_dtype(call.machine)
    return Unknown("autocast") if dtype == "?" else Const(dtype != "none")


@calls("torch.get_autocast_gpu_dtype", "torch.get_autocast_dtype")
def autocast_gpu_dtype(call: Call) -> Abstract:
    dtype = active_dtype(call.machine)
    return Symbol(f"torch.{dtype}") if dtype not in ("none", "?") else Symbol("torch.float16")
