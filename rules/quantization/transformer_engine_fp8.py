"""Transformer Engine is asked for fp8, and a T4 has none.

## What happens on a T4

`te.fp8_autocast(enabled=True)` asks for compute capability 8.9 and ends in `AssertionError: Device compute capability 8.9
or higher required for FP8 execution.`

## How to fix it

Leave the block out, or pass `enabled=False`, and use fp16 autocast of torch.

## When it is right to ignore it

When `enabled` comes from a test of the GPU in a place that is not seen.

## Sources

* transformer-engine 2.20.2 `pytorch/quantization.py`. Needs a GPU: not run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Trace


@rule(
    name="transformer-engine-fp8",
    severity="error",
    summary="fp8 of Transformer Engine, which a T4 does not have",
    message="fp8 needs compute capability 8.9 and a T4 has 7.5: Transformer Engine raises an AssertionError here.",
    help="Pass `enabled=False`, and use fp16 autocast of torch.",
    triggers=("transformer_engine",),
    reads=(Call,),
)
def transformer_engine_fp8(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 9):
        return
    for call in trace.all(Call):
        if call.function.startswith("transformer_engine.pytorch.") and "enabled" in call.arguments:
            yield Candidate(call, call.arguments["enabled"].equals(True), blame=call.arguments["enabled"])
