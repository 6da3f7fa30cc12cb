"""torch.distributed and the wrappers for several GPUs."""

from __future__ import annotations

from typing import Any

from t4lint.interpret.values import NONE, PRESUMED, Abstract, Choice, Const, ListValue, Object, Step, Symbol, Unknown
from t4lint.libraries.api import Arguments, Call, aliases, calls, methods
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
    how = WRAPPERS[call.name]
    reduces: Abstract = Const("always")
    if how != "ddp":
        reduces = Unknown("the wrapper is not DistributedDataParallel")
    elif mentioned(m, "no_sync", "require_backward_grad_sync"):
        reduces = Unknown("the program chooses somewhere when gradients are reduced")
    m.emit(
        Wrap,
        "",
        getattr(module, "uid", ""),
        how=Const(how, (m.here("literal", call.name),)),
        options=options,
        reduces=reduces,
        data=Unknown("the program may split its data by rank") if mentioned(m, *SPLITTERS) else Const("whole"),
    )
    return wrapper


# What programs that give each rank its own part of the data name somewhere.
SPLITTERS = (
    "Sampler", ".shard", "shard(", "split_dataset", "split_by", "splitter", "rank::", "rank :", "num_replicas", "Subset",
    "accelerat", "deepspeed", "lightning", "fabric", "webdataset", "IterableDataset", "% world_size", "// world_size",
)  # fmt: skip


def mentioned(m: Any, *names: str) -> bool:
    """Does a module of the project that was read so far name one of these, followed or not?"""
    texts = [source.document.text for source in m.project.modules.values() if hasattr(source, "document")]
    return any(name in text for text in texts for name in names)


@calls("torch.utils.data.distributed.DistributedSampler", "torch.utils.data.DistributedSampler")
def distributed_sampler(call: Call) -> Abstract:
    m = call.machine
    shuffle = call.argument("shuffle", 3, Const(True))
    result = Object("sampler", "torch.utils.data.distributed.DistributedSampler", {"shuffle": shuffle})
    if mentioned(m, "set_epoch"):
        m.gap((CallEvent,), "set_epoch is named in the program, and may be called where it was not followed")
    m.emit(CallEvent, "DistributedSampler", result.uid, function=result.name, arguments={"shuffle": shuffle})
    return result


@methods("sampler", "set_epoch")
def set_epoch(call: Call) -> Abstract:
    function = "torch.utils.data.distributed.DistributedSampler.set_epoch"
    call.machine.emit(CallEvent, "set_epoch", call.receiver.uid, function=function, arguments={})
    return NONE


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


@calls(
    "torch.multiprocessing.spawn",
    "torch.multiprocessing.start_processes",
    "torch_xla.distributed.xla_multiprocessing.spawn",
)
def spawn(call: Call) -> Abstract:
    """Several processes run the function; the trace is that of the first."""
    args = call.argument("args", 1)
    positional = args.items if isinstance(args, ListValue) else ()
    function = call.argument("fn", 0)
    call.machine.call(function, Arguments((Const(0), *positional), open=isinstance(args, Unknown)))
    return NONE


def world_size(m: Any) -> Abstract:
    launch = m.launch
    if launch is None:
        return Const(1) if not m.globals.get("$process group") else Unknown("how many processes run", uid="world size")
    nodes, per_node = launch.nodes, launch.processes_per_node
    if nodes.known and per_node.known and isinstance(nodes.it, int) and isinstance(per_node.it, int):
        return Const(nodes.it * per_node.it)
    return Unknown("how many processes run", uid="world size")


def wrap_for_launch(m: Any, module: Abstract, arguments: Any = None, adapted: bool = False) -> None:
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
            options=engine_options(m, module, arguments, adapted),
        )


def engine_options(m: Any, module: Abstract, arguments: Any, adapted: bool) -> dict[str, Abstract]:
    """What the Trainer hands to DDP: unless it is told, it looks for unused parameters in whatever is no PreTrainedModel.

    Read and run with transformers 5.24 and peft 0.21: True for a PeftModel even with gradient checkpointing.
    """
    if arguments is None:
        return {}
    given = m.resolve(arguments.get("ddp_find_unused_parameters") or NONE)
    if not (isinstance(given, Const) and given.value is None):
        return {"find_unused_parameters": given}
    model = m.resolve(module)
    if not adapted and not (isinstance(model, Object) and model.attributes.get("$adapters")):
        return {}
    note = "default of the Trainer for a PEFT model without ddp_find_unused_parameters"
    return {"find_unused_parameters": Const(True, (Step("default", note),))}


def wrap_in_one_process(m: Any, module: Any, arguments: Any) -> None:
    """The Trainer in a single process that sees several GPUs wraps the model in DataParallel (transformers 4.30 to 5.24).

    Not a quantized model, nor one that `device_map` spread over the cards; FSDP and DeepSpeed ask for a launcher.
    """
    target = m.target
    if target.instance is None or target.gpu is None or (target.gpus or 1) < 2 or not alone(m):
        return
    given = ("deepspeed", "fsdp", "use_cpu", "_n_gpu")
    if any(m.truth(arguments.get(name) or NONE) is not False for name in given):
        return
    if not isinstance(module, Object) or module.kind != "module" or visible_gpus(m) < 2:
        return
    quantization = m.resolve(module.attributes.get("$quantization") or Const("none"))
    device_map = m.resolve(module.attributes.get("$device_map") or NONE)
    if not (isinstance(quantization, Const) and quantization.value == "none"):
        return
    if not (isinstance(device_map, Const) and device_map.value is None):
        return
    note = f"one process on {target.name} sees {target.gpus} GPUs: the Trainer wraps the model in DataParallel"
    presumed = (PRESUMED,) if m.launch is None else ()
    m.emit(
        Wrap, "engine", module.uid,
        how=Const("data_parallel", (m.here("derived", note), *presumed)),
    )  # fmt: skip


def alone(m: Any) -> bool:
    """Is this the only process, as far as anything in sight says?"""
    launch = m.launch
    if launch is None:
        started = m.globals.get("$process group") or m.globals.get("$notebook launcher")
        return not started and not launcher_in_readme(m)
    counts = (launch.nodes, launch.processes_per_node)
    return launch.launcher == "python" and all(count.known and count.it == 1 for count in counts)


README = ("README.md", "README.rst", "readme.md")
NAMED_LAUNCHERS = ("torchrun", "accelerate launch", "torch.distributed", "deepspeed ")


def launcher_in_readme(m: Any) -> bool:
    """Does the project's README name a launcher, in a command that could not be followed (`torchrun ... <your file>`)?"""
    for name in README:
        try:
            text = (m.project.root / name).read_bytes()[:1_000_000].decode("utf-8", "replace")
        except OSError:
            continue
        if any(launcher in text for launcher in NAMED_LAUNCHERS):
            return True
    return False


def visible_gpus(m: Any) -> int:
    """How many GPUs CUDA_VISIBLE_DEVICES leaves; 0 where it is not known."""
    visible = m.environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return int(m.target.gpus or 1)
    visible = m.resolve(visible)
    if not isinstance(visible, Const):
        return 0
    return len([part for part in str(visible.value).split(",") if part.strip() and part.strip() != "-1"])


@calls("torch.distributed.*")
def collective(call: Call) -> Abstract:
    return NONE


@methods("module", "no_sync", "join")
def no_sync(call: Call) -> Abstract:
    return Object("null context", "no_sync", {"value": NONE})
