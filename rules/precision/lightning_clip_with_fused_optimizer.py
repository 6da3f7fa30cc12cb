"""Lightning clips gradients under fp16 mixed precision, with an optimizer that it cannot do that for.

## What happens on a T4

Under `precision="16-mixed"` gradients are scaled and have to be unscaled before they are clipped. A fused optimizer
unscales by itself in its step, so Lightning refuses: `RuntimeError: The current optimizer, ..., does not allow for
gradient clipping because it performs unscaling of gradients internally`. L-BFGS cannot be used with a scaler at all. In
bf16 there is no scaler, and the same program ran on an A100.

## How to fix it

Drop `fused=True`; take another optimizer than L-BFGS.

## When it is right to ignore it

When the module clips by itself in `configure_gradient_clipping`.

## Sources

* lightning 2.1.4 and 2.6.6 `pytorch/plugins/precision/amp.py`; both errors executed on 2.6.6
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, DropArgument, Edit, rule
from t4lint.trace import FALSE, Call, Optimizer, Trace


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    optimizer = candidate.event
    if isinstance(optimizer, Optimizer) and optimizer.fused.it is True:
        yield DropArgument(optimizer.fused, "fused", otherwise="False")


@rule(
    name="lightning-clip-with-fused-optimizer",
    severity="error",
    summary="Lightning with fp16, gradient clipping and a fused optimizer",
    message="{what}: Lightning raises an error at the first step.",
    help="Drop `fused=True`, or take another optimizer than L-BFGS.",
    triggers=("fused", "LBFGS"),
    reads=(Call, Optimizer),
    fix="safe",
    fixes=_fixes,
    fix_title="Use the optimizer that is not fused",
)
def lightning_clip_with_fused_optimizer(trace: Trace) -> Iterator[Candidate]:
    trainers = [call for call in trace.all(Call) if call.function == "lightning.pytorch.Trainer"]
    for optimizer in trace.all(Optimizer) if trainers else ():
        lbfgs = optimizer.name.it == "LBFGS"
        refused = FALSE
        for trainer in trainers:
            fp16 = trainer.arguments["precision"].equals("fp16")
            clips = trainer.arguments["gradient_clip_val"].test(lambda value: bool(value))
            refused |= fp16 if lbfgs else fp16 & clips & optimizer.fused.equals(True)
        what = "L-BFGS does not work with fp16 mixed precision" if lbfgs else (
            "Under fp16 the gradients of a fused optimizer cannot be clipped"
        )  # fmt: skip
        yield Candidate(
            optimizer, refused, blame=None if lbfgs else optimizer.fused, related=tuple(trainers), words={"what": what}
        )
