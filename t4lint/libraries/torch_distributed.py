"""torch.distributed and the wrappers for several GPUs."""

from __future__ import annotations

from typing import Any

from t4lint.interpret.values import NONE, Abstract, Const, Object, Unknown
from t4lint.libraries.api import Call, aliases, calls, methods
from t4lint.trace import ProcessGroup, Wrap

aliases({"torch.distributed.distributed_c10d": "torch.distributed"})

WRAPPERS = {
    "torch.nn.DataParallel": "data_parallel",
    "torch.nn.parallel.DistributedDataParallel": "ddp",
    "torch.distributed.fsdp.FullyShardedDataParallel": "fsdp",
}


@calls(*WRAPPERS)
def wrap(call: Call) -> Abstract:
    m = call.machine
    module = call.argument("module", 0)
    options = dict(call.arguments.keywords)
    wrapper = Object("module", call.name, {"module": module, "$wrapper": Const(True)})
    for name in ("$dtype", "$device", "training", "$engine"):
        if hasattr(module, "attributes") and name in module.attributes:
            wrapper.attributes[name] = module.attributes[name]
    if WRAPPERS[call.name] != "fsdp" and hasattr(module, "attributes"):
        m.globals["$cuda"] = True
    m.emit(
        Wrap,
        "",
        getattr(module, "uid", ""),
        how=Const(WRAPPERS[call.name], (m.here("literal", call.name),)),
        options=options,
    )
    return wrapper


@calls("torch.distributed.fsdp.fully_shard", "torch.distributed._composable.fsdp.fully_shard")
def fully_shard(call: Call) -> Abstract:
    module = call.argument("module", 0)
    call.machine.emit(
        Wrap, "fsdp", getattr(module, "uid", ""), how=Const("fsdp", (call.machine.here("literal", call.name),))
    )
    return module


@calls("torch.distributed.init_process_group")
def init_process_group(call: Call) -> Abstract:
    call.machine.emit(
        ProcessGroup,
        backend=call.argument("backend", 0, Const(None)),
        rank=call.argument("rank", None, Const(-1)),
        world_size=call.argument("world_size", None, Const(-1)),
    )
    call.machine.write(call.machine.globals, "$process group", True)
    return NONE


@calls("torch.distributed.is_available")
def available(call: Call) -> Abstract:
    return Const(True)


@calls("torch.distributed.is_initialized", "torch.distributed.is_torchelastic_launched")
def initialised(call: Call) -> Abstract:
    m = call.machine
    if call.name.endswith("launched"):
        return Const(m.launch is not None and m.launch.launcher in ("torchrun", "accelerate"))
    return Const(bool(m.globals.get("$process group")))


@calls("torch.distributed.get_rank", "torch.distributed.get_world_size", "torch.distributed.get_node_local_rank")
def rank(call: Call) -> Abstract:
    m = call.machine
    if call.name.endswith("world_size"):
        return world_size(m)
    if not m.globals.get("$process group") and m.launch is None:
        return Const(0)
    return Const(0, varies=False)  # the trace is that of rank 0


def world_size(m: Any) -> Abstract:
    launch = m.launch
    if launch is None:
        return Const(1) if not m.globals.get("$process group") else Unknown("how many processes run", uid="world size")
    nodes, per_node = launch.nodes, launch.processes_per_node
    if nodes.known and per_node.known and isinstance(nodes.it, int) and isinstance(per_node.it, int):
        return Const(nodes.it * per_node.it)
    return Unknown("how many processes run", uid="world size")


def wrap_for_launch(m: Any, module: Abstract, arguments: Any = None) -> None:
    """What an engine does with a model when several processes were launched: DDP, unless it was told to shard."""
    launch = m.launch
    if launch is None or not launch.nodes.known or not launch.processes_per_node.known:
        return
    processes = world_size(m)
    several = not isinstance(processes, Const) or processes.value > 1
    sharded = arguments is not None and any(
        m.truth(arguments.get(name) or NONE) is not False for name in ("deepspeed", "fsdp")
    )
    if (
        launch.launcher == "deepspeed"
        or "use_deepspeed" in launch.launcher_flags
        or "config_file" in launch.launcher_flags
    ):
        sharded = True
    if several and not sharded:
        m.emit(
            Wrap,
            "engine",
            getattr(module, "uid", ""),
            how=Const("ddp", (m.here("derived", "several processes: the engine wraps the model in DDP"),)),
        )


@calls("torch.distributed.*")
def collective(call: Call) -> Abstract:
    return NONE


@methods("module", "no_sync", "join")
def no_sync(call: Call) -> Abstract:
    return Object("null context", "no_sync", {"value": NONE})
