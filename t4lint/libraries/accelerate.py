"""accelerate: the Accelerator owns autocast, the scaler and accumulation of what it prepares (read in 0.34 and 1.15)."""

from __future__ import annotations

from typing import Any

from t4lint.interpret.values import (
    LOCAL_RANK,
    NONE,
    PRESUMED,
    RANK,
    Abstract,
    Bound,
    Const,
    DictValue,
    Function,
    Instance,
    ListValue,
    Object,
    Partial,
    Step,
    Symbol,
    Tensor,
    Unknown,
    leaves,
)
from t4lint.libraries.api import Arguments, Call, aliases, calls, methods
from t4lint.libraries.torch import say_backward, set_device
from t4lint.libraries.torch_autocast import unknown_facts
from t4lint.libraries.torch_cuda import package_question
from t4lint.libraries.torch_distributed import say_collective, wrap_for_launch
from t4lint.trace import Call as CallEvent
from t4lint.trace import Engine

aliases(
    {"accelerate.accelerator.Accelerator": "accelerate.Accelerator", "accelerate.utils.imports": "accelerate.utils"}
)


@calls("accelerate.Accelerator")
def accelerator(call: Call) -> Abstract:
    m = call.machine
    given = call.argument("mixed_precision", None, Const(None))
    precision = m.mapped(given, lambda leaf: resolved_precision(call, leaf))
    accumulation = call.argument("gradient_accumulation_steps", None, Const(1))
    result = Object(
        "accelerator",
        call.name,
        {"$precision": precision, "$accumulation": accumulation, "$cpu": call.argument("cpu", None, Const(False))},
    )
    handlers = m.resolve(call.argument("kwargs_handlers", None, Const(None)))
    result.attributes["$ddp"] = handlers if isinstance(handlers, (ListValue, Const)) else Unknown("the handlers")
    m.emit(Engine, "Accelerator", result.uid, mixed_precision=precision, accumulation=accumulation)
    say_deepspeed(call, result.uid, precision)
    return result


def say_deepspeed(call: Call, uid: str, precision: Abstract) -> None:
    """The DeepSpeed configuration that `accelerate launch` brings, and who asks for which precision there."""
    from t4lint.libraries.configs import (
        accelerate_config,
        asked_precisions,
        deepspeed_engine,
        launched_deepspeed,
        settled,
    )

    m = call.machine
    if m.launch is None or m.launch.launcher != "accelerate":
        return
    config = launched_deepspeed(m.launch, accelerate_config(m.project, m.launch))
    if config is None:
        return
    there = deepspeed_engine(m, config, precision)
    if there is not None:
        asked = asked_precisions(m, config, precision)
        m.emit(Engine, "DeepSpeed", uid, mixed_precision=settled(there, asked), asked=asked)


def resolved_precision(call: Call, given: Abstract) -> Abstract:
    """What is given; else what `accelerate launch` puts into the environment; else "no"."""
    m = call.machine
    if isinstance(given, Const) and given.value is not None:
        value = str(given.value)
        return Const(value, given.origins) if value in ("no", "fp16", "bf16", "fp8") else given
    if isinstance(given, Const):
        launched = m.environment.get("ACCELERATE_MIXED_PRECISION")
        if launched is not None:
            return launched  # type: ignore[no-any-return]
        # `accelerate config` may have written a precision for this machine: seen nowhere in the program
        written = tuple(step for step in given.origins if step.node is not None or step.location is not None)
        default = Step("default", "Accelerator runs in full precision unless mixed_precision is given")
        return Const("no", (*written, default, PRESUMED))
    return given


