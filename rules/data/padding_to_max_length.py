"""Texts are padded to the maximum length, whatever their own is.

## What happens on a T4

The model computes on every padding token as on any other. With a maximum of 512 and texts of 120 tokens, three quarters of the time
and of the activations go into padding, on the card that has least to spare.

## How to fix it

Leave `padding` out where texts are tokenized, and let `DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8)` pad each batch to its own
longest text.

## When it is right to ignore it

When texts are about as long as the maximum; under `torch.compile` or on a TPU, which want static shapes; for the text encoders of
diffusion models, which were trained with a fixed length (programs that import diffusers are not reported). The rule is off by default.

## Sources

* transformers 5.24 documentation, "Padding and truncation" and `DataCollatorWithPadding`; executed: `padding="max_length"` gives the
  maximum for every text
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Compile, Trace, Value
from t4lint.trace.questions import first_of_each

FIXED = frozenset({"diffusers", "torch_xla", "open_clip", "clip"})  # libraries whose models want one length
SHORT = 128  # tokens up to which padding costs little; a threshold without a source


@rule(
    name="padding-to-max-length",
    severity="note",
    summary="Every text is padded to the maximum length",
    message="Every text is padded to the maximum length, and the model computes on the padding too.",
    help="Pad each batch to its own longest text with `DataCollatorWithPadding`.",
    triggers=("max_length",),
    reads=(Call, Compile),
    default=False,
)
def padding_to_max_length(trace: Trace) -> Iterator[Candidate]:
    if trace.imported & FIXED or any(True for _ in trace.all(Compile)):
        return
    for call in first_of_each(trace, Call):
        if call.function == "tokenizer" and "padding" in call.arguments:
            length = call.arguments.get("max_length", Value(None))
            long = length.test(lambda tokens: not isinstance(tokens, int) or tokens > SHORT, if_unknown=True)
            yield Candidate(call, call.arguments["padding"].equals("max_length") & long)
