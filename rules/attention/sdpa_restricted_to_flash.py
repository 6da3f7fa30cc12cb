"""Scaled dot product attention is limited to kernels that a T4 does not have.

## What happens on a T4

PyTorch's flash and cuDNN attention kernels need compute capability 8.0. A program that allows only these, with
`sdpa_kernel(SDPBackend.FLASH_ATTENTION)`, with the older `sdp_kernel(enable_math=False, enable_mem_efficient=False)`,
or by switching the other two off, leaves nothing: the first attention ends in `RuntimeError: No available kernel.
Aborting execution.`

## How to fix it

Allow the others too: `sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])`, or
drop the restriction. PyTorch picks the best one that the GPU has; on a T4 in fp16 that is the memory-efficient kernel.

## When it is right to ignore it

When the block is only entered on another GPU, decided in a way that is not seen here. A benchmark that catches the
error is right as it is.

## Sources

* torch 2.0 to 2.15 `aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`, `torch/nn/attention/__init__.py`; the kernel
  choice needs a CUDA build and was read, not run
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Attention, Fact, Switch, Trace, Value

SWITCHES = {
    "torch.backends.cuda.enable_mem_efficient_sdp": "efficient",
    "torch.backends.cuda.enable_math_sdp": "math",
}


@rule(
    name="sdpa-restricted-to-flash",
    severity="error",
    summary="Attention limited to flash and cuDNN kernels, which a T4 does not have",
    message="Only attention kernels that need compute capability 8.0 are allowed here, and a T4 has 7.5: scaled dot product attention "
    "raises `No available kernel`.",
    help="Allow `SDPBackend.EFFICIENT_ATTENTION` and `SDPBackend.MATH` as well.",
    triggers=("sdp",),
    reads=(Attention, Switch),
    fix="safe",
)
def sdpa_restricted_to_flash(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 0):
        return
    on: dict[str, Value] = {"efficient": Value(True), "math": Value(True)}
    for event in trace.events:
        if isinstance(event, Attention) and event.role == "backend":
            yield Candidate(event, event.kernel.equals("none"))
        elif isinstance(event, Switch) and event.name in SWITCHES:
            on[SWITCHES[event.name]] = event.value
            none_left = Fact(True)
            for value in on.values():
                none_left &= value.equals(False)
            yield Candidate(event, none_left, blame=event.value)
