"""torch.distributed and the wrappers for several GPUs."""

from __future__ import annotations

from typing import Any

from t4lint.interpret.values import NONE, Abstract, Choice, Const, Object, Symbol, Unknown
from t4lint.libraries.api import Call, aliases, calls, methods
from t4lint.trace import Call as CallEvent
from t4lint.trace import Engine, ProcessGroup, Wrap

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
    if WRAPPERS[call.name] == "fsdp":
        apply_policy(m, module, call.arguments.get("mixed_precision"))
    m.emit(
        Wrap,
        "",
        getattr(module, "uid", ""),
        how=Const(WRAPPERS[call.name], (m.here("literal", call.name),)),
        options=options,
    )
    return wrapper


@calls("torch.distributed.fsdp.MixedPrecision", "torch.distributed.fsdp.MixedPrecisionPolicy")
def precision_policy(call: Call) -> Abstract:
    given = call.arguments.get("param_dtype", 0)
    written = dict(call.arguments.keywords)
    call.machine.emit(CallEvent, call.name.rpartition(".")[2], function=call.name, arguments=written)
    return Object(
        "precision policy",
        call.name,
        {"param_dtype": call.machine.resolve(given) if given is not None else Const(None)},
    )


def apply_policy(m: Any, module: Any, policy: Abstract | None) -> None:
    """The dtype that a sharded module computes in, when a policy gives one."""
    policy = m.resolve(policy) if policy is not None else None
    if policy is None or (isinstance(policy, Const) and policy.value is None) or not hasattr(module, "attributes"):
        return
    dtype: Abstract = Unknown("the precision policy")
    if isinstance(policy, Object) and policy.kind == "precision policy":
        dtype = policy.attributes["param_dtype"]
        if isinstance(dtype, Const) and dtype.value is None:
            return
    elif isinstance(policy, Choice):
        dtype = m.mapped(
            policy,
            lambda leaf: (
                leaf.attributes["param_dtype"]
                if isinstance(leaf, Object) and leaf.kind == "precision policy"
                else Const(None)
            ),
        )
    m.write(module.attributes, "$compute", dtype)
    words = {"torch.float16": "fp16", "torch.bfloat16": "bf16"}
    mixed = m.mapped(
        dtype,
        lambda leaf: (
            Const(words.get(leaf.name, "no"), leaf.origins)
            if isinstance(leaf, Symbol)
            else Const("no")
            if isinstance(leaf, Const)
            else leaf
        ),
    )
    m.emit(Engine, "FSDP", getattr(module, "uid", ""), mixed_precision=mixed, sharding=Const("fsdp"))


@calls("torch.distributed.fsdp.fully_shard", "torch.distributed._composable.fsdp.fully_shard")
def fully_shard(call: Call) -> Abstract:
    module = call.argument("module", 0)
    apply_policy(call.machine, module, call.arguments.get("mp_policy"))
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
