"""What cuDNN may take for the time of a convolution: memory that speeds it up, and that it can do without.

torch tries the plans of cuDNN in the order of its heuristics and goes on to the next where the workspace of one does not
fit (aten/src/ATen/native/cudnn/Conv_v8.cpp, `try_plans`), so no program ends because of it: it is told of, not counted.
The largest that is common is the one of the Winograd algorithm that is not fused, F(4x4, 3x3): input, output and filter
as tiles of 6x6 (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015).
"""

from __future__ import annotations

from typing import Any

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
