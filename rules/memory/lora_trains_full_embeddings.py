"""Adapters train whole copies of the embedding and the output layer of a large vocabulary.

## What happens on a T4

`modules_to_save` makes peft copy the named modules and train the copies in full. The embedding and the output layer of a
model with 150,000 words are a billion parameters: copies, gradients and two Adam moments take 8 bytes a parameter in 16
bits and 16 in float32, beside the base. For Qwen2.5-7B that is 8 to 16 GiB, and the card has 14.3. The run dies in the
first `optimizer.step()`, or the adapters are a hundred times as large as was meant.

## How to fix it

Leave `embed_tokens` and `lm_head` out of `modules_to_save` unless tokens were added. For a few new tokens train only
those rows: `trainable_token_indices=[...]` (peft 0.15 and later). If all must be trained, take an 8-bit optimizer, which
brings it to about 6 bytes a parameter.

## When it is right to ignore it

When tokens were added, the sum was seen to fit, and the base is small. Less than 250 million parameters, and models whose
shape is not known, are not judged. Embeddings in `target_modules` get adapters of low rank and are small.

## Sources

* peft 0.21 `utils/other.py` (`ModulesToSaveWrapper` copies the module and makes the copy trainable), shown on a real model
  in `tests/test_claims.py`; bytes of AdamW, measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Call, Step, Trace, Value
from t4lint.trace.questions import lowest, on_gpu

GIB = 2**30
LARGE = 250_000_000  # parameters: a tenth of the card at the least bytes
LEAST_BYTES = 6  # a parameter: copy and gradient in 16 bits, two moments in 8 bits
USUAL_BYTES = 16


@rule(
    name="lora-trains-full-embeddings",
    severity="warning",
    summary="Adapters that train the whole embedding and output layer",
    message="`modules_to_save` trains {count:.2f} billion parameters of the vocabulary in full: {least:.1f} to {usual:.1f} GiB beside "
    "the {weights:.1f} GiB of the base.",
    help="Leave embed_tokens and lm_head out; for a few new tokens use `trainable_token_indices`.",
    triggers=("modules_to_save",),
    reads=(Call, Step),
)
def lora_trains_full_embeddings(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None:
        return
    step = next(trace.all(Step), None)
    if step is None:
        return
    usable = float(trace.target.gpu.usable_bytes)
    for call in trace.all(Call):
        saved = call.arguments.get("modules_to_save")
        if saved is None or not call.function.rpartition(".")[2].endswith("Config"):
            continue
        weights = lowest(step, "weights")
        whole = on_gpu(step.device) & step.trained_vocabulary.test(lambda count: count >= LARGE)
        if saved.known and not saved.it:
            whole &= FALSE
        count = float(step.trained_vocabulary.it or 0) if step.trained_vocabulary.known else 0.0
        over = weights + LEAST_BYTES * count > usable
        yield Candidate(
            call,
            whole,
            blame=_first_item(saved),
            severity="error" if over else None,
            words={
                "count": count / 1e9,
                "least": LEAST_BYTES * count / GIB,
                "usual": USUAL_BYTES * count / GIB,
                "weights": weights / GIB,
            },
        )


def _first_item(saved: Value) -> Value | None:
    return saved if any(origin.location is not None for origin in saved.origins) else None
