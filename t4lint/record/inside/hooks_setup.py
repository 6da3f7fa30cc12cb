"""What torch is asked for around the loop: loaders, questions about the GPU, switches, casts, copies, processes."""

from __future__ import annotations

import sys
from typing import Any

from . import card, guard, journal, phantom
from .frames import Site, caller_is_user, look
from .journal import fact
from .probe import given, wrap
from .state import state


def install(torch: Any) -> None:
    groups = (
        _loader, _predicates, _switches, _casts, _copies, _compile, _save, _wraps, _hooks_of_ddp, _device_choices,
        _process_group,
    )  # fmt: skip
    for group in groups:
        try:
            group(torch)
        except Exception as error:
            journal.trouble(f"{group.__module__}.{group.__name__}", error)


# --- data --------------------------------------------------------------------------------------------------------


def _loader(torch: Any) -> None:
    loader = torch.utils.data.DataLoader
    original = loader.__init__

    def made(args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, result: Any, error: Any) -> None:
        site = look()
        if site.within("accelerate.data_loader"):  # which wraps a loader that we have seen
            return
        asked = given(original, args, kwargs)
        if error is None:
            _say_loader(torch, asked, site)
        elif isinstance(error, Exception):
            _say_refused_loader(asked, site)

    wrap(loader, "__init__", None, made)


def _loader_role(site: Site) -> str:
    if site.engine != "Trainer":
        return ""
    evaluates = site.through("get_eval_dataloader", "get_test_dataloader", "evaluate", "predict")
    return "eval" if evaluates else "train"


def _say_refused_loader(asked: dict[str, Any], site: Site) -> None:
    """A loader that was never built, because of what it was asked to be: that is what there is to see."""
    sampler = asked.get("sampler") if asked.get("sampler") is not None else asked.get("batch_sampler")
    journal.emit(
        "loader",
        site,
        role=_loader_role(site),
        batch_size=asked.get("batch_size"),
        workers=asked.get("num_workers"),
        pin_memory=bool(asked.get("pin_memory")),
        persistent_workers=bool(asked.get("persistent_workers")),
        prefetch_factor=asked.get("prefetch_factor"),
        shuffle=bool(asked.get("shuffle")),
        sampler="none" if sampler is None else type(sampler).__name__,
        drop_last=bool(asked.get("drop_last")),
    )


def _say_loader(torch: Any, asked: dict[str, Any], site: Site) -> None:
    loader = asked["self"]
    sampler = asked["sampler"] if asked["sampler"] is not None else asked["batch_sampler"]
    size = loader.batch_size
    journal.emit(
        "loader",
        site,
        role=_loader_role(site),
        batch_size=size if size is not None else getattr(loader.batch_sampler, "batch_size", None),
        workers=loader.num_workers,
        pin_memory=bool(loader.pin_memory),
        persistent_workers=bool(loader.persistent_workers),
        prefetch_factor=loader.prefetch_factor,
        shuffle=isinstance(loader.sampler, torch.utils.data.RandomSampler),
        sampler="none" if sampler is None else type(sampler).__name__,
        drop_last=bool(loader.drop_last),
        dataset=id(loader.dataset),
    )


