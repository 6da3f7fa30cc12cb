"""Batches are padded to their longest text, and texts of all lengths are mixed in them.

## What happens on a T4

With dynamic padding a batch is as wide as its longest text. Drawn at random, each batch has a long one, and the short texts beside it
are mostly padding, which costs time and activations like text.

## How to fix it

`train_sampling_strategy="group_by_length"` in the training arguments (`group_by_length=True` before transformers 5.2).

## When it is right to ignore it

When texts are about as long as each other, or packed. Grouping makes batches less random. The rule is off by default, since
lengths cannot be seen in the program.

## Sources

* transformers 5.24, `TrainingArguments` and `trainer_pt_utils.LengthGroupedSampler`; the name before 5.2: wheels 4.30 to 5.1
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Trace, Value
from t4lint.trace.questions import first_of_each

PADS = ("DataCollatorWithPadding", "DataCollatorForSeq2Seq", "DataCollatorForTokenClassification")


@rule(
    name="batches-not-grouped-by-length",
    severity="note",
    summary="Texts of all lengths are mixed in batches that are padded",
    message="Each batch is padded to its longest text, and texts are drawn whatever their length: much of a batch may be padding.",
    help='Pass `train_sampling_strategy="group_by_length"` (`group_by_length=True` before transformers 5.2).',
    triggers=PADS,
    reads=(Call,),
    default=False,
)
def batches_not_grouped_by_length(trace: Trace) -> Iterator[Candidate]:
    arguments = [call for call in trace.all(Call) if call.function.endswith("TrainingArguments")]
    for call in first_of_each(trace, Call):
        if not call.function.endswith("Trainer") or "data_collator" not in call.arguments or not arguments:
            continue
        pads = call.arguments["data_collator"].test(lambda name: str(name).endswith(PADS))
        given = arguments[-1].arguments
        grouped = given.get("group_by_length", Value(False)).equals(True)
        grouped |= given.get("train_sampling_strategy", Value("random")).equals("group_by_length")
        yield Candidate(call, pads & ~grouped, blame=None)
