"""What cuDNN may take for the time of a convolution: memory that speeds it up, and that it can do without.

torch tries the plans of cuDNN in the order of its heuristics and goes on to the next where the workspace of one does not
fit (aten/src/ATen/native/cudnn/Conv_v8.cpp, `try_plans`), so no program ends because of it: it is told of, not counted.
The largest that is common is the one of the Winograd algorithm that is not fused, F(4x4, 3x3): input, output and filter
as tiles of 6x6 (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015).

With `torch.backends.cudnn.benchmark` the first convolution of its kind and shapes tries all plans, and gives what the
allocator holds and nobody uses back to the driver (`run_single_conv` there).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

TILE, MADE = 36, 4  # values of a tile of 6x6, and the side of the square of results that comes out of it


def workspace(input_: Any, weight: Any, stride: Any, dilation: Any, transposed: bool, groups: int) -> int:
    """Bytes; 0 where the algorithm does not apply (another kernel than 3x3, strides, groups)."""
    if transposed or groups != 1 or weight.dim() != 4 or tuple(weight.shape[2:]) != (3, 3):
        return 0
    if any(it != 1 for it in (*stride, *dilation)) or input_.dim() != 4:
        return 0
    batch, before, height, width = input_.shape
    tiles = batch * -(-height // MADE) * -(-width // MADE)
    after = weight.shape[0]
    return int(TILE * (tiles * (before + after) + before * after) * input_.element_size())


def searched(forward: bool, args: Any) -> Iterator[tuple[Any, ...]]:
    """What cuDNN looks for the fastest plan of: one key for each kernel that the convolution takes, none for native ones."""
    if not (torch.backends.cudnn.benchmark and torch.backends.cudnn.enabled):
        return
    if forward:
        input_, weight, _, *how = args[:9]
        kinds: tuple[str, ...] = ("output",)
    else:
        _, input_, weight, _, *how = args[:10]
        kinds = tuple(kind for kind, wanted in zip(("input", "weight"), args[10], strict=False) if wanted)
    if _native(input_, groups=how[-1]):
        return
    for kind in kinds:
        yield (kind, input_.dtype, _last(input_), *(tuple(it) for it in (input_.shape, weight.shape)), str(how))


def _native(input_: Any, groups: int) -> bool:
    """Depthwise ones are PyTorch's own but in 16 bits or with channels last (ConvParams::use_cudnn_depthwise)."""
    depthwise = input_.dim() == 4 and 1 < groups == input_.shape[1]
    return depthwise and input_.dtype == torch.float32 and not _last(input_)


def _last(input_: Any) -> bool:
    return input_.dim() == 4 and not input_.is_contiguous() and input_.is_contiguous(memory_format=torch.channels_last)
