"""Training runs in fp32, and the tensor cores of the T4 stay idle.

## What happens on a T4

The tensor cores of a T4 take fp16, not fp32 and not TF32. A training step without mixed precision therefore does its
matrix products at about 4.3 TFLOPS, where the same T4 was measured at about 42 in fp16. Hugging Face's Trainer,
Accelerator, Lightning and a plain PyTorch loop all default to fp32.

## How to fix it

Switch fp16 mixed precision on: `fp16=True` in training arguments, `mixed_precision="fp16"` for Accelerator,
`precision="16-mixed"` for Lightning, or `torch.autocast("cuda", dtype=torch.float16)` around the forward pass with a
`torch.amp.GradScaler`. The weights stay in fp32. Numerics change slightly, so compare the loss of the first steps.

## When it is right to ignore it

Small networks wait for Python and memory, not for arithmetic: under 20 million parameters the finding is a note.
Models of families that overflow in fp16 (T5, Gemma 2 and 3) have to stay in fp32 on a T4, and are not reported. As soon as
any mixed precision is found in the program, the rule is silent. A step whose device cannot be told is presumed to be on
the GPU, and the finding is then only likely.

## Sources

* measured matmul rates on Colab and Kaggle T4s, torch 2.6 and 2.8: zzc0721/torch-performance-test-data
* defaults: transformers 4.30 to 5.24 `training_args.py`, accelerate 1.15 `accelerator.py`, lightning 2.6.6
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from t4lint.rule import Candidate, Edit, SetArgument, rule
from t4lint.trace import FALSE, Autocast, Engine, Fact, Key, Model, Origin, Step, Trace, Value
from t4lint.trace.questions import on_gpu

SMALL_MODEL = 20_000_000


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    """For the arguments of a Trainer, which brings its gradient scaler along."""
    engines = [event for event in trace.all(Engine) if event.role.endswith("TrainingArguments")]
    if isinstance(candidate.event, Step) and candidate.event.engine and len(engines) == 1:
        yield SetArgument(engines[0], "fp16", "True", callee=engines[0].role)


@rule(
    name="fp32-training",
    severity="warning",
    summary="Training in fp32, which leaves the tensor cores idle",
    message="{share:.0%} of the arithmetic of a training step runs in fp32, at about 4.3 TFLOPS on a T4, against about 42 with fp16 "
    "on its tensor cores.",
    help='Switch fp16 mixed precision on: `fp16=True`, `mixed_precision="fp16"`, or autocast to `torch.float16` with a `GradScaler`.',
    triggers=("backward", "Trainer", "trainer", ".fit("),
    reads=(Step, Autocast, Engine, Model),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Train in fp16",
)
def fp32_training(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 0):
        return
    mixed = _mixed_precision(trace)
    reported: Key | None = None
    for step in trace.all(Step):
        if reported not in (None, step.key):
            continue
        gpu = on_gpu(step.device)
        slow = gpu & step.math.test(lambda shares: shares.get("float32", 0.0) > 0.9) & ~mixed
        if _overflows(trace, step):
            slow &= FALSE
        if slow.holds:
            reported = step.key
        small = step.parameters.test(lambda count: count < SMALL_MODEL).holds is True
        yield Candidate(
            step,
            slow,
            blame=_explanation(trace, step),
            severity="note" if small else None,
            words={"share": step.math.it.get("float32", 0.0) if step.math.known else 1.0},
        )


def _overflows(trace: Trace, step: Step) -> bool:
    """Is what trains of a family that leaves the range of fp16? It has to stay in fp32 on such a card."""
    loaded = [model for model in trace.all(Model) if model.role == "load"]
    trained = [model for model in loaded if model.subject == step.trains.it] or loaded
    return any(model.overflow.it in ("forward", "backward") for model in trained)


def _mixed_precision(trace: Trace) -> Fact:
    found = FALSE
    for engine in trace.all(Engine):
        if engine.mixed_precision.it is not None or engine.mixed_precision.origins:
            found |= engine.mixed_precision.within(("fp16", "bf16", "fp8"))
    for region in trace.all(Autocast):
        found |= region.enabled.equals(True) & region.dtype.test(lambda dtype: dtype != "float32")
    return found


def _explanation(trace: Trace, step: Step) -> Value:
    """The value that a person would edit: the share's own origins, an engine's setting, or an autocast that is switched off."""
    if any(origin.location for origin in step.math.origins):
        return step.math
    before = trace.events[: trace.events.index(step)]
    if step.engine:
        for event in reversed(before):
            if isinstance(event, Engine) and event.mixed_precision.it == "no":
                place = Origin("default", f"`{event.role}` asks for no mixed precision", event.where)
                return replace(event.mixed_precision, origins=(*event.mixed_precision.origins, place))
    for event in reversed(before):
        if isinstance(event, Autocast) and event.enabled.it is False:
            return event.enabled
    return step.math
