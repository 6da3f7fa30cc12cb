"""`eval_accumulation_steps` is the only remedy against logits that pile up, or stands where nothing piles up.

## What happens on a T4

With `compute_metrics` the Trainer keeps the logits of the whole evaluation set. `eval_accumulation_steps` moves them from the GPU to
the host every few batches; it makes them no smaller. Tokens x vocabulary x 4 bytes for each sample fill the 12.7 GB of a Colab
machine with about 100 samples of 1024 tokens and a vocabulary of 32,000, and the process is killed without an error message. Without
`compute_metrics` only losses are kept and the setting does nothing.

## How to fix it

`preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1)` keeps one number a token. Without `compute_metrics` drop the
setting.

## When it is right to ignore it

When the evaluation set is small and the host's memory carries it. Models with small outputs are not reported.

## Sources

* transformers 5.24 `trainer.py` (`evaluation_loop`); huggingface/transformers#25313 and #28938
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Fact, Model, Trace, Value
from t4lint.trace.questions import loads_any

TRAINERS = ("transformers.Trainer", "trl.SFTTrainer")
LARGE_OUTPUT = ("ForCausalLM", "LMHeadModel", "ForMaskedLM")
HOST = "the logits of the whole evaluation set go to the host's memory, tokens x vocabulary for each sample"
NOTHING = "without `compute_metrics` nothing is kept that it could move, so it does nothing"


@rule(
    name="eval-logits-moved-to-host-ram",
    severity="note",
    summary="Evaluation logits are moved to the host's memory instead of being made small",
    message="`eval_accumulation_steps`: {harm}.",
    help="Pass `preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1)`, or drop the setting.",
    triggers=("eval_accumulation_steps",),
    reads=(Call, Model),
)
def eval_logits_moved_to_host_ram(trace: Trace) -> Iterator[Candidate]:
    trainers = [call for call in trace.all(Call) if call.function in TRAINERS]
    large = loads_any(trace, LARGE_OUTPUT)
    for call in trace.all(Call):
        steps = call.arguments.get("eval_accumulation_steps")
        if steps is None or len(trainers) != 1:
            continue
        metrics = trainers[0].arguments.get("compute_metrics", Value(None)).test(lambda function: function is not None)
        if "**" in trainers[0].arguments:
            metrics &= Fact(None, (trainers[0].arguments["**"],))
        preprocessed = trainers[0].arguments.get("preprocess_logits_for_metrics", Value(None))
        kept = metrics & preprocessed.equals(None) & Fact(large)
        if "unsloth" in trace.imported:  # which sets it by itself
            continue
        useless = ~metrics
        yield Candidate(
            call,
            steps.test(lambda count: count is not None) & (kept | useless),
            blame=steps,
            words={"harm": NOTHING if useless.holds else HOST},
            related=(trainers[0],),
        )
