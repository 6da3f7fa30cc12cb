"""A name of `torch.cuda.amp` that torch has announced to remove.

## What happens on a T4

Nothing yet: `torch.cuda.amp.autocast` and `torch.cuda.amp.GradScaler` work as before, and print a FutureWarning since torch 2.4.

## How to fix it

`torch.amp.autocast("cuda", ...)` and `torch.amp.GradScaler("cuda", ...)`. The order of positional arguments differs: the old
`autocast(enabled)` has `enabled` first, the new one `device_type`, so name the arguments.

## When it is right to ignore it

When the program has to run on torch before 2.3, which lacks `torch.amp.GradScaler`. The rule is off by default.

## Sources

* torch 2.13, `torch/cuda/amp/autocast_mode.py` and `grad_scaler.py`, executed: the warning; torch 2.4 release notes
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Trace
from t4lint.trace.questions import first_of_each

NEW = {"torch.cuda.amp.autocast": "torch.amp.autocast", "torch.cuda.amp.GradScaler": "torch.amp.GradScaler"}


@rule(
    name="deprecated-cuda-amp",
    severity="note",
    summary="A name of torch.cuda.amp that is announced to go",
    message="`{old}` is deprecated since torch 2.4.",
    help='Write `torch.amp.autocast("cuda", ...)` and `torch.amp.GradScaler("cuda", ...)`, with named arguments.',
    triggers=("cuda.amp", "autocast", "GradScaler"),
    reads=(Call,),
    default=False,
)
def deprecated_cuda_amp(trace: Trace) -> Iterator[Candidate]:
    for call in first_of_each(trace, Call):
        if call.role == "deprecated" and call.function in NEW:
            yield Candidate(call, trace.version_at_least("torch", "2.4"), words={"old": call.function})
