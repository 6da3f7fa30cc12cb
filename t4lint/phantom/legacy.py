"""`torch.cuda.FloatTensor` and its kin, as older programs make, convert and ask for tensors: a build without CUDA refuses them."""

from __future__ import annotations

from typing import Any

import torch

PREFIX = "torch.cuda."


class Legacy:
    """A tensor type. Called with sizes it makes a tensor without values, with data one that holds them."""

    def __init__(self, original: Any) -> None:
        self.dtype = original.dtype
        self.layout = torch.strided
        self.is_cuda = True
        self.is_sparse = False
        self.__name__ = original.__name__
        self.__module__ = "torch.cuda"

    def __call__(self, *args: Any, device: Any = None) -> Any:
        device = device or "cuda"
        if not args or isinstance(args[0], (int, torch.Size)):
            return torch.empty(*(args or (0,)), dtype=self.dtype, device=device)
        if isinstance(args[0], torch.Tensor):
            return args[0].to(device, self.dtype)
        return torch.tensor(args[0], dtype=self.dtype, device=device)

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.is_cuda and value.dtype is self.dtype

    def __repr__(self) -> str:
        return f"<class '{PREFIX}{self.__name__}'>"


def install() -> None:
    """In the place of torch's types, and in what takes one: `Tensor.type` and `set_default_tensor_type`."""
    names = [
        name for name in dir(torch.cuda) if name.endswith("Tensor") and isinstance(getattr(torch.cuda, name), type)
    ]
    types = {name: Legacy(getattr(torch.cuda, name)) for name in names if hasattr(getattr(torch.cuda, name), "dtype")}
    for name, made in types.items():
        setattr(torch.cuda, name, made)
    convert, default = torch.Tensor.type, torch.set_default_tensor_type

    def chosen(asked: Any) -> Any:
        if isinstance(asked, str) and asked.startswith(PREFIX):
            return types.get(asked.removeprefix(PREFIX), asked)
        return asked

    def type_(self: Any, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        if dtype is None and not kwargs:
            made = next((it for it in types.values() if self.is_cuda and it.dtype is self.dtype), None)
            return f"{PREFIX}{made.__name__}" if made is not None else convert(self)
        asked = chosen(dtype)
        if isinstance(asked, Legacy):
            return self.to("cuda", asked.dtype, non_blocking)
        return convert(self, dtype, non_blocking, **kwargs)

    def set_default_tensor_type(asked: Any) -> None:
        asked = chosen(asked)
        if not isinstance(asked, Legacy):
            default(asked)
            return
        torch.set_default_dtype(asked.dtype)
        torch.set_default_device("cuda")

    torch.Tensor.type = type_
    torch.set_default_tensor_type = set_default_tensor_type
