"""Parameters of modules: fakes as soon as a module has them, so that weights take no memory of this machine.

Subclasses of Parameter (bitsandbytes' 4-bit and 8-bit weights) stay what they are beside being fakes: their own code
quantizes them, through operations that bring shapes and dtypes of their results.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from . import shadow
from .membrane import Membrane


def install(membrane: Membrane) -> None:
    """Replace how modules register parameters, how subclasses of Parameter are made, and `tensor.data = other`."""
    register = torch.nn.Module.register_parameter

    def register_parameter(self: Any, name: str, param: Any) -> None:
        if type(param) is torch.nn.Parameter and param.device.type == "cpu":
            param = _faked(membrane, param)
        register(self, name, param)

    torch.nn.Module.register_parameter = register_parameter
    _subclasses(membrane)
    _data(membrane)


def _faked(membrane: Membrane, parameter: Any) -> Any:
    made = membrane.made(parameter)
    if not isinstance(made, torch.nn.Parameter):
        made = torch.nn.Parameter(made, requires_grad=parameter.requires_grad)
    shadow.attach(made, None, FakeTensor)
    return made


def _subclasses(membrane: Membrane) -> None:
    make = torch.Tensor._make_subclass

    def make_subclass(cls: Any, data: Any, requires_grad: bool = False, **kwargs: Any) -> Any:
        own = issubclass(cls, torch.nn.Parameter) and cls is not torch.nn.Parameter and not issubclass(cls, FakeTensor)
        if not own or kwargs or not (isinstance(data, FakeTensor) or data.device.type == "cpu"):
            return make(cls, data, requires_grad, **kwargs)
        with torch.no_grad():
            made = (data if isinstance(data, FakeTensor) else membrane.made(data)).detach()
        made.__class__ = _both(cls)
        made.requires_grad_(requires_grad)
        return made

    torch.Tensor._make_subclass = staticmethod(make_subclass)


@functools.cache
def _both(cls: Any) -> Any:
    """A class of its name that is a fake as well."""
    written = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "detach": _detached}
    return type(cls)(cls.__name__, (cls, FakeTensor), written)


def _detached(self: Any) -> Any:
    """`Module.to` makes a Parameter of each fake, which has to keep its class."""
    made = torch.Tensor.detach(self)
    made.__class__ = type(self)
    for name, value in vars(self).items():
        vars(made).setdefault(name, value)
    return made


def _data(membrane: Membrane) -> None:
    """`tensor.data = other`, where one of the two is a fake: its device is kept in Python, and real ones become fakes."""
    descriptor = torch._C.TensorBase.data
    swap = torch.utils.swap_tensors

    def assign(self: Any, value: Any) -> None:
        if isinstance(self, FakeTensor) and isinstance(value, torch.Tensor):
            value = value if isinstance(value, FakeTensor) else membrane.made(value)
            descriptor.__set__(self, value)
            self.fake_device = value.fake_device
            shadow.attach(self, shadow.of(value), FakeTensor)
        elif type(self) in (torch.Tensor, torch.nn.Parameter) and isinstance(value, FakeTensor):
            made = value.detach().requires_grad_(self.requires_grad)
            made._is_param = isinstance(self, torch.nn.Parameter)
            swap(self, made)
        else:
            descriptor.__set__(self, value)

    torch.Tensor.data = property(lambda self: descriptor.__get__(self), assign)

    def swap_tensors(first: Any, second: Any) -> None:
        """`Module.to` swaps fakes, which would take the class of the other, and what comes back from the card: they get its data."""
        if isinstance(first, FakeTensor):
            first.data = second.data
        else:
            swap(first, second)

    torch.utils.swap_tensors = swap_tensors
