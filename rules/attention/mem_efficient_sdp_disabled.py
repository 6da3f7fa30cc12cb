"""The memory-efficient attention kernel is switched off, and a T4 has no other fast one.

## What happens on a T4

PyTorch has three kernels for scaled dot product attention besides the plain one, and on a T4 only the memory-efficient
kernel works: flash and cuDNN need compute capability 8.0. With `enable_mem_efficient_sdp(False)` the math kernel is
left. It stores the scores of every head, length times length, so memory grows with the square of the length, and it
is slower. Code that came from a workaround for another GPU, often together with `enable_flash_sdp(False)`, ends here.

## How to fix it

Delete the line. `enable_flash_sdp(False)` may stay: on a T4 it changes nothing.

## When it is right to ignore it

When second derivatives are needed, which only the math kernel has, or when results must be bit for bit those of the
plain formula.

## Sources

* torch 2.0 to 2.15 `aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`; the kernel choice needs a CUDA build and was
  read, not run
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Switch, Trace

EFFICIENT = "torch.backends.cuda.enable_mem_efficient_sdp"
MATH = "torch.backends.cuda.enable_math_sdp"


@rule(
    name="mem-efficient-sdp-disabled",
    severity="warning",
    summary="The only fast attention kernel of a T4 is switched off",
    message="Without the memory-efficient kernel only the math kernel is left on a T4: attention stores all scores, length times length "
    "for each head.",
    help="Delete this line; `enable_flash_sdp(False)` may stay.",
    triggers=("enable_mem_efficient_sdp",),
    reads=(Switch,),
    fix="unsafe",
)
def mem_efficient_sdp_disabled(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 0):
        return
    switches = [switch for switch in trace.all(Switch) if switch.name in (EFFICIENT, MATH)]
    for number, switch in enumerate(switches):
        if switch.name != EFFICIENT:
            continue
        off = switch.value.equals(False)
        if any(later.name == EFFICIENT and later.value.it is not False for later in switches[number + 1 :]):
            off &= FALSE  # switched on again
        if any(other.name == MATH and other.value.it is False for other in switches):
            off &= FALSE  # then no kernel is left: another rule's finding
        yield Candidate(switch, off, blame=switch.value)
