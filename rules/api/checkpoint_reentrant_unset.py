"""`torch.utils.checkpoint.checkpoint` is called without saying which kind.

## What happens on a T4

Without `use_reentrant` torch takes the reentrant kind and warns at each run. That kind gives no gradient where no input asks for
one, as with adapters on a frozen model, and does not keep keyword arguments; the default is announced to change.

## How to fix it

`use_reentrant=False`, which the documentation recommends.

## When it is right to ignore it

When the warning does not matter. The rule is off by default.

## Sources

* torch 2.13, `torch/utils/checkpoint.py`, executed: the warning, and no gradient for an input without one
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import AddArgument, Candidate, Edit, rule
from t4lint.trace import Call, Trace
from t4lint.trace.questions import first_of_each


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    yield AddArgument(candidate.event, "use_reentrant", "False", callee="checkpoint")


@rule(
    name="checkpoint-reentrant-unset",
    severity="note",
    summary="Activation checkpointing does not say which kind it is",
    message="Without `use_reentrant` this is the older kind of checkpointing, with a warning at each run.",
    help="Pass `use_reentrant=False`.",
    triggers=("checkpoint",),
    reads=(Call,),
    default=False,
    fix="unsafe",
    fixes=_fixes,
    fix_title="Take the newer kind",
)
def checkpoint_reentrant_unset(trace: Trace) -> Iterator[Candidate]:
    for call in first_of_each(trace, Call):
        if call.role == "checkpoint":
            yield Candidate(call, call.arguments["use_reentrant"].equals(None))
