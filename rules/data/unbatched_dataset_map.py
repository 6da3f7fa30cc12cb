"""Texts are tokenized row by row.

## What happens on a T4

`dataset.map(tokenize)` calls the function once for each row, and a fast tokenizer then works on one text at a time, in one thread. With
`batched=True` it gets a thousand texts at once and spreads them over its threads: several times faster, on the two to four
cores that come with a T4, while the GPU waits and the hour is billed.

## How to fix it

`dataset.map(tokenize, batched=True)`; the function then gets lists. It must not build one text from a row by hand without a loop.

## When it is right to ignore it

When the set is small, or the result is cached. The rule is off by default.

## Sources

* datasets 5.2 documentation, "Batch mapping"; tokenizers 0.22: fast tokenizers work on a batch in parallel threads
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Trace
from t4lint.trace.questions import first_of_each


@rule(
    name="unbatched-dataset-map",
    severity="note",
    summary="A dataset is tokenized row by row",
    message="This tokenizes one row at a time; in batches a fast tokenizer uses all cores and is several times faster.",
    help="Pass `batched=True`, and let the function take lists.",
    triggers=(".map(",),
    reads=(Call,),
    default=False,
)
def unbatched_dataset_map(trace: Trace) -> Iterator[Candidate]:
    for call in first_of_each(trace, Call):
        if call.function == "datasets.Dataset.map":
            tokenizes = call.arguments["work"].test(lambda work: "tokenize" in work)
            yield Candidate(call, tokenizes & call.arguments["batched"].equals(False))
