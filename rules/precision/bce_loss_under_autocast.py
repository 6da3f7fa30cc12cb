"""Binary cross entropy on probabilities is computed inside an autocast region, which refuses it.

## What happens on a T4

`nn.BCELoss` and `F.binary_cross_entropy` are on autocast's list of unsafe functions: inside an enabled CUDA region
they end in `RuntimeError: torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.`, in
fp16 and in bf16, also for inputs that were cast to float32. On the CPU nothing is raised, so a dry run passes.

## How to fix it

Drop the sigmoid at the end of the model and use `nn.BCEWithLogitsLoss`, which is safe and more exact. Where the model
must give probabilities, compute the loss in `with torch.autocast("cuda", enabled=False):` on `.float()` inputs.

## When it is right to ignore it

When the tensors are on the CPU. Where it cannot be told where they are, they are presumed to be on the GPU. A loss
inside the `forward` of a model that the Trainer runs with `fp16=True` fails in the same way, and is not seen here.

## Sources

* torch 2.13 `aten/src/ATen/autocast_mode.cpp`, executed with fake CUDA tensors in fp16 and in bf16, and on the CPU
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Operation, Trace
from t4lint.trace.questions import on_gpu


@rule(
    name="bce-loss-under-autocast",
    severity="error",
    summary="BCELoss inside a CUDA autocast region, which refuses it",
    message="Binary cross entropy on probabilities raises inside a CUDA autocast region (it is `{dtype}` here): it is unsafe in 16 bits.",
    help="Use `nn.BCEWithLogitsLoss` without the sigmoid, or compute this loss under `torch.autocast(..., enabled=False)` in float32.",
    triggers=("BCELoss", "binary_cross_entropy"),
    reads=(Operation,),
    fix="unsafe",
)
def bce_loss_under_autocast(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None:
        return
    for operation in trace.all(Operation):
        if operation.role != "binary_cross_entropy":
            continue
        gpu = on_gpu(operation.device)
        yield Candidate(
            operation,
            operation.autocast.test(lambda dtype: dtype != "none") & gpu,
            words={"dtype": operation.autocast.it},
        )
