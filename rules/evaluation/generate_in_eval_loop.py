"""Evaluation during training generates texts, token by token.

## What happens on a T4

With `predict_with_generate=True` each evaluation decodes every text of the evaluation set: one pass over all weights for each token, at
320 GB/s. A model of 1.5 billion parameters in fp16 takes ten milliseconds for that, so 500 texts of 256 tokens in batches of 8 take
more than two minutes at every evaluation, and beams multiply it.

## How to fix it

Evaluate less often or on fewer texts (`eval_steps`, a slice of the set), keep `generation_max_length` short and
`generation_num_beams=1`, and generate once after training.

## When it is right to ignore it

When the set is small and the texts short. The rule is off by default.

## Sources

* arithmetic from the memory rate of the card (NVIDIA T4 data sheet, 2019: 320 GB/s); transformers 5.24,
  `Seq2SeqTrainingArguments` and `trainer_seq2seq.py`. Not measured on a T4
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Trace, Value
from t4lint.trace.questions import first_of_each

LONG = 128  # tokens; a threshold without a source


@rule(
    name="generate-in-eval-loop",
    severity="note",
    summary="Evaluation during training generates texts",
    message="Each evaluation during training generates {how}: one pass over all weights for each token.",
    help="Evaluate less often or on fewer texts, and keep generated texts short and without beams.",
    triggers=("predict_with_generate",),
    reads=(Call,),
    default=False,
)
def generate_in_eval_loop(trace: Trace) -> Iterator[Candidate]:
    for call in first_of_each(trace, Call):
        if not call.function.endswith("Seq2SeqTrainingArguments"):
            continue
        given = call.arguments
        generates = given.get("predict_with_generate", Value(False))
        strategy = given.get("eval_strategy", given.get("evaluation_strategy", Value("no")))
        length, beams = given.get("generation_max_length", Value(None)), given.get("generation_num_beams", Value(None))
        long = length.test(lambda tokens: isinstance(tokens, int) and tokens >= LONG)
        wide = beams.test(lambda count: isinstance(count, int) and count > 1)
        how = f"texts of up to {length.it} tokens" if long.holds else f"with {beams.it} beams"
        yield Candidate(
            call,
            generates.equals(True) & ~strategy.equals("no") & (long | wide),
            blame=generates,
            words={"how": how},
        )
