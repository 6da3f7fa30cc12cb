"""torch.distributed and the wrappers for several GPUs."""

from __future__ import annotations

from typing import Any

from t4lint.interpret import ranks
from t4lint.interpret.values import (
    LOCAL_RANK,
    NONE,
    PER_PROCESS,
    PRESUMED,
    RANK,
    Abstract,
    Bound,
    Choice,
    Class,
    Const,
    Function,
    Instance,
    ListValue,
    Object,
    Partial,
    Step,
    Symbol,
    Unknown,
)
from t4lint.libraries.api import Arguments, Call, aliases, calls, methods
from t4lint.libraries.torch_modules import holds
from t4lint.sources import disk
from t4lint.trace import Call as CallEvent
from t4lint.trace import Collective, DeviceChoice, Engine, ProcessGroup, Wrap

aliases({"torch.distributed.distributed_c10d": "torch.distributed"})

WRAPPERS = {
    "torch.nn.DataParallel": "data_parallel",
    "torch.nn.parallel.DistributedDataParallel": "ddp",
    "torch.distributed.fsdp.FullyShardedDataParallel": "fsdp",
}


# Methods that a project's own wrapper may have and still call the module as torch's does, with the inputs it is given.
OF_WRAPPERS = frozenset({"__getattr__", "__setattr__", "gather", "replicate", "parallel_apply", "scatter"})


@calls(*(f"{name}(subclass)" for name in WRAPPERS))
def wrap_with_own(call: Call) -> Any:
    """A class of the project that changes how torch's wrapper splits or gathers is that wrapper; any other is itself."""
    own = [base for base in call.receiver.lineage() if isinstance(base, Class)]
    if not all(OF_WRAPPERS.issuperset(base.members) for base in own):
        return None
    wrapper = wrap(call)
    if isinstance(wrapper, Object) and call.receiver.find("scatter") is not None:
        wrapper.attributes["$scatters"] = Const(True)  # the module is given what it makes of the inputs
    return wrapper


@calls(*WRAPPERS)
def wrap(call: Call) -> Abstract:
    from t4lint.libraries.networks import as_network

    m = call.machine
    module = as_network(m, call.argument("module", 0))
    options = dict(call.arguments.keywords)
    if call.arguments.open:
        options["**"] = Unknown("what else the wrapper is given")
    if WRAPPERS[call.name] == "ddp" and "gradient_as_bucket_view" not in options and mentioned(m, *REPLACES_GRADIENTS):
        options["gradient_as_bucket_view"] = Unknown("the program may replace gradients, which views do not allow")
    wrapper = wrapper_around(module, call.name)
    if WRAPPERS[call.name] != "fsdp" and hasattr(module, "attributes"):
        m.globals["$cuda"] = True
    if WRAPPERS[call.name] == "fsdp":
        wrapper.attributes["$shards"] = Const(True)
        apply_policy(m, module, call.arguments.get("mixed_precision"))
        on_the_gpu(m, wrapper)
    how = WRAPPERS[call.name]
    reduces: Abstract = Const("always")
    if how != "ddp":
        reduces = Unknown("the wrapper is not DistributedDataParallel")
    elif mentioned(m, "no_sync", "require_backward_grad_sync"):
        reduces = Unknown("the program chooses somewhere when gradients are reduced")
    device_ids = m.resolve(options.get("device_ids") or NONE)
    if how == "ddp" and isinstance(device_ids, ListValue) and len(device_ids.items) == 1:
        m.emit(DeviceChoice, "device_ids", index=device_ids.items[0])
    if how == "fsdp":
        from t4lint.libraries.sharding import offload_of, strategy_of

        strategy = strategy_of(m, call.argument("sharding_strategy", 2, Const("FULL_SHARD")))
        options = {"strategy": strategy, "offload_param": offload_of(m, call.arguments.get("cpu_offload", 3))}
        if isinstance(strategy, Const) and strategy.value == "NO_SHARD":
            how = "ddp"
    m.emit(
        Wrap,
        "",
        getattr(module, "uid", ""),
        how=Const(how, (m.here("literal", call.name),)),
        options=options,
        reduces=reduces,
        devices=Unknown("the program may pick a GPU for each process") if mentioned(m, *PICKERS) else Const("same"),
        data=Unknown("the program may split its data by rank") if mentioned(m, *SPLITTERS) else Const("whole"),
        normalization=normalization_of(module),
    )
    return wrapper


