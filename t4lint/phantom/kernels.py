"""Operations that a GPU has a kernel for, and that a torch built without one puts together from others.

The steps in between would be there as tensors, and count as memory that no GPU takes: the backward of SiLU alone had five.
With a kernel registered, torch calls the operation as one. It never runs: the membrane stands before it.
"""

from __future__ import annotations

from typing import Any

import torch

# CompositeImplicitAutograd beside CUDA in aten/src/ATen/native/native_functions.yaml (torch 2.6 to 2.13)
OPERATIONS = ("silu_backward", "mish_backward", "_fused_rms_norm")
registered: list[Any] = []  # a library takes its kernels along when it goes


def install() -> None:
    """Where this torch has no kernel of CUDA for them."""
    library = torch.library.Library("aten", "IMPL")
    for name in OPERATIONS:
        if hasattr(torch.ops.aten, name) and not torch._C._dispatch_has_kernel_for_dispatch_key(
            f"aten::{name}", "CUDA"
        ):
            library.impl(name, _never, "CUDA")
    registered.append(library)


def _never(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError("a kernel of the phantom does not run")