def _copies(torch: Any) -> None:
    """`Tensor.to(device)`, `Tensor.cuda()` and `Tensor.cpu()`, where the user's own code calls them."""

    def after_to(args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, result: Any, error: Any) -> None:
        if error is None and type(args[0]) is torch.Tensor:
            asked = kwargs.get("device", args[1] if len(args) > 1 else None)
            if isinstance(asked, (str, int, torch.device)) and not isinstance(asked, bool):
                non_blocking = kwargs.get("non_blocking", args[3] if len(args) > 3 else False)
                _say_copy(args[0], result.device.type, non_blocking)

    def before_cuda(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if type(args[0]) is torch.Tensor:
            _say_copy(args[0], "cuda", kwargs.get("non_blocking", args[2] if len(args) > 2 else False))

    def before_cpu(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if type(args[0]) is torch.Tensor:
            _say_copy(args[0], "cpu", False)

    wrap(torch.Tensor, "to", None, after_to, user_only=True)
    wrap(torch.Tensor, "cuda", before_cuda, user_only=True)
    wrap(torch.Tensor, "cpu", before_cpu, user_only=True)


def _say_copy(tensor: Any, destination: str, non_blocking: Any) -> None:
    if not phantom.there() and tensor.device.type != destination:
        state.counts["copies to the CPU" if destination == "cpu" else "copies to the GPU"] += 1
    there = card.on_gpu() or phantom.there()
    pinned = tensor.is_pinned() if there and tensor.device.type == "cpu" else None
    fact(
        "copy",
        look(),
        {"size": tensor.numel() * tensor.element_size()},
        source=tensor.device.type,
        destination=destination,
        non_blocking=bool(non_blocking),
        pinned=pinned,
    )


# --- questions and switches ----------------------------------------------------------------------------------------


def _predicates(torch: Any) -> None:
    """Only where the user's own code asks; libraries ask all the time."""
    names = (
        "is_available is_bf16_supported is_tf32_supported get_device_capability get_device_name device_count"
        " get_device_properties"
    )
    for name in names.split():
        wrap(torch.cuda, name, None, ask(f"torch.cuda.{name}"))


def ask(function: str) -> Any:
    """A look at the answer of a predicate."""

    def after(args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, result: Any, error: Any) -> None:
        if caller_is_user():
            raised = f"{type(error).__name__}: {error}" if error is not None else None
            fact("predicate", look(), function=function, result=result, raised=raised)

    return after


def _switches(torch: Any) -> None:
    functions = [
        (torch, "set_float32_matmul_precision"),
        (torch, "set_default_dtype"),
        (torch, "use_deterministic_algorithms"),
        (torch.backends.cuda, "enable_flash_sdp"),
        (torch.backends.cuda, "enable_mem_efficient_sdp"),
        (torch.backends.cuda, "enable_math_sdp"),
        (torch.backends.cuda, "enable_cudnn_sdp"),
    ]
    for owner, name in functions:
        wrap(owner, name, _called(f"{owner.__name__}.{name}"))
    wrap(torch.autograd.set_detect_anomaly, "__init__", _called("torch.autograd.set_detect_anomaly", 1))
    wrap(torch.autograd.detect_anomaly, "__init__", _constant("torch.autograd.detect_anomaly", True))
    wrap(type(torch.backends.cuda.matmul), "__setattr__", _assigned("torch.backends.cuda.matmul"))
    _properties(torch)


def _called(name: str, index: int = 0) -> Any:
    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        site = look()
        if site.user and all(module.startswith("torch") for module, _ in site.between):
            value = args[index] if len(args) > index else next(iter(kwargs.values()), None)
            fact("switch", site, name=name, value=value)

    return before


def _constant(name: str, value: Any) -> Any:
    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        fact("switch", look(), name=name, value=value)

    return before


def _assigned(module: str) -> Any:
    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if caller_is_user():
            fact("switch", look(), name=f"{module}.{args[1]}", value=args[2])

    return before


def _properties(torch: Any) -> None:
    """`torch.backends.cudnn.*`: descriptors on the class of the module, which do not know their own names."""
    names = {
        id(value): f"torch.backends.cudnn.{name}"
        for name, value in vars(type(torch.backends.cudnn)).items()
        if hasattr(value, "__set__")
    }

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        name = names.get(id(args[0]))
        if name and caller_is_user():
            fact("switch", look(), name=name, value=args[2])

    wrap(torch.backends.ContextProp, "__set__", before)


# --- models ------------------------------------------------------------------------------------------------------


def _casts(torch: Any) -> None:
    """Casts of whole modules by the user's code; `Module.to(device)` alone is none."""

    def after_named(args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, result: Any, error: Any) -> None:
        if error is None:
            _say_cast(args[0])

    def after_to(args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, result: Any, error: Any) -> None:
        if error is None and torch._C._nn._parse_to(*args[1:], **kwargs)[1] is not None:
            _say_cast(args[0])

    for name in ("half", "bfloat16", "float", "double"):
        wrap(torch.nn.Module, name, None, after_named)
    wrap(torch.nn.Module, "to", None, after_to)


def _say_cast(module: Any) -> None:
    site = look()
    if not site.user or any(not name.startswith(("torch", "transformers.modeling_utils")) for name, _ in site.between):
        return
    journal.emit("model", site, role="cast", name=type(module).__name__, **describe(module))


def describe(module: Any) -> dict[str, Any]:
    """Parameters of a module: how many, how many trained, in which dtype most of them are."""
    sizes: dict[str, int] = {}
    trainable = 0
    for parameter in module.parameters():
        name = str(parameter.dtype).removeprefix("torch.")
        sizes[name] = sizes.get(name, 0) + parameter.numel()
        trainable += parameter.numel() if parameter.requires_grad else 0
    dtype = max(sizes, key=lambda name: sizes[name]) if sizes else None
    return {"parameters": sum(sizes.values()), "trainable": trainable, "dtype": dtype}


def _compile(torch: Any) -> None:
    """Libraries call it at import; only the user's call, or an engine's for it, counts. `late`: a trainer has the model already."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any], in_place: bool = False) -> None:
        site = look()
        if site.user and (site.engine or not any(not name.startswith("torch") for name, _ in site.between)):
            state.compiled = True
            target = args[0] if args else kwargs.get("model")
            late = None
            if isinstance(target, torch.nn.Module):
                late = target in state.taken and not in_place
            fact("compile", site, mode=kwargs.get("mode"), late=late)

    def in_place_(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        before(args, kwargs, in_place=True)

    wrap(torch, "compile", before)
    wrap(torch.nn.Module, "compile", in_place_)


def _save(torch: Any) -> None:
    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        path = args[1] if len(args) > 1 else kwargs.get("f")
        is_path = isinstance(path, str) or hasattr(path, "__fspath__")
        if is_path and guard.active():
            guard.cut(path)  # torch writes from C++, which no audit hook sees
        pickled = args[0] if args else kwargs.get("obj")
        keys = [str(key) for key in pickled] if isinstance(pickled, dict) else []
        fact("save", look(), target=path if is_path else None, holds=_classes_in(torch, pickled), keys=keys)

    def before_load(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if caller_is_user():
            written = {**dict(zip(("f", "map_location", "pickle_module"), args, strict=False)), **kwargs}
            fact("call", look(), function="torch.load", arguments=written)

    wrap(torch, "save", before)
    wrap(torch, "load", before_load)


def _classes_in(torch: Any, value: Any, depth: int = 0) -> list[str]:
    """The classes that `torch.load` refuses by default, as far as containers are plain."""
    if isinstance(value, dict) or type(value) in (list, tuple):
        parts = list(value.values()) if isinstance(value, dict) else list(value)
        found = [name for part in parts[:100] if depth < 4 for name in _classes_in(torch, part, depth + 1)]
        return list(dict.fromkeys(found))
    plain = (
        str,
        bytes,
        bytearray,
        int,
        float,
        complex,
        bool,
        type(None),
        set,
        torch.Tensor,
        torch.Size,
        torch.dtype,
        torch.device,
    )
    return [] if isinstance(value, plain) else [type(value).__name__]


# --- several processes -------------------------------------------------------------------------------------------


def _wraps(torch: Any) -> None:
    parallel = sys.modules.get("torch.nn.parallel")
    if parallel is not None:
        _wrap_class(parallel.DistributedDataParallel, "ddp")
        _wrap_class(parallel.DataParallel, "data_parallel")
        _replicas(parallel.DistributedDataParallel)


def _wrap_class(kind: Any, how: str) -> None:
    original = kind.__init__

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        asked = given(original, args, kwargs)
        asked.pop("self", None)
        devices = asked.get("device_ids")
        if how == "ddp" and isinstance(devices, (list, tuple)) and len(devices) == 1:
            _say_device("device_ids", devices[0])
        _say_wrap(how, asked.pop("module"), asked)

    def made(args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, result: Any, error: Any) -> None:
        if how == "ddp" and error is None:
            state.replicas.add(args[0])

    wrap(kind, "__init__", before, made)


def _replicas(kind: Any) -> None:
    """Whether the last forward of what DDP keeps alike ran inside its `no_sync()`."""

    def forward(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        state.forward_in_no_sync = not args[0].require_backward_grad_sync

    wrap(kind, "forward", forward)


def _hooks_of_ddp(torch: Any) -> None:
    """What DDP does with its buckets instead, by the name of the hook."""
    parallel = sys.modules.get("torch.nn.parallel")
    if parallel is not None:
        wrap(parallel.DistributedDataParallel, "register_comm_hook", _say_hook)


def _say_hook(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    hook = kwargs.get("hook", args[2] if len(args) > 2 else None)
    name = f"{getattr(hook, '__module__', '')}.{getattr(hook, '__name__', type(hook).__name__)}"
    function = "torch.nn.parallel.DistributedDataParallel.register_comm_hook"
    fact("call", look(), function=function, arguments={"hook": name})


def _power_sgd(module: Any) -> None:
    original = module.PowerSGDState.__init__
    names = ("start_powerSGD_iter", "use_error_feedback", "warm_start")

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        asked = given(original, args, kwargs)
        function = "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook.PowerSGDState"
        fact("call", look(), function=function, arguments={name: asked[name] for name in names if name in asked})

    wrap(module.PowerSGDState, "__init__", before)


def _device_choices(torch: Any) -> None:
    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if caller_is_user():
            _say_device("set_device", args[0] if args else kwargs.get("device"))

    wrap(torch.cuda, "set_device", before)


def _say_device(role: str, index: Any) -> None:
    """The GPU that a process picks for itself: a number, or a name such as "cuda:0"."""
    fact("device_choice", look(), role=role, index=index if isinstance(index, int) else str(index))


def _say_wrap(how: str, module: Any, options: dict[str, Any]) -> None:
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    count = sum(parameter.numel() for parameter in trained)
    size = sum(parameter.numel() * parameter.element_size() for parameter in trained)
    fact(
        "wrap",
        look(),
        how=how,
        replicated=count if how in ("ddp", "data_parallel") else None,
        gradient_bytes=round(size / count, 3) if count else None,
        normalization=_normalization(module),
        options={
            name: value
            for name, value in options.items()
            if value is None or isinstance(value, (bool, int, float, str))
        },
    )


def _normalization(module: Any) -> str:
    """The kind of batch norm that keeps running statistics."""
    torch: Any = sys.modules["torch"]
    kinds = [
        type(part) for part in module.modules()
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and part.track_running_stats
    ]  # fmt: skip
    if any(issubclass(kind, torch.nn.SyncBatchNorm) for kind in kinds):
        return "SyncBatchNorm"
    return "BatchNorm" if kinds else "none"


def _fsdp(module: Any) -> None:
    _wrap_class(module.FullyShardedDataParallel, "fsdp")

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        site = look()
        if site.user and args and hasattr(args[0], "parameters"):
            _say_wrap(
                "fsdp", args[0], {name: value for name, value in kwargs.items() if isinstance(value, (bool, int))}
            )

    if hasattr(module, "fully_shard") and not hasattr(module.fully_shard, "state"):
        wrap(module, "fully_shard", before)


HOOKS = {"torch.distributed.fsdp": _fsdp, "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook": _power_sgd}


def _process_group(torch: Any) -> None:
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available():
        return
    module = distributed.distributed_c10d
    original = module.init_process_group

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        asked = given(original, args, kwargs)
        backend = str(asked["backend"]) if asked.get("backend") is not None else None
        fact("process_group", look(), backend=backend, rank=asked.get("rank"), world_size=asked.get("world_size"))
        if asked.get("device_id") is not None:
            _say_device("device_id", asked["device_id"])

    def after(args: tuple[Any, ...], kwargs: dict[str, Any], note: Any, result: Any, error: Any) -> None:
        if error is None:
            journal.emit(
                "ranks",
                rank_seen=distributed.get_rank(),
                world_size=distributed.get_world_size(),
                backend=distributed.get_backend(),
            )

    wrap(module, "init_process_group", before, after)
    distributed.init_process_group = module.init_process_group
