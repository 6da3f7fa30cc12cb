"""Calls that rules read as they are written, and what the program does with single tensors.

Calls by the user's own code only: libraries make them all the time. Each is noted before it is made, since many of them
fail on a machine without a GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from . import journal, phantom
from .frames import caller_is_user, look
from .hooks_transformers import reentrant
from .journal import fact
from .probe import given, wrap
from .state import state

Said = Callable[[Mapping[str, Any]], dict[str, Any]]

SYNCS = ("item", "tolist", "numpy", "__bool__", "nonzero")
COLLECTIVES = (
    "all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_to_all", "all_to_all_single",
    "barrier", "broadcast", "broadcast_object_list", "gather", "gather_object", "reduce", "reduce_scatter",
    "reduce_scatter_tensor", "scatter", "scatter_object_list",
)  # fmt: skip


def install(torch: Any) -> None:
    for group in (_cuda, _attention, _operations, _syncs, _distributed):
        try:
            group(torch)
        except Exception as error:
            journal.trouble(f"{group.__module__}.{group.__name__}", error)


def said(owner: Any, name: str, function: str, keep: Said | None = None, *, any_caller: bool = False) -> None:
    """Note each call by the user, under the public name `function`. `keep` picks what is said of the arguments."""
    original = getattr(owner, name, None)
    if original is None:
        return

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not any_caller and not caller_is_user():
            return
        site = look()
        if site.user:
            arguments = keep(given(original, args, kwargs)) if keep is not None else {}
            journal.bounded("call", site, function=function, arguments=arguments, raises=None)

    wrap(owner, name, before)


def _picked(*names: str) -> Said:
    return lambda arguments: {name: arguments[name] for name in names if name in arguments}


# --- torch -------------------------------------------------------------------------------------------------------


def _cuda(torch: Any) -> None:
    said(torch.cuda, "empty_cache", "torch.cuda.empty_cache")
    said(torch.autograd, "grad", "torch.autograd.grad")
    processes: Any = sys.modules.get("torch.multiprocessing")
    if processes is not None:
        said(processes, "spawn", "torch.multiprocessing.spawn", _picked("nprocs"))
    sampler: Any = sys.modules.get("torch.utils.data.distributed")
    if sampler is not None:
        name = "torch.utils.data.distributed.DistributedSampler"
        said(sampler.DistributedSampler, "__init__", name, _picked("shuffle"))
        said(sampler.DistributedSampler, "set_epoch", f"{name}.set_epoch", any_caller=True)


def _attention(torch: Any) -> None:
    """Which kernels of attention the program allows: `with sdpa_kernel(...)`, and the older `sdp_kernel`."""
    attention: Any = sys.modules.get("torch.nn.attention")

    def entered(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        site = look()
        if site.user and site.through("__enter__"):  # not the way back to what was allowed before
            _say_kernels(site, [backend.name for backend in args[0]])

    if attention is not None:
        wrap(attention, "_sdpa_kernel", entered)
    names = {
        "enable_flash": "FLASH_ATTENTION",
        "enable_math": "MATH",
        "enable_mem_efficient": "EFFICIENT_ATTENTION",
        "enable_cudnn": "CUDNN_ATTENTION",
    }

    def older(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        asked = dict(zip(names, args, strict=False)) | kwargs
        if caller_is_user():
            _say_kernels(look(), [backend for name, backend in names.items() if asked.get(name, True)])

    wrap(torch.backends.cuda, "sdp_kernel", older)


def _say_kernels(site: Any, allowed: list[str]) -> None:
    fact("attention", site, role="backend", allowed=allowed)


def _operations(torch: Any) -> None:
    """What the precision around an operation decides about."""

    def filled(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        value = args[2] if len(args) > 2 else kwargs.get("value")
        if isinstance(value, (int, float)):
            _say_operation("masked_fill", args[0], constant=value)

    def full(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        value = args[1] if len(args) > 1 else kwargs.get("fill_value")
        if isinstance(value, (int, float)) and caller_is_user():
            dtype = kwargs.get("dtype") or _dtype_of_constant(torch, value)
            fact("operation", look(), role="full", dtype=dtype, constant=value)

    def entropy(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        value = args[0] if args else kwargs.get("input")
        if hasattr(value, "dtype"):
            _say_operation("binary_cross_entropy", value)

    wrap(torch.Tensor, "masked_fill", filled, user_only=True)
    wrap(torch.Tensor, "masked_fill_", filled, user_only=True)
    _wrap_builtin(torch, torch, "full", full)
    wrap(torch.nn.functional, "binary_cross_entropy", entropy)


def _wrap_builtin(torch: Any, owner: Any, name: str, before: Any) -> None:
    """torch.jit.script knows builtins by identity: let it take the probe for the original."""
    original = getattr(owner, name)
    operation = torch.jit._builtins._find_builtin(original)
    wrap(owner, name, before)
    if operation is not None and getattr(owner, name) is not original:
        torch.jit._builtins._register_builtin(getattr(owner, name), operation)


def _dtype_of_constant(torch: Any, value: Any) -> Any:
    if isinstance(value, bool):
        return torch.bool
    return torch.get_default_dtype() if isinstance(value, float) else torch.int64


def _say_operation(role: str, tensor: Any, **more: Any) -> None:
    stack = state.regions.stack
    fact(
        "operation",
        look(),
        role=role,
        dtype=tensor.dtype,
        device=tensor.device.type,
        autocast=state.regions.dtype,
        autocast_device=stack[-1].device if stack else None,
        **more,
    )


def _syncs(torch: Any) -> None:
    """Where the host would wait for the GPU."""

    def waits(role: str) -> Any:
        def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if not phantom.there() and args[0].device.type != "cpu":
                state.counts["waits for the GPU"] += 1
            fact("sync", look(), role=role, device=args[0].device.type)

        return before

    for name in SYNCS:
        wrap(torch.Tensor, name, waits(name.strip("_")), user_only=True)


# --- several processes -------------------------------------------------------------------------------------------


def _distributed(torch: Any) -> None:
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available():
        return
    module = distributed.distributed_c10d
    for name in COLLECTIVES:
        if hasattr(module, name):
            wrap(module, name, _collective(torch, name))
            setattr(distributed, name, getattr(module, name))


def _collective(torch: Any, operation: str) -> Any:
    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        site = look()
        if site.user and not site.within("torch.distributed.distributed_c10d"):  # one that is made of others
            fact("collective", site, {"bytes": _bytes(torch, (*args, *kwargs.values()))}, operation=operation)

    return before


def _bytes(torch: Any, values: Any) -> int:
    """Of the largest tensor, or list of tensors, among the arguments."""
    sizes = [0]
    for value in values:
        parts = value if isinstance(value, (list, tuple)) else [value]
        tensors = [part for part in parts if isinstance(part, torch.Tensor)]
        sizes.append(sum(tensor.numel() * tensor.element_size() for tensor in tensors))
    return max(sizes)


# --- other libraries ---------------------------------------------------------------------------------------------


def _launchers(module: Any) -> None:
    said(module, "notebook_launcher", "accelerate.notebook_launcher", _picked("num_processes"))


def _precision_policies(module: Any) -> None:
    for name in ("MixedPrecision", "MixedPrecisionPolicy"):
        kind = getattr(module, name, None)
        if kind is not None:
            said(kind, "__init__", f"torch.distributed.fsdp.{name}", _picked("param_dtype"))


def _flex(module: Any) -> None:
    said(module, "flex_attention", "torch.nn.attention.flex_attention.flex_attention", _picked("kernel_options"))


def _xformers(module: Any) -> None:
    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        query = args[0] if args else kwargs.get("query")
        fact("attention", look(), role="call", implementation="xformers", dtype=getattr(query, "dtype", None))

    wrap(module, "memory_efficient_attention", before)


def _flash(module: Any) -> None:
    for name in ("flash_attn_func", "flash_attn_varlen_func", "flash_attn_qkvpacked_func"):
        said(module, name, f"flash_attn.{name}")


def _folders(module: Any) -> None:
    """torchvision's datasets: where they are read from."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        root = args[1] if len(args) > 1 else kwargs.get("root")
        if type(args[0]).__name__ in FOLDERS and (isinstance(root, str) or hasattr(root, "__fspath__")):
            fact("read", look(), role="folder", root=root)

    wrap(module.VisionDataset, "__init__", before)


