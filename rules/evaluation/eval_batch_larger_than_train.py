"""Evaluation runs with a larger batch than the training that was made to fit.

## What happens on a T4

`per_device_eval_batch_size` is 8 unless it is set. Where training runs with 1 to 4 samples because more do not fit, the
first evaluation takes 8, with full logits in 16 bits and in float32: for a vocabulary of 152,000 and 1,024 tokens that is
7 GiB. Training works, and the run dies at its first evaluation, hours later.

## How to fix it

`per_device_eval_batch_size` equal to the train batch.

## When it is right to ignore it

When evaluation samples are much shorter. Models below 300 million parameters, models that are not language models, and
programs with unsloth, which lowers the batch itself, are not reported.

## Sources

* transformers 4.30 to 5.24 `training_args.py` for the default; unslothai/unsloth#1147 (on a T4), unslothai/unsloth#5168,
  hiyouga/LLaMA-Factory#2586
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Engine, Fact, Model, Step, Trace, Value
from t4lint.trace.questions import loads_any

SMALL_BATCH = 4
LARGE_MODEL = 300_000_000
LANGUAGE_MODELS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ForImageTextToText", "ForVision2Seq")


@rule(
    name="eval-batch-larger-than-train",
    severity="warning",
    summary="An evaluation batch larger than the small batch that training fits in",
    message="Training runs with {train} samples at a time and evaluation with {eval}{why}: it may run out of memory at the first "
    "evaluation.",
    help="Set `per_device_eval_batch_size` to the train batch.",
    triggers=("eval_strategy", "eval-strategy", "evaluation_strategy", "evaluation-strategy"),
    reads=(Engine, Model, Step),
)
def eval_batch_larger_than_train(trace: Trace) -> Iterator[Candidate]:
    language = loads_any(trace, LANGUAGE_MODELS)
    step = next(trace.all(Step), None)
    for engine in {engine.key: engine for engine in trace.all(Engine)}.values():
        if not engine.role.endswith(("Arguments", "Config")):
            continue
        train, evaluation = engine.micro_batch, engine.eval_micro_batch
        larger = train.test(lambda batch: batch <= SMALL_BATCH)
        larger &= _more(evaluation, train)
        larger &= engine.evaluates.test(lambda strategy: str(strategy).rpartition(".")[2].lower() != "no")
        larger &= (step.parameters if step else Value(unknown="nothing trains")).test(
            lambda count: count >= LARGE_MODEL
        )
        if not language or "unsloth" in trace.imported:
            larger &= FALSE
        yield Candidate(
            engine,
            larger,
            blame=evaluation if _written(evaluation) else None,
            words={
                "train": train.it,
                "eval": evaluation.it,
                "why": "" if _written(evaluation) else ", the library's default",
            },
        )


def _more(one: Value, other: Value) -> Fact:
    return one.test(lambda number: number > other.it)


def _written(value: Value) -> bool:
    return any(origin.location is not None for origin in value.origins)
