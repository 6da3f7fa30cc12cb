"""The model is compiled after a Trainer took it, so nothing that trains is compiled.

## What happens on a T4

`torch.compile(model)` returns a new module around the model and leaves the model as it is. A Trainer that was built
before holds the model that is not compiled and trains that one. There is no error; the compiled module is never called.

## How to fix it

Compile before the Trainer is built and give it the result, or write `torch_compile=True` in the training arguments.
`model.compile()` works in place and can stand anywhere.

## When it is right to ignore it

When the compiled module is for something else, such as evaluation by hand in between.

## Sources

* torch 2.13 `torch/__init__.py` (`compile`) and transformers 5.24 `Trainer`, executed: the trainer's model stays the one it was
  given
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Compile, Step, Trace


@rule(
    name="compiled-model-not-trained",
    severity="note",
    summary="A model that is compiled after the Trainer took it",
    message="The Trainer was given this model before it was compiled, and it trains the model that is not.",
    help="Compile the model before the Trainer is built, or use `torch_compile=True` in the training arguments.",
    triggers=("compile",),
    reads=(Compile, Step),
)
def compiled_model_not_trained(trace: Trace) -> Iterator[Candidate]:
    for number, event in enumerate(trace.events):
        if isinstance(event, Compile) and not event.role:
            rest = trace.events[number + 1 :]
            trains = any(isinstance(later, Step) and later.engine == "Trainer" for later in rest)
            given = any(isinstance(later, Compile) and later.role == "handed over" for later in rest)
            late = event.late.equals(True)
            yield Candidate(event, late & FALSE if given or not trains else late)
