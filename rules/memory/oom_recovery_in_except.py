"""A program trains again inside the handler that caught an out-of-memory error.

## What happens on a T4

Inside `except`, the exception still holds the frames of the step that failed, and with them its activations: they are freed only
when the handler is left. `torch.cuda.empty_cache()` frees nothing there. The second attempt has to fit beside what is left of the
first one, so on a card of 14.6 GiB a batch of half the size runs out of memory as well.

## How to fix it

Remember in the handler that memory ran out, and try again after it:

    out_of_memory = False
    try:
        loss = step(batch)
    except torch.cuda.OutOfMemoryError:
        out_of_memory = True
    if out_of_memory:
        torch.cuda.empty_cache()
        loss = step(smaller(batch))

## When it is right to ignore it

When the second attempt needs hardly any memory. A handler that clears the frames (`traceback.clear_frames`) or computes on the CPU
is not reported.

## Sources

* torch documentation, FAQ, "My out of memory exception handler can't allocate memory" (torch 2.13); Python 3.11 with torch 2.13,
  executed: a tensor of the frame that failed is alive inside the handler, with and without `as error`, and freed right after it
* `verify` does not watch handlers: its verdict is that this was not exercised
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Trace
from t4lint.trace.questions import first_of_each


@rule(
    name="oom-recovery-in-except",
    severity="warning",
    summary="Training goes on inside the handler of an out-of-memory error",
    message="This runs inside `except`, where the tensors of the step that failed are still alive: it runs out of memory again.",
    help="Set a flag in the handler, and try again after it.",
    triggers=("OutOfMemoryError", "out of memory", "should_reduce_batch_size"),
    reads=(Call,),
)
def oom_recovery_in_except(trace: Trace) -> Iterator[Candidate]:
    for call in first_of_each(trace, Call):
        if call.function == "except OutOfMemoryError":
            yield Candidate(call, call.arguments["computes"].equals(True))
