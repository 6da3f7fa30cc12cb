"""What Python code does to tensors beside operations: `numpy()`, `tolist()`, pinning, parameters of modules."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from . import shadow
from .membrane import CUDA, Membrane


def install(membrane: Membrane) -> None:
    """Replace methods of Tensor and Module that a dispatch mode does not see."""
    _conversions(membrane)
    _pinning()
    _parameters(membrane)
    _foreach()


def is_fake(value: Any) -> bool:
    """Is it on the phantom's side?"""
    return isinstance(value, FakeTensor)


def _conversions(membrane: Membrane) -> None:
    tensor = torch.Tensor
    to_numpy, to_list = tensor.numpy, tensor.tolist

    def numpy(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(self, FakeTensor):
            return to_numpy(self, *args, **kwargs)
        if self.device.type == CUDA:
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. "
                "Use Tensor.cpu() to copy the tensor to host memory first."
            )
        return to_numpy(membrane.real(self.detach()), *args, **kwargs)

    def tolist(self: Any) -> Any:
        return to_list(membrane.real(self.detach()) if isinstance(self, FakeTensor) else self)

    tensor.numpy, tensor.tolist = numpy, tolist


def _pinning() -> None:
    """A label here: without a driver there is no pinned memory."""

    def pin_memory(self: Any, *args: Any, **kwargs: Any) -> Any:
        pinned = self.view_as(self) if not self.requires_grad else self
        pinned._t4lint_pinned = True
        return pinned

    def is_pinned(self: Any, *args: Any, **kwargs: Any) -> bool:
        return bool(getattr(self, "_t4lint_pinned", False))

    torch.Tensor.pin_memory, torch.Tensor.is_pinned = pin_memory, is_pinned


def _parameters(membrane: Membrane) -> None:
    """Parameters become fakes as soon as a module has them: weights take no memory."""
    register = torch.nn.Module.register_parameter

    def register_parameter(self: Any, name: str, param: Any) -> None:
        if type(param) is torch.nn.Parameter and param.device.type == "cpu":
            param = _faked(membrane, param)
        register(self, name, param)

    torch.nn.Module.register_parameter = register_parameter


def _faked(membrane: Membrane, parameter: Any) -> Any:
    made = membrane.made(parameter)
    if not isinstance(made, torch.nn.Parameter):
        made = torch.nn.Parameter(made, requires_grad=parameter.requires_grad)
    shadow.attach(made, None, FakeTensor)
    return made


def _foreach() -> None:
    """Optimizers and clipping take their multi-tensor path for CUDA tensors of these types: fakes stand for such."""
    from torch.optim import optimizer
    from torch.utils import _foreach_utils

    for module in (optimizer, _foreach_utils):
        types = getattr(module, "_foreach_supported_types", None)
        if isinstance(types, list) and FakeTensor not in types:
            types.append(FakeTensor)
