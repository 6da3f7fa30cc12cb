"""What would notice that tensors are fakes, or needs values that are not there."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_leaves


def install() -> None:
    """Parts of torch: once it has been imported."""
    # no device is there to be initialised; otherwise `torch.tensor([], device="cuda")` would be made for real
    FakeTensorMode.avoid_device_init = property(lambda self: True)
    fake_tensor.init_gpu_context = lambda *args: None
    torch._C._set_only_lift_cpu_tensors(True)
    # whether parameters are valid depends on values that are not there: a guess would refuse them
    torch.distributions.Distribution.set_default_validate_args(False)
    _compile()
    _tracing()
    _save()


def _compile() -> None:
    """Compiling takes minutes and Triton, and changes no shape: the program runs as it is written."""

    def compile(model: Any = None, *args: Any, **kwargs: Any) -> Any:
        return model if model is not None else (lambda function: function)

    torch.compile = compile

    def compile_module(self: Any, *args: Any, **kwargs: Any) -> None: ...

    torch.nn.Module.compile = compile_module


def _tracing() -> None:
    """A trace makes tensors of sizes, which fakes do not take: the model stays as it is written."""
    original = torch.jit.trace

    def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        on_card = any(isinstance(it, FakeTensor) for it in tree_leaves((example_inputs, kwargs)))
        if on_card or (
            isinstance(func, torch.nn.Module) and any(isinstance(it, FakeTensor) for it in func.parameters())
        ):
            return func
        return original(func, example_inputs, *args, **kwargs)

    torch.jit.trace = trace


def _save() -> None:
    """There is nothing to be saved. An empty file is written, for programs that look whether it is there.

    A program that loads what it has saved itself gets the same objects back.
    """
    saved: dict[str, Any] = {}
    read = torch.load

    def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        if hasattr(f, "write"):
            saved[_path(getattr(f, "name", ""))] = obj
            return
        with open(f, "wb"):  # noqa: PTH123 (what torch.save takes)
            saved[_path(f)] = obj

    def load(f: Any, *args: Any, **kwargs: Any) -> Any:
        path = _path(getattr(f, "name", "") if hasattr(f, "read") else f)
        return saved[path] if path in saved and path != "?" else read(f, *args, **kwargs)

    torch.save, torch.load = save, load


def _path(given: Any) -> str:
    """A name that the same file always has; none for what is no file."""
    return os.path.realpath(given) if isinstance(given, (str, os.PathLike)) and given else "?"


def _transformers(module: Any) -> None:
    """It builds full masks for what it takes for tracing."""
    for name in ("is_fake_tensor",):
        if hasattr(module, name):
            setattr(module, name, lambda value: False)


def _safetensors(module: Any) -> None:
    def save_file(tensors: Any, filename: Any, metadata: Any = None) -> None:
        with open(filename, "wb"):  # noqa: PTH123
            pass

    module.save_file = save_file


def _boards(module: Any) -> None:
    """A picture of the graph for TensorBoard needs a trace of it."""
    module.SummaryWriter.add_graph = lambda self, *args, **kwargs: None


class _Kernels:
    """Optimizers' kernels of DeepSpeed, which a compiler for CUDA makes: they change values, and no shape."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


def _deepspeed(module: Any) -> None:
    for name in ("fused_adam", "fused_lamb", "fused_lion"):
        module.OpBuilder._loaded_ops.setdefault(name, _Kernels())


HOOKS = {
    "deepspeed.ops.op_builder.builder": _deepspeed,
    "transformers.utils.import_utils": _transformers,
    "safetensors.torch": _safetensors,
    "tensorboardX.writer": _boards,
    "torch.utils.tensorboard.writer": _boards,
}
