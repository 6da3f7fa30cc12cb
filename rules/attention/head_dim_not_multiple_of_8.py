"""The heads of attention have a size that the memory-efficient kernel refuses in fp16.

## What happens on a T4

In fp16 the memory-efficient kernel of SDPA needs heads whose size is a multiple of 8 on a T4. Other sizes go to the math
kernel, which stores all scores. float32 has no such condition.

## How to fix it

Choose width and number of heads so that width / heads is a multiple of 8: 512 with 8 heads, not 300 with 6.

## When it is right to ignore it

For a pretrained model, whose shape is given. The rule is off by default.

## Sources

* torch 2.15 `aten/src/ATen/native/transformers/cuda/sdp_utils.cpp` (`check_head_dim_size_mem_efficient`,
  `minimum_gemm_alignment`). The choice of a kernel needs a CUDA build: not run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Attention, Autocast, Engine, Model, Trace
from t4lint.trace.questions import first_of_each, in_fp16

ALIGNMENT = 8  # 16 bytes of fp16: `minimum_gemm_alignment` on sm_75


@rule(
    name="head-dim-not-multiple-of-8",
    severity="note",
    summary="A head size that leaves only the math kernel in fp16",
    message="Heads of {size} are no multiple of 8: in fp16 only the math kernel is left, which stores all scores.",
    help="Choose a width and a number of heads whose quotient is a multiple of 8.",
    triggers=("heads", "nhead", "n_head", "MultiheadAttention"),
    reads=(Attention, Autocast, Engine, Model),
    default=False,
)
def head_dim_not_multiple_of_8(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 0) or not in_fp16(trace):
        return
    for attention in first_of_each(trace, Attention):
        if attention.role == "layer":
            size = attention.head_dim
            yield Candidate(attention, size.test(lambda dim: dim % ALIGNMENT != 0), words={"size": size.it})
