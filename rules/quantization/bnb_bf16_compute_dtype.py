"""A model is loaded in 4 bits with bf16 as its compute dtype.

## What happens on a T4

4-bit weights are expanded to the compute dtype for every matrix product, and a T4 emulates bf16: about 2.2 TFLOPS
against 42 in fp16. The recipes of PEFT and QLoRA write `bnb_4bit_compute_dtype=torch.bfloat16` for newer GPUs. Since
bitsandbytes 0.50 there is a fused 4-bit kernel for the T4, in fp16 only: bf16 goes without it.

## How to fix it

Write `bnb_4bit_compute_dtype=torch.float16`. A program for several kinds of GPU can choose by
`torch.cuda.get_device_capability()[0] >= 8`.

## When it is right to ignore it

For models that overflow in fp16 (Gemma 2 and 3, T5) write float32 instead; the finding stays, since bf16 is the
slowest of the three. A guard that counts emulation, such as `torch.cuda.is_bf16_supported()`, has a finding of its own.
With unsloth, which replaces the dtype on a T4, the rule is silent.

## Sources

* bitsandbytes 0.39, 0.40 and 0.47 to 0.50.2 `nn/modules.py` (the dtype given is the one used), 0.50 `backends/cuda/ops.py`;
  transformers 5.24 `utils/quantization_config.py`, constructed
* measured matmul rates on Colab and Kaggle T4s: zzc0721/torch-performance-test-data
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, Edit, SetValue, rule
from t4lint.trace import FALSE, Engine, Location, Model, Predicate, Trace, Value
from t4lint.trace.questions import asked_for_bf16

SPELLINGS = ("torch.bfloat16", '"bfloat16"', "'bfloat16'")


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    """The other dtype, spelled as this one is; not where the value has a name, which other settings may share."""
    asked = candidate.blame
    written = asked.origins[0].note.partition("=")[2] if asked is not None and asked.origins else ""
    if asked is not None and written in SPELLINGS:
        yield SetValue(asked, written.replace("bfloat16", "float16"))


@rule(
    name="bnb-bf16-compute-dtype",
    severity="warning",
    summary="4-bit weights computed in bf16, which a T4 can only emulate",
    message="The 4-bit layers compute in bf16, and a T4 emulates it: about 2.2 TFLOPS for matrix products against 42 in fp16.",
    help="Write `bnb_4bit_compute_dtype=torch.float16`.",
    triggers=("bnb_4bit_compute_dtype",),
    reads=(Model, Predicate, Engine),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Compute in fp16",
)
def bnb_bf16_compute_dtype(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or "bfloat16" in trace.target.gpu.native_dtypes or "unsloth" in trace.imported:
        return
    for model in trace.all(Model):
        if model.quantization.it == "4bit":
            slow = model.compute_dtype.test(lambda dtype: str(dtype).removeprefix("torch.") == "bfloat16")
            if asked_for_bf16(trace, model.compute_dtype) or _named_elsewhere(trace, model.compute_dtype):
                slow &= FALSE
            yield Candidate(model, slow, blame=model.compute_dtype)


def _named_elsewhere(trace: Trace, value: Value) -> bool:
    """One flag that also asks for bf16 mixed precision: that finding speaks."""
    place = _place(value)
    return place is not None and any(
        engine.mixed_precision.it == "bf16" and _place(engine.mixed_precision) == place for engine in trace.all(Engine)
    )


def _place(value: Value) -> Location | None:
    return next((origin.location for origin in value.origins if origin.location is not None), None)
