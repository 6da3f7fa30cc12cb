"""What would notice that tensors are fakes, or needs values that are not there."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode


def install() -> None:
    """Parts of torch: once it has been imported."""
    # no device is there to be initialised; otherwise `torch.tensor([], device="cuda")` would be made for real
    FakeTensorMode.avoid_device_init = property(lambda self: True)
    fake_tensor.init_gpu_context = lambda *args: None
    torch._C._set_only_lift_cpu_tensors(True)
    # whether parameters are valid depends on values that are not there: a guess would refuse them
    torch.distributions.Distribution.set_default_validate_args(False)
    _compile()
    _save()


def _compile() -> None:
    """Compiling takes minutes and Triton, and changes no shape: the program runs as it is written."""

    def compile(model: Any = None, *args: Any, **kwargs: Any) -> Any:
        return model if model is not None else (lambda function: function)

    torch.compile = compile

    def compile_module(self: Any, *args: Any, **kwargs: Any) -> None: ...

    torch.nn.Module.compile = compile_module


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


HOOKS = {"transformers.utils.import_utils": _transformers, "safetensors.torch": _safetensors}