@calls("accelerate.notebook_launcher", "accelerate.launchers.notebook_launcher")
def notebook_launcher(call: Call) -> Abstract:
    """Forks processes that each call the function (read in 0.20 to 1.15); the trace is that of the first."""
    m = call.machine
    function = call.argument("function", 0)
    asked = {"function": function, "num_processes": call.argument("num_processes", 2, Const(None))}
    m.emit(CallEvent, "notebook_launcher", function="accelerate.notebook_launcher", arguments=asked)
    m.write(m.globals, "$notebook launcher", True)
    given = m.resolve(call.argument("args", 1, ListValue((), "tuple")))
    if isinstance(function, (Function, Bound, Partial)):
        items = given.items if isinstance(given, ListValue) else ()
        m.call(function, Arguments(tuple(items), open=not isinstance(given, ListValue) or not given.complete))
    return NONE


@methods("accelerator", "prepare", "prepare_model", "prepare_data_loader", "prepare_optimizer")
def prepare(call: Call) -> Abstract:
    for value in call.arguments.values():
        for leaf in leaves(value):
            claim(call.machine, call.receiver, leaf)
    values = call.arguments.positional
    if len(values) == 1:
        return values[0]
    return ListValue(values, "tuple", complete=not call.arguments.open)


def claim(m: Any, engine: Object, value: Abstract) -> None:
    """The accelerator takes over a model, optimizer or loader."""
    if isinstance(value, (Object, Instance)):
        if m.is_module(value) or (isinstance(value, Object) and value.kind in ("optimizer", "loader")):
            m.write(value.attributes, "$engine", engine)
        if m.is_module(value):
            wrap_for_launch(m, value, options=ddp_options(m, engine))
            on_cpu = m.target.gpu is None or m.truth(engine.attributes.get("$cpu") or Const(False)) is True
            set_device(m, value, Const("cpu" if on_cpu else "cuda"))


DDP_KWARGS = "accelerate.DistributedDataParallelKwargs"


@calls(
    DDP_KWARGS, "accelerate.utils.DistributedDataParallelKwargs",
    "accelerate.utils.dataclasses.DistributedDataParallelKwargs",
)  # fmt: skip
def ddp_kwargs(call: Call) -> Abstract:
    """What the Accelerator hands to DDP, and the hook that it registers there (accelerate 1.15)."""
    m = call.machine
    options = {name: m.resolve(value) for name, value in call.arguments.keywords.items()}
    if call.arguments.open:
        options["**"] = Unknown("what else DDP is given")
    hook = options.pop("comm_hook", None)
    if hook is not None:
        name = m.mapped(
            hook, lambda leaf: Const(leaf.name.rpartition(".")[2], leaf.origins) if isinstance(leaf, Symbol) else leaf
        )
        state = m.resolve(options.pop("comm_state_option", Const(None)))
        asked = dict(state.items) if isinstance(state, DictValue) else {}
        said = {str(key): value for key, value in asked.items()}
        m.emit(CallEvent, "DistributedDataParallelKwargs", function=DDP_KWARGS, arguments={"comm_hook": name, **said})
    return Object("ddp kwargs", call.name, options)


def ddp_options(m: Any, engine: Object) -> dict[str, Any]:
    """The options of DDP that the Accelerator was given; "**" where there may be more."""
    handlers = engine.attributes.get("$ddp")
    if isinstance(handlers, Const) and handlers.value is None:
        return {}
    if not isinstance(handlers, ListValue) or not handlers.complete:
        return {"**": Unknown("what the Accelerator hands to DDP")}
    found: dict[str, Any] = {}
    for item in map(m.resolve, handlers.items):
        if isinstance(item, Object) and item.kind == "ddp kwargs":
            found |= item.attributes
        elif not isinstance(item, Object):
            found["**"] = Unknown("what the Accelerator hands to DDP")
    return found


@methods("accelerator", "backward")
def backward(call: Call) -> Abstract:
    loss = call.arguments.get("loss", 0)
    precision = call.machine.resolve(call.receiver.attributes["$precision"])
    scaled: Abstract = Unknown("the accelerator's precision")
    if isinstance(precision, Const):
        scaled = Const(f"scaler of {call.receiver.uid}" if precision.value == "fp16" else "none")
    facts = loss.facts if isinstance(loss, Tensor) else unknown_facts(loss)
    # read in 0.34 and 1.15: `backward` divides by the accumulation before anything else
    say_backward(call, facts, engine="Accelerator", scaled=scaled, divides=call.receiver.attributes["$accumulation"])
    return NONE


