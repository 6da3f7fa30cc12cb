"""The old and the new switches for TF32 are both used, and contradict each other.

## What happens on a T4

Since torch 2.9 there are two interfaces for one setting: `allow_tf32` and `fp32_precision`. When they were set to
different things, whatever reads the old one raises: `RuntimeError: PyTorch is checking whether allow_tf32_new is enabled
for cuBlas matmul, Current status indicate that you have used mix of the legacy and new APIs`. It is not peculiar to a
T4, but on a T4 neither switch has any effect: there is no TF32.

## How to fix it

Delete both. A program for several kinds of GPU keeps one, `fp32_precision` on torch 2.9 or later.

## When it is right to ignore it

When both say the same; it is not reported. On torch before 2.9 the new name is only an attribute that nothing reads.

## Sources

* torch 2.13 `torch/backends/cuda/__init__.py`, executed: the old switch on and the new one at "ieee" raises when the old
  one is read, both for TF32 do not. Whether a matrix product on CUDA reads it was not run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Fact, Switch, Trace

NEW = "torch.backends.cuda.matmul.fp32_precision"
OLD = "torch.backends.cuda.matmul.allow_tf32"


@rule(
    name="mixed-tf32-apis",
    severity="error",
    summary="The old and the new TF32 switches set to different things",
    message="`{new}` contradicts `{old}`: whatever reads the old switch raises a RuntimeError, and on a T4 neither has an effect.",
    help="Delete both: a T4 has no TF32.",
    triggers=("fp32_precision",),
    reads=(Switch,),
    fix="unsafe",
)
def mixed_tf32_apis(trace: Trace) -> Iterator[Candidate]:
    recent = trace.version_at_least("torch", "2.9")
    old: Switch | None = None
    for switch in trace.all(Switch):
        if switch.name == OLD:
            old = switch
        elif switch.name == NEW and old is not None:
            on = old.value.test(bool)
            tf32 = switch.value.equals("tf32")
            differ = Fact(None, on.rests_on + tf32.rests_on)
            if on.holds is not None and tf32.holds is not None:
                differ = Fact(on.holds is not tf32.holds)
            words = {"new": f'fp32_precision = "{switch.value.it}"', "old": f"allow_tf32 = {old.value.it}"}
            yield Candidate(switch, differ & Fact(recent.holds), blame=switch.value, words=words, related=(old,))
