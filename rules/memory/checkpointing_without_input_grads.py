"""Adapters under activation checkpointing get no gradient, since the inputs of the checkpointed blocks have none.

## What happens on a T4

Before transformers 5.0 activation checkpointing is of torch's reentrant kind, which gives gradients only where an input of the block
asks for them. With adapters everything outside the blocks is frozen, so nothing does: the first backward ends in "element 0 of
tensors does not require grad", or, where the head is trained too, only the head learns. It is the recipe that makes a model fit on a T4.

## How to fix it

`model.enable_input_require_grads()` before the adapters are added, or
`gradient_checkpointing_kwargs={"use_reentrant": False}` beside `gradient_checkpointing=True`.

## When it is right to ignore it

Never where it is reported. It is silent on transformers 5.0 and later, where checkpointing was on before `get_peft_model` (which then
prepares the inputs itself), after `prepare_model_for_kbit_training`, for TRL's trainers, which call the method, for prompt tuning,
and where embeddings are trained.

## Sources

* transformers 4.57.6 with peft 0.21.2, executed: a loop by hand and `Trainer` fail, and pass with each of the two fixes; with the head
  in `modules_to_save` only its own weight gets a gradient. transformers 5.24 prepares the inputs itself, executed
* trl 1.16, source of the trainers; huggingface/transformers issue 26334, huggingface/peft issue 137
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, Edit, InsertBefore, Written, rule
from t4lint.trace import FALSE, Call, Engine, Fact, Trace, Value

TRAINS_EMBEDDINGS = ("embed", "wte", "word_embeddings")
PREPARED_BY = ("trl", "unsloth")  # libraries that prepare the inputs themselves


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    model = Written(candidate.event, "get_peft_model", 0)
    yield InsertBefore(candidate.event, "{model}.enable_input_require_grads()", {"model": model})


@rule(
    name="checkpointing-without-input-grads",
    severity="error",
    summary="Adapters get no gradient under activation checkpointing",
    message="These adapters get no gradient: with transformers below 5.0, checkpointed blocks pass one on only where their inputs "
    "ask for it, and the embeddings are frozen.",
    help="Call `model.enable_input_require_grads()` before the adapters are added.",
    triggers=("get_peft_model",),
    reads=(Call, Engine),
    fix="safe",
    fixes=_fixes,
    fix_title="Let the inputs of the blocks ask for gradients",
)
def checkpointing_without_input_grads(trace: Trace) -> Iterator[Candidate]:
    older = ~trace.version_at_least("transformers", "5.0")
    if older.holds is False or any(library in trace.imported for library in PREPARED_BY):
        return
    for adapted in trace.all(Call):
        if adapted.role == "get_peft_model" and adapted.arguments.get("config", Value()).it == "LoraConfig":
            yield Candidate(adapted, older & _checkpointed(trace, adapted) & ~_prepared(trace, adapted))


def _checkpointed(trace: Trace, adapted: Call) -> Fact:
    """Is reentrant checkpointing switched on for the model with its adapters?"""
    found = FALSE
    for engine in trace.all(Engine):
        if engine.role.endswith("TrainingArguments"):
            found |= engine.activation_checkpointing.equals(True) & engine.reentrant.equals(True)
    for call in _after(trace, adapted):
        if call.function == "gradient_checkpointing_enable" and call.subject == adapted.subject:
            found |= call.arguments["reentrant"].equals(True)
    return found


def _prepared(trace: Trace, adapted: Call) -> Fact:
    """Do the inputs of the blocks ask for gradients: by the program, by peft, or since the embeddings are trained?"""
    found = _trains_embeddings(adapted)
    later = _after(trace, adapted)
    for call in trace.all(Call):
        if call.subject == adapted.subject and call.function == "enable_input_require_grads":
            found |= call.arguments["done"].equals(True)
        if call.subject == adapted.subject and call.function == "gradient_checkpointing_enable" and call not in later:
            # peft prepares the inputs of a model that is checkpointed already, unless it is quantized
            found |= adapted.arguments.get("quantization", Value("none")).equals("none")
    return found


def _trains_embeddings(adapted: Call) -> Fact:
    found = FALSE
    for name in ("target_modules", "modules_to_save"):
        value = adapted.arguments.get(name, Value(None))
        found |= value.test(lambda named: any(word in str(named) for word in TRAINS_EMBEDDINGS))
    return found


def _after(trace: Trace, adapted: Call) -> list[Call]:
    calls = list(trace.all(Call))
    return calls[calls.index(adapted) + 1 :]
