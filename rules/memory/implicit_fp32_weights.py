"""A frozen base under adapters is loaded in float32, because no dtype was asked for.

## What happens on a T4

`from_pretrained` of transformers 4 builds the model in float32 unless a dtype is given, whatever the checkpoint holds;
so does a trainer of TRL from 0.27 on that is given the model by its name. A base of 3 billion parameters then takes
12 GiB of the 14.3 GiB that a T4 leaves to a program, and 6 GiB in float16. Adapters do not need it: what is frozen gets
no gradient, and autocast casts it down at each use anyway.

## How to fix it

`dtype=torch.float16` (`torch_dtype=` before transformers 4.56), or `model_init_kwargs={"dtype": "float16"}` for TRL.
Not for weights that are trained under a GradScaler: it refuses float16 gradients.

## When it is right to ignore it

For models that overflow in float16 (Gemma, T5), or when the memory is not needed. Models below a billion parameters,
and programs without PEFT, are not judged.

## Sources

* transformers 4.57 and 5.24 `modeling_utils.py`; trl 0.27 and 1.16 `sft_trainer.py`; huggingface/transformers#23165
  for the GradScaler
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Fact, Model, Step, Trace, unknown
from t4lint.trace.questions import lowest, on_gpu

GIB = 2**30
LARGE = 1_000_000_000
ROOM = 0.85  # of the card: weights above it are another rule's
STATE = ("weights", "gradients", "optimizer")


@rule(
    name="implicit-fp32-weights",
    severity="warning",
    summary="A frozen base model loaded in float32 for want of a dtype",
    message="No dtype is given, so the frozen base is loaded in float32: {full:.1f} GiB of the card, and {half:.1f} GiB in float16.",
    help="Ask for `dtype=torch.float16` (`torch_dtype=` before transformers 4.56).",
    triggers=("from_pretrained", "Trainer"),
    reads=(Model, Step),
)
def implicit_fp32_weights(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None:
        return
    usable = float(trace.target.gpu.usable_bytes)
    loads = [model for model in trace.all(Model) if model.role == "load"]
    cast = any(model.role == "cast" for model in trace.all(Model))
    step = next(trace.all(Step), None)
    if step is None or len(loads) != 1:
        return
    model = loads[0]
    gpu = on_gpu(step.device)
    implicit = model.dtype.equals("float32") & _unasked(model) & model.quantization.equals("none")
    implicit &= step.parameters.test(lambda count: count >= LARGE) & gpu & _frozen(trace)
    if cast or lowest(step, "weights") > ROOM * usable or lowest(step, *STATE) > usable:
        implicit &= FALSE
    size = 4.0 * float(step.parameters.it or 0) / GIB
    yield Candidate(model, implicit, words={"full": size, "half": size / 2})


def _unasked(model: Model) -> Fact:
    """No dtype was asked for, or only by a library on the program's behalf."""
    asked = model.requested_dtype
    if asked.known and asked.origins and all(origin.how == "default" for origin in asked.origins):
        return Fact(True, (asked,))
    return asked.equals(None)


def _frozen(trace: Trace) -> Fact:
    """Adapters train, and the base does not. unsloth chooses a dtype by itself."""
    if "peft" not in trace.imported:
        return Fact(None, (unknown("nothing says that the base is frozen"),))
    return Fact("unsloth" not in trace.imported)
