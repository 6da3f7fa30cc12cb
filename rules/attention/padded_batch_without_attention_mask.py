"""A padded batch of token ids goes through a model without its attention mask.

## What happens on a T4

Without a mask an encoder attends to the padding as to any word, so that the answer for a text depends on how long its neighbours in the
batch are. Nothing raises: accuracy falls, and the more so the more is padded, as it is in the larger batches that evaluation takes.
transformers logs a warning for some of its models.

## How to fix it

Hand on all that the tokenizer gives: `model(**encoded)`, or `attention_mask=encoded["attention_mask"]` beside `input_ids`.

## When it is right to ignore it

Never where it is reported. Decoders padded on the right are not (what comes after a token does not change it), nor text encoders of
diffusion models, which were trained on padding without a mask.

## Sources

* transformers 5.24, executed on CPU with small models: without a mask padding changes what BERT, DistilBERT and T5's encoder give
  for a text, and with it nothing changes; GPT-2 padded on the right gives the same with and without
* not seen by `verify`
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Trace
from t4lint.trace.questions import first_of_each

# families of encoders; their own padding is not told from words (transformers 5.24)
ENCODERS = frozenset({
    "albert", "bart", "bert", "deberta", "deberta-v2", "distilbert", "electra", "longt5", "mbart", "modernbert", "mpnet", "roberta",
    "t5", "xlm-roberta",
})  # fmt: skip
FIXED = frozenset({"diffusers", "open_clip"})


@rule(
    name="padded-batch-without-attention-mask",
    severity="warning",
    summary="A padded batch goes through an encoder without its mask",
    message="Without `attention_mask` the model attends to the padding: the answer for a text depends on its neighbours in the batch.",
    help='Hand on all that the tokenizer gives (`model(**encoded)`), or pass `attention_mask=encoded["attention_mask"]`.',
    triggers=("padding",),
    reads=(Call,),
)
def padded_batch_without_attention_mask(trace: Trace) -> Iterator[Candidate]:
    if trace.imported & FIXED:
        return
    for call in first_of_each(trace, Call):
        if call.role == "padded":
            encodes = call.arguments["family"].within(ENCODERS)
            yield Candidate(call, encodes & call.arguments["mask"].equals(False))
