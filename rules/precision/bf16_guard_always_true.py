"""A question about bf16 support decides for bf16, because the answer is yes on every T4.

## What happens on a T4

`torch.cuda.is_bf16_supported()` answers True on a T4 with torch 2.3 or later: it counts emulation. The predicates of
transformers (`is_torch_bf16_gpu_available`, from 4.35 on), accelerate (`is_bf16_available`) and DeepSpeed ask the
same function. So the careful spelling `bf16=torch.cuda.is_bf16_supported(), fp16=not torch.cuda.is_bf16_supported()`
picks the slowest of all choices: about 2.2 TFLOPS for matrix products, against 42 in fp16.

## How to fix it

Ask for hardware support: `torch.cuda.is_bf16_supported(including_emulation=False)` with torch 2.4 or later, or
`torch.cuda.get_device_capability()[0] >= 8` with any version. Both answer no on a T4.

## When it is right to ignore it

The rule is silent where the answer is only printed, and after `import unsloth`, which replaces the function by one
that does not count emulation. In a recorded run it cannot be seen which later value the answer decided, so a verdict
there is only likely.

## Sources

* torch 1.13 to 2.15, `torch/cuda/__init__.py` (no argument before 2.4); transformers 4.30 to 5.24,
  `utils/import_utils.py`; accelerate 1.15, `utils/imports.py`; DeepSpeed 0.19, `accelerator/cuda_accelerator.py`;
  unsloth 2026.10, `_gpu_init.py`
* pytorch/pytorch#148322 and #124996; a T4 report of a project that was caught by it: MakazhanAlpamys/Soup#385
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import AddImport, Candidate, DropUnusedImport, Edit, SetArgument, SetValue, rule
from t4lint.trace import FALSE, Autocast, Engine, Fact, Model, Predicate, Trace, Value


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    """Every question in the file is changed: `bf16=asked(), fp16=not asked()` must get the same answer twice."""
    honest = trace.version_at_least("torch", "2.4").holds
    for predicate in trace.all(Predicate):
        name = predicate.function.rpartition(".")[2]
        if not _counts_emulation(predicate) or predicate.where.path != candidate.event.where.path:
            continue
        if honest and predicate.function == "torch.cuda.is_bf16_supported":
            yield SetArgument(predicate.result, "including_emulation", "False")
            continue
        ask = "is_bf16_supported(including_emulation=False)" if honest else "get_device_capability()[0] >= 8"
        yield SetValue(predicate.result, f"torch.cuda.{ask}")
        yield AddImport(predicate.result, "torch")
        yield DropUnusedImport(predicate.result, name)


def _counts_emulation(predicate: Predicate) -> bool:
    name = predicate.function.rpartition(".")[2]
    return ("bf16" in name or "bfloat16" in name) and predicate.result.it is True


@rule(
    name="bf16-guard-always-true",
    severity="warning",
    summary="A check for bf16 support that counts emulation, and so always says yes",
    message="`{function}()` answers True on a T4 because it counts emulation, so bf16 is chosen here: matrix products run at "
    "about 2.2 TFLOPS against 42 in fp16.",
    help="Ask `torch.cuda.is_bf16_supported(including_emulation=False)` (torch 2.4 or later) or "
    "`torch.cuda.get_device_capability()[0] >= 8`.",
    triggers=("bf16", "bfloat16"),
    reads=(Predicate, Engine, Autocast, Model),
    fix="safe",
    fixes=_fixes,
    fix_title="Ask for hardware support only",
)
def bf16_guard_always_true(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or "bfloat16" in trace.target.gpu.native_dtypes:
        return
    for predicate in trace.all(Predicate):
        name = predicate.function.rpartition(".")[2]
        if "bf16" not in name and "bfloat16" not in name:
            continue
        decided = FALSE if "unsloth" in trace.imported else _chose_bf16(trace, predicate)
        yield Candidate(
            predicate,
            predicate.result.equals(True) & decided,
            blame=predicate.result,
            words={"function": predicate.function},
        )


def _chose_bf16(trace: Trace, predicate: Predicate) -> Fact:
    chosen = FALSE
    for value in _precisions(trace):
        chosen |= trace.led_to(predicate, value) & value.within(("bf16", "bfloat16"))
    return chosen


def _precisions(trace: Trace) -> Iterator[Value]:
    for engine in trace.all(Engine):
        yield engine.mixed_precision
    for region in trace.all(Autocast):
        if region.enabled.it is not False:
            yield region.dtype
    for model in trace.all(Model):
        yield from (model.dtype, model.requested_dtype, model.compute_dtype)
