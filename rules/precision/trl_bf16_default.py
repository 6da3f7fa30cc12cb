"""A TRL config with neither `fp16` nor `bf16`: TRL switches bf16 on by itself.

## What happens on a T4

Since TRL 0.19 every config (`SFTConfig`, `DPOConfig`, `GRPOConfig` and the others) sets `bf16=True` unless `fp16` is
set. The word does not stand in the program, nothing warns, and with torch 2.3 or later nothing fails: the T4 emulates
bf16, and matrix products run at about 2.2 TFLOPS against 42 in fp16. With torch 2.2 or older the config itself raises
a ValueError.

## How to fix it

Write `fp16=True`; TRL then leaves bf16 off. With a base model in 4 or 8 bits and TRL 0.26 or later this alone is not
enough: the trainer casts the adapters to bf16, and the gradient scaler refuses them. Cast the trainable parameters to
float32 after the trainer is built, and keep `fp16=True`.

## When it is right to ignore it

With unsloth, which picks fp16 on a T4; the rule is silent after `import unsloth`. When the model overflows in fp16,
write `bf16=False`, which trains in fp32.

## Sources

* trl 0.18.2 (no default), 0.19.1 to 1.16.0 (`trainer/base_config.py`); huggingface/trl#3515, and #3616 on how many
  T4s train with TRL
* trl 0.26 to 1.16, `trainer/sft_trainer.py`, for the cast of adapters
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import AddArgument, Candidate, Edit, rule
from t4lint.trace import FALSE, Call, Engine, Model, Step, Trace, Value
from t4lint.trace.questions import trains_on_cpu


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    """Not over a base in 4 or 8 bits: newer trainers cast the adapters to bf16, which the gradient scaler refuses."""
    quantized = any(
        model.quantization.known and model.quantization.it not in ("none", None) for model in trace.all(Model)
    )
    if not quantized or trace.version_at_least("trl", "0.26").holds is False:
        yield AddArgument(candidate.event, "fp16", "True", callee=str(candidate.words["config"]))


@rule(
    name="trl-bf16-default",
    severity="warning",
    summary="A TRL config without a precision, which TRL turns into bf16",
    message="`{config}` sets neither `fp16` nor `bf16`, and TRL then switches bf16 on: {effect}.",
    help="Write `fp16=True`, or `bf16=False` to train in fp32.",
    triggers=("trl",),
    reads=(Engine, Step, Call),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Train in fp16",
)
def trl_bf16_default(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or "bfloat16" in trace.target.gpu.native_dtypes:
        return
    refused = trace.version_at_least("torch", "2.3").holds is False
    effect = (
        "this version of torch refuses it with an error"
        if refused
        else "a T4 emulates it, at about 2.2 TFLOPS for matrix products against 42 in fp16"
    )
    idle = _trains_nothing(trace)
    for engine in trace.all(Engine):
        if not engine.role.endswith("Config"):
            continue
        chosen = engine.mixed_precision.equals("bf16")
        if not _left_to_trl(engine.mixed_precision) or "unsloth" in trace.imported or trains_on_cpu(trace):
            chosen &= FALSE
        yield Candidate(
            engine,
            chosen,
            blame=engine.mixed_precision,
            severity="note" if idle else "error" if refused else None,
            words={"config": engine.role, "effect": effect},
        )


def _trains_nothing(trace: Trace) -> bool:
    """A program that was followed to its end and has no trainer: it reads the configuration for something else."""
    built = any(call.function.endswith("Trainer") for call in trace.all(Call))
    return not built and trace.never(Step).holds is True


def _left_to_trl(value: Value) -> bool:
    """The default is the library's: one that the program declares has a place in it."""
    return not value.known or bool(
        value.origins and value.origins[0].how == "default" and value.origins[0].location is None
    )
