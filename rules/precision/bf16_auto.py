"""The precision is left to a library, and on a T4 it picks bf16.

## What happens on a T4

Lightning's `BitsandbytesPrecision("nf4")` without `dtype` asks `torch.cuda.is_bf16_supported()`, which is true on a T4
since torch 2.3 because it counts emulation. All layers then compute in bf16, at about 2.2 TFLOPS against 42 in fp16.
`bf16: auto` in a configuration of axolotl resolves the same way; configurations of axolotl are not read yet.

## How to fix it

Write `dtype=torch.float16` in the call of the plugin.

## When it is right to ignore it

For models that overflow in fp16. The modes in int8 choose fp16 and are not reported.

## Sources

* lightning 2.6.6 `fabric/plugins/precision/bitsandbytes.py`; what the predicate answers: torch 2.3 to 2.15
  `torch/cuda/__init__.py`, executed on 2.13 with the capability of a T4
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import AddImport, Candidate, Edit, SetArgument, rule
from t4lint.trace import Call, Trace


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    yield AddImport(candidate.event, "torch")
    yield SetArgument(candidate.event, "dtype", "torch.float16", callee="BitsandbytesPrecision")
    yield AddImport(candidate.event, "torch")


@rule(
    name="bf16-auto",
    severity="warning",
    summary="A precision left to a library that picks bf16 on a T4",
    message="Without `dtype` the 4-bit layers compute in bf16 here, which a T4 emulates: the check that picks it counts emulation.",
    help="Write `dtype=torch.float16`.",
    triggers=("BitsandbytesPrecision",),
    reads=(Call,),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Compute in fp16",
)
def bf16_auto(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or "bfloat16" in trace.target.gpu.native_dtypes or "unsloth" in trace.imported:
        return
    if trace.version_at_least("torch", "2.3").holds is False:  # the check was right before
        return
    for call in trace.all(Call):
        if call.function.endswith(".BitsandbytesPrecision"):
            four_bits = call.arguments["mode"].test(lambda mode: not str(mode).startswith("int8"))
            yield Candidate(call, four_bits & call.arguments["dtype"].equals(None))
