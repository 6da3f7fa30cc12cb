"""The precision is left to a library, and on a T4 it picks bf16.

## What happens on a T4

Lightning's `BitsandbytesPrecision("nf4")` without `dtype` asks `torch.cuda.is_bf16_supported()`, which is true on a T4
since torch 2.3 because it counts emulation. All layers then compute in bf16, at about 2.2 TFLOPS against 42 in fp16.
`bf16: auto` in a configuration of axolotl asks the same question, so that its way back to fp16 is never taken.

## How to fix it

Write `dtype=torch.float16` in the call of the plugin; `bf16: false` and `fp16: true` in a configuration of axolotl.

## When it is right to ignore it

For models that overflow in fp16, and in axolotl for a full fine-tuning, whose gradients would be in fp16. The plugin's modes in int8
choose fp16 and are not reported.

## Sources

* lightning 2.6.6 `fabric/plugins/precision/bitsandbytes.py`; axolotl 0.19.0 `utils/config/__init__.py`, `resolve_dtype`; what the
  predicate answers: torch 2.3 to 2.15 `torch/cuda/__init__.py`, executed on 2.13 with the capability of a T4
* configurations of axolotl are read as files: `verify` has no verdict on them
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import AddImport, Candidate, Edit, SetArgument, rule
from t4lint.trace import FALSE, Call, Engine, Trace, TrainerFile, Value
from t4lint.trace.questions import left_to_auto


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    if isinstance(candidate.event, TrainerFile):
        return  # whether fp16 can train there depends on the adapters
    yield AddImport(candidate.event, "torch")
    yield SetArgument(candidate.event, "dtype", "torch.float16", callee="BitsandbytesPrecision")
    yield AddImport(candidate.event, "torch")


@rule(
    name="bf16-auto",
    severity="warning",
    summary="A precision left to a library that picks bf16 on a T4",
    message="{what} bf16 here, which a T4 emulates: the check that picks it counts emulation.",
    help="Ask for fp16: `dtype=torch.float16` in Lightning's plugin, `bf16: false` and `fp16: true` in axolotl.",
    triggers=("BitsandbytesPrecision", "bf16: auto"),
    reads=(Call, Engine, TrainerFile),
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
            words = {"what": "Without `dtype` the 4-bit layers compute in"}
            yield Candidate(call, four_bits & call.arguments["dtype"].equals(None), words=words)
    for engine in trace.all(Engine):
        if left_to_auto(engine.mixed_precision):
            words = {"what": "`auto` turns into"}
            yield Candidate(engine, engine.mixed_precision.equals("bf16"), blame=engine.mixed_precision, words=words)
    for file in trace.all(TrainerFile):
        auto = file.fields.get("bf16", Value(None))
        if file.role == "axolotl" and auto.it is not None:
            other = FALSE
            for name in ("fp16", "float16", "fp8"):
                other |= file.fields.get(name, Value(None)).test(bool)
            words = {"what": "`auto` turns into"}
            yield Candidate(file, auto.equals("auto") & ~other, blame=auto, words=words)