def wrapper_around(module: Abstract, name: str) -> Object:
    """What a class that wraps modules makes of one: it is where the module is, in the module's dtype."""
    wrapper = Object("module", name, {"module": module, "$wrapper": Const(True)})
    for kept in ("$dtype", "$device", "training", "$engine"):
        if hasattr(module, "attributes") and kept in module.attributes:
            wrapper.attributes[kept] = module.attributes[kept]
    return wrapper


# What programs that could not train on views of the buckets do with gradients somewhere.
REPLACES_GRADIENTS = (".grad =", ".grad=", ".grad.detach_")


def normalization_of(module: Abstract) -> Abstract:
    """Whether a batch norm with running statistics is in the module; what is not found may still be there."""
    if isinstance(module, (Object, Instance)) and "$sync batch norm" in module.attributes:
        return Const("SyncBatchNorm")
    if holds(module, is_batch_norm):
        return Const("BatchNorm")
    return Unknown("whether the model has a batch norm")


# Networks of torchvision 0.28 that keep running statistics, by the beginning of their names.
WITH_BATCH_NORM = (
    "densenet", "efficientnet", "googlenet", "inception", "mnasnet", "mobilenet", "regnet", "resnet", "resnext", "shufflenet",
    "wide_resnet",
)  # fmt: skip


def is_batch_norm(module: Object) -> bool:
    name = module.name.rpartition(".")[2]
    if module.name.startswith("torchvision.models."):
        replaced = "norm_layer" in module.attributes
        return not replaced and (name.startswith(WITH_BATCH_NORM) or name.endswith("_bn"))
    if not (module.name.startswith("torch.nn.") and name.startswith("BatchNorm")):
        return False
    tracks = module.attributes.get("track_running_stats")
    return not isinstance(tracks, Const) or tracks.value is not False


HOOK = "torch.nn.parallel.DistributedDataParallel.register_comm_hook"
POWER_SGD = "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook.PowerSGDState"


@methods("module", "register_comm_hook")
def register_comm_hook(call: Call) -> Abstract:
    """Other ways for DDP to send gradients: compressed to 16 bits, or to low rank."""
    asked = {"hook": call.argument("hook", 1)}
    call.machine.emit(CallEvent, "register_comm_hook", call.receiver.uid, function=HOOK, arguments=asked)
    return NONE


@calls(POWER_SGD)
def power_sgd_state(call: Call) -> Abstract:
    """Read in torch 2.13, `powerSGD_hook.py`."""
    said = {
        "start_powerSGD_iter": call.argument("start_powerSGD_iter", 2, Const(1000)),
        "use_error_feedback": call.argument("use_error_feedback", 4, Const(True)),
        "warm_start": call.argument("warm_start", 5, Const(True)),
    }
    call.machine.emit(CallEvent, "PowerSGDState", function=POWER_SGD, arguments=said)
    return Object("hook state", call.name)


