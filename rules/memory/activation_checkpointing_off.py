"""Training that nearly fills the card keeps all activations, and activation checkpointing is off.

## What happens on a T4

Without checkpointing every block keeps its intermediate tensors until the backward: for a language model 30 to 90 bytes a
token, layer and unit of width. When they fill most of what weights and optimizer leave, the run ends with
`torch.OutOfMemoryError` at the first batch that is longer than the others, or as soon as memory is fragmented. With
checkpointing only the input of each block stays, 2 or 4 bytes, and the block is computed again in the backward.

## How to fix it

`gradient_checkpointing=True` in the training arguments (`activation_checkpointing=True` from transformers 5.23 on, where
both names work), or `model.gradient_checkpointing_enable()` in a loop of your own. A step takes 20 to 30 % longer, which
a larger micro-batch often gives back.

## When it is right to ignore it

When the run was seen to fit and its batches are all of one length. The estimate is of the largest batch that the program
allows; only its lower edge is held against 80 % of the card. Steps that do not fit at all are reported by
`micro-batch-too-large`.

## Sources

* bytes of activations: traces of transformers 5.24 on torch 2.13 (`docs/memory.md`); the default of the switch and its
  name: transformers 5.24 `training_args.py`, trl 0.22 (on by default)
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, Edit, SetArgument, rule
from t4lint.trace import FALSE, Engine, Fact, Step, Trace, Value
from t4lint.trace.questions import first_of_each, lowest, on_gpu

GIB = 2**30
FULL = 0.8  # of the card
WORTH = 0.3  # of the peak that activations take at least


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    engines = [engine for engine in trace.all(Engine) if engine.role.endswith(("Arguments", "Config"))]
    if len(engines) == 1:
        yield SetArgument(engines[0], "gradient_checkpointing", "True", callee=engines[0].role)


@rule(
    name="activation-checkpointing-off",
    severity="warning",
    summary="Activations that nearly fill the card without checkpointing",
    message="This step needs at least {peak:.1f} of {usable:.1f} GiB, {kept:.1f} of them for activations that checkpointing "
    "would not keep.",
    help="Switch activation checkpointing on: `gradient_checkpointing=True`.",
    triggers=("Trainer", "checkpointing", "from_pretrained"),
    reads=(Engine, Step),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Switch activation checkpointing on",
)
def activation_checkpointing_off(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None:
        return
    usable = float(trace.target.gpu.usable_bytes)
    engines = list(trace.all(Engine))
    if not engines:
        return
    switch = engines[-1].activation_checkpointing
    for step in first_of_each(trace, Step):
        kept = lowest(step, "activations")
        nearly = step.peak.test(lambda band: FULL * usable < band[0] <= usable)
        off = on_gpu(step.device) & switch.equals(False) & nearly
        if step.peak.known and kept < WORTH * step.peak.it[0]:
            off &= FALSE
        peak = step.peak.it[0] if step.peak.known else 0.0
        yield Candidate(
            step,
            off if step.peak.known else Fact(None, (step.peak,)),
            blame=_place(switch, step),
            words={"peak": peak / GIB, "usable": usable / GIB, "kept": kept / GIB},
        )


def _place(switch: Value, step: Step) -> Value | None:
    """The switch where it is written, else the micro-batch that the step has."""
    written = any(origin.location is not None and origin.how != "default" for origin in switch.origins)
    return switch if written else step.micro_batch if step.micro_batch.known else None
