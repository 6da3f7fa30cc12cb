"""A model of a billion parameters or more is trained from random weights.

## What happens on a T4

Training takes about six operations a parameter and token, and a T4 does some 20e12 a second in float16 when all goes
well. A model of one billion parameters that sees twenty tokens a parameter, as few as scaling laws advise, takes 70 days
on one T4 before any communication; seven billion take nine years. Sharding makes such a model fit, but does not make it
learn in time.

## How to fix it

Start from a checkpoint and fine-tune it: `from_pretrained` in the place of `from_config`. To study pre-training, take a
model of at most 0.2 billion parameters, or rent GPUs that do 20 times the work.

## When it is right to ignore it

When the run is a test of speed or memory, or when weights are loaded later in a way that is not seen. Models whose shape
is not known are not judged.

## Sources

* six operations a parameter and token, twenty tokens a parameter: Hoffmann et al. 2022 (arXiv 2203.15556); the rate of a T4 is
  an assumption, 31 % of 65e12 (`t4lint/devices/gpus.csv`); sizes of configurations: transformers 5.24
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Fact, Model, Step, Trace, Value
from t4lint.trace.questions import first_of_each, on_gpu

LARGE = 1e9
OPERATIONS = 6  # a parameter and token
TOKENS = 20  # a parameter
DAY = 86_400  # seconds


@rule(
    name="large-model-pretraining",
    severity="warning",
    summary="A model of a billion parameters trained from random weights",
    message="A model of {size:.1f} billion parameters starts from random weights: {tokens:.0f} billion tokens, the least that is "
    "advised, take about {days:,.0f} days on one T4.",
    help="Fine-tune a checkpoint with `from_pretrained`, or train a model of at most 0.2 billion parameters.",
    triggers=("from_config", "Config("),
    reads=(Model, Step),
)
def large_model_pretraining(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None:
        return
    rate = trace.target.gpu.effective_flops.get("float16")
    created = [model for model in trace.all(Model) if model.role == "create"]
    if not created or not rate:
        return
    loaded = any(model.role == "load" for model in trace.all(Model))
    for step in first_of_each(trace, Step):
        large = on_gpu(step.device) & step.parameters.test(lambda count: count >= LARGE)
        # They may come from a state dict that the program loads.
        large &= Fact(True, (Value("the weights are presumed to start untrained", likely=True),))
        if loaded or "peft" in trace.imported:
            large &= FALSE
        count = float(step.parameters.it) if step.parameters.known else 0.0
        days = OPERATIONS * TOKENS * count**2 / rate / DAY
        yield Candidate(
            created[0],
            large,
            words={"size": count / 1e9, "tokens": TOKENS * count / 1e9, "days": days},
            related=(step,),
        )
