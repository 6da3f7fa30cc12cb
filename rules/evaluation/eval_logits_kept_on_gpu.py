"""Evaluation keeps the logits of the whole evaluation set on the GPU, for `compute_metrics`.

## What happens on a T4

With `compute_metrics` the Trainer collects what the model returns for every batch, concatenates it on the GPU, and hands it
over at the end. For a language model that is samples x tokens x vocabulary x 2 or 4 bytes: 100 samples of 512 tokens with
32,000 words take 3 to 6 GiB. The run dies in the middle of its first evaluation.

## How to fix it

`preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1)` keeps token ids only; `compute_metrics` then
receives those. Or `batch_eval_metrics=True`, with a metric that adds up. `eval_accumulation_steps` only moves the same
bytes to the host's memory, of which Colab has 12 GiB.

## When it is right to ignore it

When the evaluation set is very small. Models with a small output (classification) are not reported.

## Sources

* transformers 4.30 to 5.24 `trainer.py` (`evaluation_loop`, `EvalLoopContainer`); huggingface/transformers#26702 (Colab),
  #7232, #8476, #17089
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Call, Engine, Fact, Model, Trace, Value, unknown
from t4lint.trace.questions import loads_any

TRAINERS = ("transformers.Trainer", "trl.SFTTrainer")
LARGE_OUTPUT = ("ForCausalLM", "LMHeadModel", "ForMaskedLM")
# fields of TrainingArguments that keep the logits from piling up on the GPU
REMEDIES = ("prediction_loss_only", "batch_eval_metrics", "eval_accumulation_steps")


@rule(
    name="eval-logits-kept-on-gpu",
    severity="warning",
    summary="The logits of a whole evaluation set pile up on the GPU",
    message="With `compute_metrics` the logits of every evaluation batch stay on the GPU until the end: tokens x vocabulary for "
    "each sample.",
    help="Pass `preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1)`, and let `compute_metrics` take token ids.",
    triggers=("compute_metrics",),
    reads=(Call, Engine, Model),
)
def eval_logits_kept_on_gpu(trace: Trace) -> Iterator[Candidate]:
    large = loads_any(trace, LARGE_OUTPUT)
    for call in trace.all(Call):
        if call.function not in TRAINERS:
            continue
        metrics = call.arguments.get("compute_metrics", Value(None))
        kept = metrics.test(lambda function: function is not None)
        if "**" in call.arguments:
            kept &= Fact(None, (call.arguments["**"],))
        kept &= call.arguments.get("preprocess_logits_for_metrics", Value(None)).equals(None)
        kept &= _evaluates(trace) & ~_remedied(trace)
        if not large or "unsloth" in trace.imported:  # unsloth moves them to the host
            kept &= FALSE
        yield Candidate(call, kept, blame=metrics)


def _evaluates(trace: Trace) -> Fact:
    strategies = [engine.evaluates for engine in trace.all(Engine) if engine.role.endswith(("Arguments", "Config"))]
    if not strategies:
        return Fact(None, (unknown("the training arguments are not known"),))
    return strategies[-1].test(lambda strategy: str(strategy).rpartition(".")[2].lower() != "no")


def _remedied(trace: Trace) -> Fact:
    remedied = FALSE
    for call in trace.all(Call):
        for name in REMEDIES:
            if name in call.arguments:
                remedied |= call.arguments[name].test(lambda value: value not in (None, False))
    return remedied