# What programs that give each process a GPU of its own name somewhere.
PICKERS = (
    "set_device", "device_ids", "LOCAL_RANK", "local_rank", "CUDA_VISIBLE_DEVICES", "cuda:{", "cuda:%", "device_id", "LOCALID",
    "device_count", "local_process_index", "current_device",
)  # fmt: skip


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
    said = {"shuffle": shuffle, "rank": call.argument("rank", 2)}
    m.emit(CallEvent, "DistributedSampler", result.uid, function=result.name, arguments=said)
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
    from t4lint.libraries.sharding import offload_of

    m = call.machine
    reshard, mesh = m.truth(call.argument("reshard_after_forward", None, Const(True))), call.arguments.get("mesh")
    strategy: Abstract = Const("SHARD_GRAD_OP" if reshard is False else "FULL_SHARD")
    if mesh is not None:  # one of two dimensions shards inside a node only
        strategy = Unknown("how the mesh shards")
    options = {"strategy": strategy, "offload_param": offload_of(m, call.arguments.get("offload_policy"))}
    here = Const("fsdp", (m.here("literal", call.name),))
    m.emit(Wrap, "fsdp", getattr(module, "uid", ""), how=here, options=options)
    on_the_gpu(m, module)
    return module


def on_the_gpu(m: Any, module: Abstract) -> None:
    """FSDP computes on the process's GPU: it moves a module from the CPU there, or cannot run (torch 2.13 fsdp/_init_utils.py)."""
    from t4lint.libraries.torch import set_device

    if m.target.gpu is not None:
        set_device(m, module, Const("cuda"))


@calls("torch.distributed.init_process_group")
def init_process_group(call: Call) -> Abstract:
    call.machine.emit(
        ProcessGroup,
        backend=call.argument("backend", 0, Const(None)),
        rank=call.argument("rank", None, Const(-1)),
        world_size=call.argument("world_size", None, Const(-1)),
    )
    call.machine.write(call.machine.globals, "$process group", True)
    if call.given("device_id"):
        say_device(call.machine, "device_id", call.argument("device_id"))
    return NONE


def say_device(m: Any, role: str, value: Abstract) -> None:
    """A process picks its GPU by something that is no constant of the program, or by a number."""
    value = m.resolve(value)
    if isinstance(value, Object) and value.kind == "device":
        value = Const(str(getattr(m.resolve(value.attributes["type"]), "value", "?")), value.origins)
    m.emit(DeviceChoice, role, index=value)


@calls("torch.cuda.set_device")
def set_device(call: Call) -> Abstract:
    say_device(call.machine, "set_device", call.argument("device", 0))
    return NONE


@calls(
    "torch.multiprocessing.spawn",
    "torch.multiprocessing.spawn.spawn",
    "torch.multiprocessing.start_processes",
    "torch_xla.distributed.xla_multiprocessing.spawn",
)
def spawn(call: Call) -> Abstract:
    """Starts processes that each call the function with their number first; the trace is that of the first."""
    m = call.machine
    m.emit(CallEvent, "spawn", function="torch.multiprocessing.spawn", arguments={"nprocs": call.argument("nprocs", 2)})
    function, given = m.resolve(call.argument("fn", 0)), m.resolve(call.argument("args", 1, ListValue((), "tuple")))
    m.write(m.globals, "$spawned", True)
    if isinstance(function, (Function, Bound, Partial)):
        items = given.items if isinstance(given, ListValue) else ()
        is_open = not isinstance(given, ListValue) or not given.complete
        m.call(function, Arguments((Const(0, (PER_PROCESS,)), *items), open=is_open))
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
    # the trace is that of the first process
    return Const(0, (LOCAL_RANK if call.name.endswith("local_rank") else RANK,))


def world_size(m: Any) -> Abstract:
    launch = m.launch
    if launch is None:
        return Const(1) if not m.globals.get("$process group") else Unknown("how many processes run", uid="world size")
    nodes, per_node = launch.nodes, launch.processes_per_node
    if nodes.known and per_node.known and isinstance(nodes.it, int) and isinstance(per_node.it, int):
        return Const(nodes.it * per_node.it)
    return Unknown("how many processes run", uid="world size")


