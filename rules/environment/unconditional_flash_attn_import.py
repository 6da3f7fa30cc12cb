"""flash-attn is imported on every run, with no way around it.

## What happens on a T4

FlashAttention 2 and later have no kernel for compute capability 7.5. An import at the top of a module fails where the package
is not installed, and it seldom is on a T4 machine, since it has to be built there for an hour. Where it is installed, the
first call raises.

## How to fix it

`try: from flash_attn import flash_attn_func` with `except ImportError`, and `torch.nn.functional.scaled_dot_product_attention`
in its place.

## When it is right to ignore it

When only helpers of the package are used and it is installed. An import inside `try`, or on a path that the run does not
take, is not reported.

## Sources

* flash-attn 2.8.3, README and `flash_api.cpp`. The kernel needs a GPU and is not shown here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Attention, Call, Fact, Trace


@rule(
    name="unconditional-flash-attn-import",
    severity="warning",
    summary="flash-attn imported with no way around it",
    message="flash-attn is imported on every run, and has no kernel for a T4: without it the program ends here, with it at the "
    "first call.",
    help="Import it inside `try`, and use `scaled_dot_product_attention` where it is missing.",
    triggers=("flash_attn",),
    reads=(Call, Attention),
)
def unconditional_flash_attn_import(trace: Trace) -> Iterator[Candidate]:
    gpu = trace.target.gpu
    if any(event.role == "call" for event in trace.all(Attention)):
        return  # the call itself is reported
    for call in trace.all(Call):
        if call.function.startswith("import flash_attn"):
            too_old = Fact(gpu is not None and gpu.capability < (8, 0))
            yield Candidate(call, too_old & trace.version_at_least("flash-attn", "2.0"))
            return  # the program ends at the first
