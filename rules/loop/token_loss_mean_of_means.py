"""Gradient accumulation over texts of uneven length takes the mean of the batches' means.

## What happens on a T4

A card of 14.6 GiB makes people accumulate micro-batches of one or two texts. Each loss is the mean over its own tokens, and the loop
divides by the number of micro-batches: a text of 50 tokens then weighs as much as one of 2000. Two micro-batches of 900 and 100
tokens with losses 2.0 and 4.0 give 3.0, where the batch as a whole gives 2.2.

## How to fix it

Sum the losses of the tokens (`reduction="sum"`) and divide by the tokens of the whole window, or leave it to `Trainer`, which has done so
since transformers 4.46.

## When it is right to ignore it

When all texts are about as long, or packed. The rule is off by default.

## Sources

* arithmetic, executed with torch 2.13; transformers 4.46 release notes and issue 34198 ("fix gradient accumulation")
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Backward, Fact, Model, Step, Trace
from t4lint.trace.questions import accumulated, windows

OF_TEXT = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ForMaskedLM", "ForSeq2SeqLM")


@rule(
    name="token-loss-mean-of-means",
    severity="note",
    summary="Accumulation averages means over uneven numbers of tokens",
    message="Each of the {count} micro-batches counts alike here, however many tokens it has: short texts weigh more.",
    help="Sum the losses of the tokens and divide by the tokens of the whole window.",
    triggers=("backward(",),
    reads=(Backward, Model, Step),
    default=False,
)
def token_loss_mean_of_means(trace: Trace) -> Iterator[Candidate]:
    text = any(model.evidence.endswith(OF_TEXT) for model in trace.all(Model))
    seen = set()
    for step, since in windows(trace):
        micro = accumulated(step, since)
        if not micro or micro[0].key in seen:
            continue
        seen.add(micro[0].key)
        mean = micro[0].divided_by.test(lambda number: bool(number > 1))
        yield Candidate(micro[0], mean & micro[0].batches.equals(True) & Fact(text), words={"count": len(micro)})
