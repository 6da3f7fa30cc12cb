"""A Trainer is given a 4-bit or 8-bit model without adapters, and refuses it.

## What happens on a T4

Weights in 4 or 8 bits have no gradients. The Trainer checks for it while it is built and raises `ValueError: You
cannot perform fine-tuning on purely quantized models. Please attach trainable adapters on top of the quantized model`.
The model has been downloaded and loaded by then.

## How to fix it

Put adapters on the model: `get_peft_model(model, LoraConfig(...))`, or `peft_config=LoraConfig(...)` for a trainer of
TRL. To train all weights, load them without quantization.

## When it is right to ignore it

When a function that is not seen here adds the adapters. A model whose quantization is not known is not judged.

## Sources

* transformers 4.30 to 5.24 `trainer.py` and `trainer_utils.py` (`validate_quantization_for_training`), executed on 5.24
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Exit, Trace


@rule(
    name="quantized-base-without-adapters",
    severity="error",
    summary="A quantized model without adapters handed to a Trainer",
    message="The model is quantized and has no adapters, and `{trainer}` refuses to train it: it raises a ValueError.",
    help="Add adapters: `get_peft_model(model, LoraConfig(...))`, or `peft_config=` for a trainer of TRL.",
    triggers=("load_in_4bit", "load_in_8bit"),
    reads=(Call, Exit),
)
def quantized_base_without_adapters(trace: Trace) -> Iterator[Candidate]:
    for event in trace.events:
        if isinstance(event, Call) and event.function.endswith("Trainer"):
            refused = event.raises.test(lambda text: "purely quantized" in str(text))
            yield Candidate(event, refused, words={"trainer": event.function.rpartition(".")[2]})
        elif isinstance(event, Exit):
            refused = event.reason.test(lambda text: "purely quantized" in str(text))
            yield Candidate(event, refused, words={"trainer": "the Trainer"})
