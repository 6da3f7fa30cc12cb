"""A model is loaded in 4 bits and its compute dtype is left at the default, which is float32.

## What happens on a T4

4-bit weights are expanded to the compute dtype for every matrix product. `BitsAndBytesConfig(load_in_4bit=True)` and
nothing else means float32, so each product runs on the plain cores: at about 4.3 TFLOPS on a T4, where fp16 was measured
at 42. bitsandbytes used to warn of it; since transformers always hands over a dtype, nothing is printed any more.

## How to fix it

Write `bnb_4bit_compute_dtype=torch.float16`. On transformers 5 give `dtype=torch.float16` to `from_pretrained` as
well, for the modules that are not quantized. The quantization type is left at `"fp4"` by default; `"nf4"` is the one
that QLoRA was measured with.

## When it is right to ignore it

For models that overflow in fp16 (Gemma 2 and 3, T5) float32 is the honest choice: write it down and the finding is
gone; families that are known to overflow are not reported. The QLoRA authors saw instabilities with fp16 compute for 7B
LLaMA in 2023: watch the loss of the first steps.

## Sources

* transformers 5.24 `utils/quantization_config.py`, constructed; bitsandbytes 0.39 to 0.50.2 `nn/modules.py`: from 0.41 to
  0.46 the first input of a layer decides instead, which is float32 or bf16 as a rule
* measured matmul rates on Colab and Kaggle T4s: zzc0721/torch-performance-test-data
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Model, Trace, Value


@rule(
    name="bnb-compute-dtype-unset",
    severity="warning",
    summary="4-bit weights without a compute dtype, which means float32",
    message="`bnb_4bit_compute_dtype` is not set, so 4-bit layers compute in float32: about 4.3 TFLOPS on a T4 against 42 in fp16.",
    help="Write `bnb_4bit_compute_dtype=torch.float16`.",
    triggers=("load_in_4bit",),
    reads=(Model,),
    fix="unsafe",
)
def bnb_compute_dtype_unset(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 0) or "unsloth" in trace.imported:
        return
    for model in trace.all(Model):
        if model.quantization.it == "4bit":
            slow = model.compute_dtype.test(lambda dtype: str(dtype).removeprefix("torch.") == "float32")
            if not _left_out(trace, model.compute_dtype) or model.overflow.it in ("forward", "backward"):
                slow &= FALSE
            yield Candidate(model, slow, blame=model.compute_dtype)


def _left_out(trace: Trace, value: Value) -> bool:
    """Did the library choose it? A run cannot tell; source can."""
    if trace.basis != "predicted" or not value.known:
        return True
    first = value.origins[0] if value.origins else None
    return first is not None and first.how == "default" and first.note.startswith("no bnb_4bit_compute_dtype")