def wrap_for_launch(
    m: Any, module: Abstract, arguments: Any = None, adapted: bool = False, options: dict[str, Abstract] | None = None
) -> None:
    """What an engine does with a model when several processes were launched: DDP, unless it was told to shard."""
    launch = m.launch
    if launch is None or not launch.nodes.known or not launch.processes_per_node.known:
        return
    processes = world_size(m)
    several = not isinstance(processes, Const) or processes.value > 1
    sharded = arguments is not None and any(
        m.truth(arguments.get(name) or NONE) is not False for name in ("deepspeed", "fsdp")
    )
    from t4lint.libraries.sharding import say_accelerate

    if say_accelerate(m, getattr(module, "uid", "")):
        return
    unread = "config_file" in launch.launcher_flags and "$accelerate config" not in m.globals
    if launch.launcher == "deepspeed" or "use_deepspeed" in launch.launcher_flags or unread:
        sharded = True
    if several and not sharded:
        m.emit(
            Wrap,
            "engine",
            getattr(module, "uid", ""),
            how=Const("ddp", (m.here("derived", "several processes: the engine wraps the model in DDP"),)),
            options=options if options is not None else engine_options(m, module, arguments, adapted),
            normalization=normalization_of(module),
        )


def engine_options(m: Any, module: Abstract, arguments: Any, adapted: bool) -> dict[str, Abstract]:
    """What the Trainer hands to DDP: unless it is told, it looks for unused parameters in whatever is no PreTrainedModel.

    Read and run with transformers 5.24 and peft 0.21: True for a PeftModel even with gradient checkpointing.
    """
    if arguments is None:
        return {}
    options: dict[str, Abstract] = {}
    for name in ("find_unused_parameters", "broadcast_buffers"):
        given = m.resolve(arguments.get(f"ddp_{name}") or NONE)
        if not (isinstance(given, Const) and given.value is None):
            options[name] = given
    model = m.resolve(module)
    if "find_unused_parameters" not in options and (
        adapted or (isinstance(model, Object) and model.attributes.get("$adapters"))
    ):
        note = "default of the Trainer for a PEFT model without ddp_find_unused_parameters"
        options["find_unused_parameters"] = Const(True, (Step("default", note),))
    return options


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
            text = disk.read_start(m.project.root / name, 1_000_000).decode("utf-8", "replace")
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


# Every process of the group must make the call, or those that do wait until the time-out (torch 2.13).
COLLECTIVES = (
    "barrier", "monitored_barrier", "all_reduce", "all_gather", "all_gather_object", "all_gather_into_tensor", "broadcast",
    "broadcast_object_list", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter", "scatter_object_list", "gather",
    "gather_object", "all_to_all", "all_to_all_single",
)  # fmt: skip


@calls(*[f"torch.distributed.{name}" for name in COLLECTIVES])
def collective(call: Call) -> Abstract:
    if not call.given("group") and not call.arguments.open:
        say_collective(call.machine, call.name)
    return NONE


def say_collective(m: Any, name: str) -> None:
    m.emit(Collective, name.rpartition(".")[2], operation=name, ranks=ranks.who_runs(m, name))


@calls("torch.distributed.*")
def other(call: Call) -> Abstract:
    return NONE


@methods("module", "no_sync")
def no_sync(call: Call) -> Abstract:
    """DDP leaves gradients alone where the forward ran inside; of other modules it is the project's own."""
    return Object("no sync", "torch.nn.parallel.DistributedDataParallel.no_sync", {"value": NONE})


@methods("module", "join")
def join(call: Call) -> Abstract:
    return Object("null context", "join", {"value": NONE})


def inside_no_sync(m: Any) -> Abstract:
    """Is what happens here inside a `no_sync()`? Unknown inside a region that is not known."""
    for region in m.regions:
        if isinstance(region, Object) and region.kind == "no sync":
            return Const(True)
    open_regions = [
        region for region in m.regions if not isinstance(region, Object) or region.name == "accelerate context"
    ]
    return Unknown("whether the region around it is a no_sync") if open_regions else Const(False)
