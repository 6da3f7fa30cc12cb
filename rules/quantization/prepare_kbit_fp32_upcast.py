"""`prepare_model_for_kbit_training` makes the embeddings of a large vocabulary float32.

## What happens on a T4

The function casts everything that is not quantized to float32. With a vocabulary of 100,000 tokens or more that is
mostly the embedding, and the output layer where it is its own: 1 to 2 GiB more on a card of 14.6 GiB.

## How to fix it

Freeze the model and switch checkpointing on yourself: `model.requires_grad_(False)`,
`model.gradient_checkpointing_enable()`. The trainers of TRL do what is needed without the call.

## When it is right to ignore it

When the run fits. The rule is off by default, since the call is right otherwise.

## Sources

* peft 0.21.2 `utils/other.py`, executed: the embedding of a bf16 model is float32 afterwards
* sizes of vocabularies: `t4lint/memory/checkpoints.csv`
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Trace

GIB = 2**30
LARGE = 100_000  # tokens; chosen between the vocabularies of Llama 2 (32,000) and Llama 3 (128,256), no source


@rule(
    name="prepare-kbit-fp32-upcast",
    severity="note",
    summary="prepare_model_for_kbit_training on a model with a large vocabulary",
    message="The embeddings of this model become float32, which takes about {size} GiB more.",
    help="Freeze the model and switch checkpointing on yourself, or let the trainer of TRL do it.",
    triggers=("prepare_model_for_kbit_training",),
    reads=(Call,),
    default=False,
)
def prepare_kbit_fp32_upcast(trace: Trace) -> Iterator[Candidate]:
    for call in trace.all(Call):
        if call.function == "peft.prepare_model_for_kbit_training" and "added" in call.arguments:
            added = call.arguments["added"]
            size = f"{added.it / GIB:.1f}" if added.known else "?"
            large = call.arguments["vocabulary"].test(lambda tokens: tokens >= LARGE)
            yield Candidate(call, large, words={"size": size})
