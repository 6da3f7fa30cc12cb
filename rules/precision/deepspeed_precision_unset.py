"""A DeepSpeed configuration says nothing of the precision, so the engine trains in float32.

## What happens on a T4

Without a block `fp16`, `bf16` or `torch_autocast` DeepSpeed keeps weights, gradients and arithmetic in float32: the
tensor cores of a T4 stay idle, and twice the bytes go over the wire.

## How to fix it

Add `"fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 16}` to the configuration. With the Trainer of
transformers or with accelerate the block may be left out: they add it from `fp16=True`.

## When it is right to ignore it

For a model that overflows in fp16, or when the program wraps its forward in autocast itself.

## Sources

* DeepSpeed 0.19.6 `runtime/config.py` (both blocks are off unless enabled); accelerate 1.15 `utils/dataclasses.py`
  (`DeepSpeedPlugin.set_mixed_precision`, executed: it adds the block). DeepSpeed itself needs a GPU: not run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Autocast, Call, Trace


@rule(
    name="deepspeed-precision-unset",
    severity="warning",
    summary="A DeepSpeed configuration without a precision, which is float32",
    message="The DeepSpeed configuration has no `fp16` block, so the engine trains in float32 and the tensor cores of a T4 stay idle.",
    help='Add a block `fp16` with `"enabled": true` and `"loss_scale": 0` to it.',
    triggers=("deepspeed",),
    reads=(Call, Autocast),
)
def deepspeed_precision_unset(trace: Trace) -> Iterator[Candidate]:
    autocast = any(region.enabled.it is not False for region in trace.all(Autocast))
    for call in trace.all(Call):
        if call.function == "deepspeed.initialize":
            block = call.arguments["precision_block"]
            unset = block.equals(False)
            yield Candidate(call, unset & FALSE if autocast else unset, blame=block)