@methods(
    "accelerator",
    "accumulate",
    "no_sync",
    "main_process_first",
    "local_main_process_first",
    "profile",
    "join_uneven_inputs",
    "split_between_processes",
)
def context(call: Call) -> Abstract:
    name = call.name.rpartition(".")[2]
    if name in ("accumulate", "no_sync"):
        call.machine.emit(CallEvent, name, call.receiver.uid, function=f"accelerate.Accelerator.{name}", arguments={})
    return Object("null context", "accelerate context", {"value": NONE})


@methods("accelerator", "autocast")
def autocast(call: Call) -> Abstract:
    precision = call.machine.resolve(call.receiver.attributes["$precision"])
    dtype: Abstract = Unknown("the accelerator's precision")
    enabled: Abstract = Const(True)
    if isinstance(precision, Const):
        dtype = Const({"bf16": "bfloat16"}.get(str(precision.value), "float16"), precision.origins)
        enabled = Const(precision.value != "no")
    region: dict[str, Any] = {"device": Const("cuda"), "dtype": dtype, "enabled": enabled, "$role": "engine"}
    return Object("autocast", "accelerate.Accelerator.autocast", region)


@methods("accelerator", "getattr")
def attribute(call: Call) -> Abstract:
    name = call.arguments.positional[0].value  # type: ignore[attr-defined]
    if name == "device":
        from t4lint.libraries.torch_cuda import as_device

        return as_device(Const("cuda" if call.machine.target.gpu is not None else "cpu"))
    if name == "mixed_precision":
        precision: Abstract = call.receiver.attributes["$precision"]
        return precision
    if name in ("is_main_process", "is_local_main_process", "is_last_process"):
        return Const(True, (RANK,))  # the trace is that of the main process
    if name in ("process_index", "local_process_index"):
        return Const(0, (RANK if name == "process_index" else LOCAL_RANK,))
    if name == "sync_gradients":
        return Unknown("whether gradients are synchronized in this micro-batch", varies=True)
    if name == "scaler":
        return Unknown("the accelerator's scaler")
    if name == "gradient_accumulation_steps":
        return call.receiver.attributes["$accumulation"]  # type: ignore[no-any-return]
    return Unknown(f"{name} of the accelerator", uid=f"{call.receiver.uid}.{name}")


@methods("accelerator", "wait_for_everyone")
def wait_for_everyone(call: Call) -> Abstract:
    say_collective(call.machine, call.name)
    return NONE


@methods("accelerator", "unwrap_model", "gather", "gather_for_metrics", "reduce", "pad_across_processes")
def same(call: Call) -> Abstract:
    if not call.name.endswith("unwrap_model"):
        say_collective(call.machine, call.name)
    return call.arguments.positional[0] if call.arguments.positional else NONE


@methods("accelerator", "*")
def other(call: Call) -> Abstract:
    return Unknown("what the accelerator returns", varies=bool(call.machine.loops))


@calls(
    "accelerate.infer_auto_device_map",
    "accelerate.load_checkpoint_and_dispatch",
    "accelerate.utils.get_balanced_memory",
)
def placement(call: Call) -> Abstract:
    short = call.name.rpartition(".")[2]
    call.machine.emit(CallEvent, short, function=call.name, arguments=dict(call.arguments.keywords))
    return call.argument("model", 0) if short.startswith("load") else Unknown("where parts of the model go")


@calls("accelerate.utils.*", "accelerate.logging.*")
def utilities(call: Call) -> Abstract:
    if call.name.endswith("_available"):
        return package_question(call)
    return Unknown(f"what {call.name} returns is not known")
