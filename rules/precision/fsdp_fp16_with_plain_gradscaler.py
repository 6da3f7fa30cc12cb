"""FSDP shards a model in fp16, and a plain gradient scaler steps it.

## What happens on a T4

Each rank of `FullyShardedDataParallel` sees its own shard of the gradients. A plain `GradScaler` looks for infinities in
that shard only: one rank skips the step, the others take it, and from there on the ranks hold different weights.
Nothing is raised.

## How to fix it

Use `torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler`, which agrees over the ranks. accelerate and the
Trainer pick it by themselves.

## When it is right to ignore it

With `fully_shard` (FSDP2), whose gradients are DTensors; it is not reported.

## Sources

* torch 2.15 `torch/distributed/fsdp/sharded_grad_scaler.py`; accelerate 1.15 `accelerator.py`. Needs several GPUs: not
  run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Call, Scaler, Trace, Wrap


@rule(
    name="fsdp-fp16-with-plain-gradscaler",
    severity="warning",
    summary="A plain GradScaler over an FSDP model in fp16",
    message="A plain `GradScaler` sees only one rank's shard of the gradients: ranks disagree on which steps to skip, and their weights "
    "drift apart.",
    help="Use `ShardedGradScaler` from `torch.distributed.fsdp.sharded_grad_scaler`.",
    triggers=("FullyShardedDataParallel", "FSDP"),
    reads=(Scaler, Wrap, Call),
    fix="unsafe",
)
def fsdp_fp16_with_plain_gradscaler(trace: Trace) -> Iterator[Candidate]:
    half = FALSE
    for call in trace.all(Call):
        if call.function.endswith("fsdp.MixedPrecision") and "param_dtype" in call.arguments:
            half |= call.arguments["param_dtype"].equals("float16")
    sharded = any(wrap.how.it == "fsdp" and wrap.role == "" for wrap in trace.all(Wrap))
    for scaler in trace.all(Scaler):
        if scaler.operation == "init" and sharded:
            yield Candidate(scaler, half & scaler.sharded.equals(False) & scaler.enabled.equals(True))