# datasets of torchvision that read one file for each sample
FOLDERS = frozenset({
    "ImageFolder", "DatasetFolder", "CocoDetection", "CocoCaptions", "VOCDetection", "VOCSegmentation", "ImageNet",
    "Cityscapes", "CelebA", "OxfordIIITPet", "Food101", "Flowers102", "Places365",
})  # fmt: skip


def _checkpointing(module: Any) -> None:
    def kind(arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {"reentrant": reentrant(arguments.get("gradient_checkpointing_kwargs") or {})}

    model = module.PreTrainedModel
    said(model, "gradient_checkpointing_enable", "gradient_checkpointing_enable", kind, any_caller=True)
    said(model, "enable_input_require_grads", "enable_input_require_grads", lambda _: {"done": True}, any_caller=True)


def _flattening(module: Any) -> None:
    kind = getattr(module, "DataCollatorWithFlattening", None)
    if kind is not None:
        said(kind, "__init__", "transformers.DataCollatorWithFlattening")


def _torchao(module: Any) -> None:
    """By the name of the configuration's class, or of the function that makes one in older releases."""

    def named(arguments: Mapping[str, Any]) -> dict[str, Any]:
        config = arguments.get("config", arguments.get("apply_tensor_subclass"))
        return {"config": getattr(config, "__name__", None) or type(config).__name__}

    said(module, "quantize_", "torchao.quantization.quantize_", named)


def _float8(module: Any) -> None:
    def emulated(arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {"emulate": bool(getattr(arguments.get("config"), "emulate", False))}

    said(module, "convert_to_float8_training", "torchao.float8.convert_to_float8_training", emulated)


HOOKS = {
    "accelerate.launchers": _launchers,
    "flash_attn.flash_attn_interface": _flash,
    "torch.distributed.fsdp": _precision_policies,
    "torch.nn.attention.flex_attention": _flex,
    "torchvision.datasets.vision": _folders,
    "torchao.float8.float8_linear_utils": _float8,
    "torchao.quantization.quant_api": _torchao,
    "transformers.data.data_collator": _flattening,
    "transformers.modeling_utils": _checkpointing,
    "xformers.ops.fmha": _xformers,
}
