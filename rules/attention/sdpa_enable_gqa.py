"""Grouped-query attention is left to SDPA, which has no fast kernel for it on a T4 before torch 2.14.

## What happens on a T4

`F.scaled_dot_product_attention(..., enable_gqa=True)` works with the flash kernel and the math kernel only, and flash
needs compute capability 8.0. Until torch 2.13 the memory-efficient kernel refuses it, so a T4 falls to the math kernel:
it stores all scores, and was measured at half the throughput in generation.

## How to fix it

Use torch 2.14 or later, or repeat the key and value heads before the call:
`key.repeat_interleave(query.size(1) // key.size(1), 1)`.

## When it is right to ignore it

For short sequences, where the scores are small.

## Sources

* torch 2.13 and 2.14 `torch/nn/functional.py`; pytorch/pytorch#191085. On T4s: huggingface/transformers#48633, #45776.
  The kernel choice needs a CUDA build: not run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Fact, Trace


@rule(
    name="sdpa-enable-gqa",
    severity="warning",
    summary="enable_gqa on a torch whose memory-efficient kernel lacks it",
    message="With `enable_gqa=True` this version of torch leaves only the math kernel on a T4: attention stores all scores.",
    help="Use torch 2.14 or later, or repeat the key and value heads before the call.",
    triggers=("enable_gqa",),
    reads=(Call,),
    fix="unsafe",
)
def sdpa_enable_gqa(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 0):
        return
    pinned = "torch" in trace.versions and trace.versions["torch"].known
    old = Fact(pinned and trace.version_at_least("torch", "2.14").holds is False)
    for call in trace.all(Call):
        if call.function.endswith(".scaled_dot_product_attention"):
            asked = call.arguments["enable_gqa"].equals(True)
            yield Candidate(call, asked & old, blame=call.arguments["enable_gqa"])
