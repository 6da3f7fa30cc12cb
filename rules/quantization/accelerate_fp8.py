"""Mixed precision in fp8 is asked for, and accelerate turns it into fp16 on a T4.

## What happens on a T4

fp8 needs compute capability 8.9. With one of the fp8 libraries installed, `Accelerator(mixed_precision="fp8")` logs `Will
use FP16 instead.` and goes on in fp16; with none it raises a ValueError. So the run that you get is fp16.

## How to fix it

Write `mixed_precision="fp16"`, which is what runs, without the further library.

## When it is right to ignore it

When the same script also runs on a GPU that has fp8.

## Sources

* accelerate 0.34 and 1.15 `state.py`; 1.15 executed with the capability of a T4
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, Edit, SetValue, rule
from t4lint.trace import Engine, Trace


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    if candidate.blame is not None:
        yield SetValue(candidate.blame, '"fp16"')


@rule(
    name="accelerate-fp8",
    severity="note",
    summary="fp8 mixed precision, which accelerate turns into fp16 on a T4",
    message="A T4 has no fp8: accelerate runs in fp16 instead and says so in one line of its log.",
    help='Write `mixed_precision="fp16"`, which is what runs.',
    triggers=("fp8",),
    reads=(Engine,),
    fix="safe",
    fixes=_fixes,
    fix_title="Ask for fp16",
)
def accelerate_fp8(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 9):
        return
    for engine in trace.all(Engine):
        if engine.role == "Accelerator":
            yield Candidate(engine, engine.mixed_precision.equals("fp8"), blame=engine.mixed_precision)
