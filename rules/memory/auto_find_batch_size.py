"""The Trainer is left to find the batch size by running out of memory.

## What happens on a T4

`auto_find_batch_size=True` starts with the batch that is written, and restarts the whole training loop with a smaller one after
each out-of-memory error: halved up to accelerate 1.7, times 0.9 from 1.10 on, so that 20 attempts lie between 64 and 4. Only the
training batch shrinks. `gradient_accumulation_steps`, the learning rate and the evaluation batch stay, so the run trains
with another effective batch than the configuration says, and a larger one on the next machine.

## How to fix it

Write a micro-batch that fits and the accumulation that makes up for it: `per_device_train_batch_size=4,
gradient_accumulation_steps=8`.

## When it is right to ignore it

In a first attempt that is there to learn what fits.

## Sources

* accelerate 1.7 and 1.15 `find_executable_batch_size` (20 attempts from 64 to 4 counted on 1.15); transformers 5.24 `trainer.py`
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Trace


@rule(
    name="auto-find-batch-size",
    severity="note",
    summary="The batch size is found by running out of memory",
    message="After each out-of-memory error training starts again with a smaller batch, while accumulation and learning rate stay: "
    "the effective batch is not the one that is written.",
    help="Write a micro-batch that fits, and `gradient_accumulation_steps` that make up for it.",
    triggers=("auto_find_batch_size", "auto-find-batch-size"),
    reads=(Call,),
)
def auto_find_batch_size(trace: Trace) -> Iterator[Candidate]:
    for call in trace.all(Call):
        asked = call.arguments.get("auto_find_batch_size")
        if asked is not None:
            yield Candidate(call, asked.equals(True), blame=asked)
