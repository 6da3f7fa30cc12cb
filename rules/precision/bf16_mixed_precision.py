"""Mixed precision in bf16 is asked for, and the T4 has no hardware for bf16.

## What happens on a T4

Nothing fails on a current stack, and that is the trap. PyTorch 2.3 and later count emulation as support, so
`TrainingArguments(bf16=True)`, `Accelerator(mixed_precision="bf16")`, Lightning's `"bf16-mixed"`, a DeepSpeed `bf16`
block and `torch.autocast("cuda", dtype=torch.bfloat16)` are all accepted. Every matrix product then goes through a
slow path: about 2.2 TFLOPS were measured on T4s, against 42 in fp16 and 4.3 in fp32. bf16 is the slowest of the
three. Convolutions leave cuDNN as well, and attention falls back to the kernel that stores all scores.

On older stacks the same line ends the run: with torch 2.2 or older, with `TrainingArguments` of transformers 4.34 or
older, and for Hugging Face, accelerate and DeepSpeed checks after `import unsloth`. The finding is an error there.

## How to fix it

Use fp16 with gradient scaling: `fp16=True`, `mixed_precision="fp16"`, `"16-mixed"`, or autocast to `torch.float16`
with a `torch.amp.GradScaler`. Keep the weights that are trained in float32. A program for several kinds of GPU can
decide by `torch.cuda.get_device_capability()[0] >= 8`.

## When it is right to ignore it

For a model that overflows in fp16 (T5, Gemma 2 and 3, gpt-oss) fp32 is the better answer on a T4, but a short run in
bf16 gives right results too. An autocast region whose device cannot be told is presumed to be on the GPU; ignore the
finding when it is not.

## Sources

* torch 1.13 to 2.15, `torch/cuda/__init__.py` and `torch/amp/autocast_mode.py`; transformers 4.30 to 5.24,
  `training_args.py`; accelerate 0.34 and 1.15, `accelerator.py`; DeepSpeed 0.19, `runtime/engine.py`; unsloth
  2026.10, `_gpu_init.py`
* measured matmul rates on Colab and Kaggle T4s: zzc0721/torch-performance-test-data; emulation:
  pytorch/pytorch#148322
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, Edit, RenameArgument, SetValue, rule
from t4lint.trace import (
    FALSE,
    NOT_SAID,
    Autocast,
    Call,
    Engine,
    Fact,
    Model,
    Predicate,
    Step,
    Trace,
    TrainerFile,
    Value,
)
from t4lint.trace.questions import asked_for_bf16, left_to_auto, on_gpu, trains_on_cpu

SLOW = "its matrix products run emulated, at about 2.2 TFLOPS against 42 in fp16"
REFUSED = "this version of the libraries refuses it with an error"


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    """For an engine's own setting, which brings its gradient scaler along; not where the weights are bf16 as well."""
    asked = candidate.blame
    if asked is None or not isinstance(candidate.event, Engine) or not asked.origins:
        return
    if any("bfloat16" in (model.dtype.it, model.requested_dtype.it) for model in trace.all(Model)):
        return
    if asked.origins[0].note.startswith(("mixed_precision=", "--mixed_precision")):
        yield SetValue(asked, '"fp16"')
    else:
        yield RenameArgument(asked, "bf16", "fp16")


@rule(
    name="bf16-mixed-precision",
    severity="warning",
    summary="Mixed precision in bf16, which a T4 can only emulate",
    message="{what} asks for bf16, which a T4 has no hardware for: {effect}.",
    help="Use fp16 with gradient scaling instead (`fp16=True`, or autocast to `torch.float16` with a `GradScaler`), "
    "and keep the weights that are trained in float32.",
    triggers=("bf16", "bfloat16"),
    reads=(Engine, Autocast, Call, Model, Predicate, Step, TrainerFile),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Use fp16 instead",
)
def bf16_mixed_precision(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or "bfloat16" in trace.target.gpu.native_dtypes:
        return
    for engine in trace.all(Engine):
        asked = engine.mixed_precision.equals("bf16")
        if _spoken_for(trace, engine) or trains_on_cpu(trace):
            asked &= FALSE
        yield _candidate(trace, engine, asked, engine.mixed_precision, f"`{engine.role}`", _refused(trace, engine.role))
    for region in trace.all(Autocast):
        if region.role == "engine":
            continue
        asked = region.dtype.equals("bfloat16") & region.enabled.equals(True) & on_gpu(region.device)
        if asked_for_bf16(trace, region.dtype) or asked_for_bf16(trace, region.enabled):
            asked &= FALSE
        yield _candidate(trace, region, asked, region.dtype, "This autocast region", _refused(trace, "autocast"))
    for file in trace.all(TrainerFile):
        if file.role == "axolotl" and "bf16" in file.fields:
            said = file.fields["bf16"]
            yield _candidate(trace, file, said.equals(True), said, "This configuration", False)


def _candidate(
    trace: Trace, event: Engine | Autocast | TrainerFile, when: Fact, blame: Value, what: str, refused: bool
) -> Candidate:
    weights = tuple(model for model in trace.all(Model) if model.requested_dtype.it == "bfloat16")
    return Candidate(
        event,
        when,
        blame=blame,
        severity="error" if refused else None,
        words={"what": what, "effect": REFUSED if refused else SLOW},
        related=weights,
    )


def _spoken_for(trace: Trace, engine: Engine) -> bool:
    """Another rule names the cause: TRL's own default, `auto`, a guard, or both flags at once (which raises)."""
    value = engine.mixed_precision
    first = value.origins[0] if value.origins else None
    by_default = engine.role.endswith("Config") and first is not None and first.how == "default" and not first.location
    both = any(
        call.where == engine.where and all(call.arguments.get(flag, NOT_SAID).it is True for flag in ("fp16", "bf16"))
        for call in trace.all(Call)
    )
    return by_default or both or left_to_auto(value) or asked_for_bf16(trace, value)


def _refused(trace: Trace, role: str) -> bool:
    if role == "FSDP":  # its MixedPrecision asks nothing of the GPU (torch 2.0 to 2.13 distributed/fsdp/api.py)
        return False
    old_torch = trace.version_at_least("torch", "2.3").holds is False
    old_transformers = trace.version_at_least("transformers", "4.35").holds is False
    return old_torch or "unsloth" in trace.imported or (role.endswith("TrainingArguments") and old_transformers)
