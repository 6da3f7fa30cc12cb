"""`max-autotune` is asked for, and Inductor does not autotune matrix products on a T4.

## What happens on a T4

`mode="max-autotune"` makes Inductor try many Triton kernels for each matrix product. It does so only on GPUs with at
least 68 multiprocessors, and a T4 has 40: it logs `Not enough SMs to use max_autotune_gemm mode` and calls cuBLAS as the
default mode does. What is left of the mode is a longer compilation.

## How to fix it

Use the default mode: `torch.compile(model)`. `mode="reduce-overhead"` helps small models on a T4, with fixed shapes.

## When it is right to ignore it

When the same script also runs on a larger GPU: nothing fails here.

## Sources

* torch 2.0.1 to 2.15.0 `torch/_inductor/utils.py` (`is_big_gpu`), executed on torch 2.13 with the properties of a T4
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Compile, Switch, Trace

SWITCHES = ("torch._inductor.config.max_autotune", "torch._inductor.config.max_autotune_gemm")
MULTIPROCESSORS = 68  # torch/_inductor/utils.py (is_big_gpu), torch 2.1 to 2.15


@rule(
    name="compile-max-autotune",
    severity="note",
    summary="max-autotune, which Inductor refuses for matrix products on a T4",
    message="Inductor does not autotune matrix products on a T4, which has 40 multiprocessors of the 68 that it asks for: only "
    "compilation takes longer.",
    help="Use the default mode of `torch.compile`.",
    triggers=("max-autotune", "max_autotune"),
    reads=(Compile, Switch),
    fix="unsafe",
)
def compile_max_autotune(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.sm_count >= MULTIPROCESSORS:
        return
    for event in trace.events:
        if isinstance(event, Compile) and not event.role:
            yield Candidate(event, event.mode.test(lambda mode: str(mode).startswith("max-autotune")), blame=event.mode)
        elif isinstance(event, Switch) and event.name in SWITCHES:
            yield Candidate(event, event.value.equals(True), blame=event.value)
