"""What Python code does to tensors beside operations: `numpy()`, `tolist()`, pinning."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .membrane import CUDA, Membrane


def install(membrane: Membrane) -> None:
    """Replace methods of Tensor that a dispatch mode does not see."""
    _conversions(membrane)
    _pinning()
    _ctc()
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

    write = tensor.__format__

    def __format__(self: Any, spec: str) -> str:  # noqa: N807 (stands for the method)
        if isinstance(self, FakeTensor) and self.dim() == 0:
            return format(self.item(), spec)
        return str(write(self, spec))

    tensor.numpy, tensor.tolist, tensor.__format__ = numpy, tolist, __format__


def _pinning() -> None:
    """A label here: without a driver there is no pinned memory."""

    def pin_memory(self: Any, *args: Any, **kwargs: Any) -> Any:
        pinned = self.view_as(self) if not self.requires_grad else self
        pinned._t4lint_pinned = True
        return pinned

    def is_pinned(self: Any, *args: Any, **kwargs: Any) -> bool:
        return bool(getattr(self, "_t4lint_pinned", False))

    torch.Tensor.pin_memory, torch.Tensor.is_pinned = pin_memory, is_pinned


def _ctc() -> None:
    """Lengths as tensors take another way in C++ for subclasses of Tensor, which mixes devices; lists take the usual one."""
    original = torch.ctc_loss

    def ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *args: Any, **kw: Any) -> Any:
        lengths = [it.tolist() if isinstance(it, torch.Tensor) else it for it in (input_lengths, target_lengths)]
        return original(log_probs, targets, *lengths, *args, **kw)

    torch.ctc_loss = ctc_loss


def _foreach() -> None:
    """Optimizers and clipping take their multi-tensor path for CUDA tensors of these types: fakes stand for such."""
    from torch.optim import optimizer
    from torch.utils import _foreach_utils

    for module in (optimizer, _foreach_utils):
        types = getattr(module, "_foreach_supported_types", None)
        if isinstance(types, list) and FakeTensor not in types:
            types.append(FakeTensor)
