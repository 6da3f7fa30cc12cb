"""A loaded model is cast to fp16 as a whole, also the modules that transformers keeps in float32.

## What happens on a T4

Some models have modules that overflow in fp16, and transformers keeps these in float32 when it loads in fp16: `wo` of
T5, the query tokens of BLIP-2. `.half()` or `.to(torch.float16)` after the load casts everything, these too, and the
outputs become inf or NaN.

## How to fix it

Give the dtype to the loader, `from_pretrained(..., dtype=torch.float16)`, and drop the cast.

## When it is right to ignore it

When the modules are cast back to float32, in a place that is not seen. Only families that are known to keep modules are
judged, by the checkpoint's name.

## Sources

* transformers 5.24 `modeling_utils.py` and `_keep_in_fp32_modules` in `models/t5`, `mt5`, `umt5`, `udop`, `blip_2`,
  executed with a small T5; `t4lint/libraries/families.csv` has the list. huggingface/diffusers#8604
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Model, Trace


@rule(
    name="half-after-from-pretrained",
    severity="warning",
    summary="A cast to fp16 after loading, over modules that the loader keeps in float32",
    message="This cast to fp16 also takes `{keeps}`, which transformers keeps in float32 for this family because it overflows.",
    help="Give the dtype to the loader, `from_pretrained(..., dtype=torch.float16)`, and drop the cast.",
    triggers=("half", "float16"),
    reads=(Model,),
    fix="unsafe",
)
def half_after_from_pretrained(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None:
        return
    for model in trace.all(Model):
        if model.role == "cast" and model.dtype.it == "float16":
            yield Candidate(model, model.keeps.test(bool), blame=model.dtype, words={"keeps": model.keeps.it})
