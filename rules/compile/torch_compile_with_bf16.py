"""A model in bf16 is compiled, and Inductor does not compile bf16 for a T4.

## What happens on a T4

Since torch 2.4 Inductor looks at the inputs and outputs of each graph. If one of them is bf16 on the GPU it warns
`Tesla T4 does not support bfloat16 compilation natively, skipping` and runs that part without compiling it: the time
for tracing is spent for nothing. In the graph of the backward pass the skip can escape as `SkipFrame: BF16 is not
supported` and end the training. torch 2.1 to 2.3 stop with an error of ptxas, `Feature '.bf16' requires .target sm_80
or higher`.

## How to fix it

Compile the fp16 program, with float32 weights and fp16 autocast, or leave `torch.compile` out.

## When it is right to ignore it

When bf16 occurs only inside the graph and all inputs and outputs are float32. Where mixed precision or weights in bf16
have a finding of their own, that one speaks, and this rule only for torch 2.1 to 2.3, where the run ends.

## Sources

* torch 2.4.1 to 2.15.0 `torch/_inductor/compile_fx.py` (`_check_triton_bf16_support`); pytorch/pytorch#118122, #129288
* inclusionAI/AReno#159, on a T4, for the skip that ends the backward pass. Needs a GPU: not run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Autocast, Compile, Engine, Fact, Forward, Model, Trace


@rule(
    name="torch-compile-with-bf16",
    severity="warning",
    summary="A bf16 model that is compiled, which Inductor skips on a T4",
    message="The compiled model has bf16 inputs or outputs, and Inductor does not compile bf16 for a T4: {effect}.",
    help="Compile the fp16 program (float32 weights, fp16 autocast), or leave `torch.compile` out.",
    triggers=("compile",),
    reads=(Compile, Forward, Model, Autocast, Engine),
    fix="unsafe",
)
def torch_compile_with_bf16(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or "bfloat16" in trace.target.gpu.native_dtypes:
        return
    old = trace.version_at_least("torch", "2.4").holds is False
    named = _named_elsewhere(trace)
    for compiled in trace.all(Compile):
        slow = compiled.dtype.equals("bfloat16")
        if slow.holds is None and old and named:
            slow = Fact(True, tuple(compiled.dtype for _ in ()))
        if named and not old:
            slow &= FALSE
        yield Candidate(
            compiled,
            slow,
            severity="error" if old else None,
            words={
                "effect": "this version of torch stops with an error of ptxas"
                if old
                else "it traces the model, skips it, and can end the backward pass"
            },
        )


def _named_elsewhere(trace: Trace) -> bool:
    """Another rule names bf16 as the cause."""
    asked = [engine.mixed_precision.it for engine in trace.all(Engine)]
    asked += [region.dtype.it for region in trace.all(Autocast) if region.enabled.it is True]
    asked += [model.requested_dtype.it if model.role == "load" else model.dtype.it for model in trace.all(Model)]
    return any(value in ("bf16", "bfloat16") for value in asked)
