"""Adam keeps two 32-bit moments for many trained parameters, where 8-bit states would do.

## What happens on a T4

Adam's two moments take 8 bytes a parameter in float32, as much as weights and gradients together: 2.4 GB for 300 million
parameters. An 8-bit Adam keeps 2 bytes, and what it saves is room for a larger micro-batch or a longer text.

## How to fix it

`optim="adamw_8bit"` (bitsandbytes), or `bnb.optim.AdamW8bit(model.parameters())`; `"paged_adamw_8bit"` costs nothing until
memory runs out. Embeddings stay in 32 bits under the Trainer.

## When it is right to ignore it

When the run fits with room to spare: the results of 8-bit states are close, not equal. Adapters have few parameters and
gain nothing, and neither do convolutional networks, whose tensors are small.

## Sources

* bytes of states: measured on bitsandbytes 0.50 and torch 2.13 (`tests/test_memory_measured.py`); tensors below 4096 elements stay in
  32 bits: bitsandbytes documentation, 2025; names valid since transformers 4.31
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Engine, Fact, Optimizer, Step, Trace, Value
from t4lint.trace.questions import first_of_each, lowest, on_gpu

GIB = 2**30
MANY = 300_000_000  # trained parameters
STATE_BYTES = 8
FULL = 0.8


@rule(
    name="adam-fp32-state",
    severity="note",
    summary="32-bit Adam states for many trained parameters",
    message="Adam's moments take at least {state:.1f} GiB of the card in 32 bits; 8-bit states take {small:.1f}.",
    help='Use `optim="adamw_8bit"`, or `bitsandbytes.optim.AdamW8bit`.',
    triggers=("Adam", "adam", "Trainer"),
    reads=(Engine, Optimizer, Step),
    default=False,
    fix="unsafe",
)
def adam_fp32_state(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None:
        return
    usable = float(trace.target.gpu.usable_bytes)
    name = _optimizer(trace)
    for step in first_of_each(trace, Step):
        state = lowest(step, "optimizer")
        adam = name.test(lambda it: "adam" in str(it).lower() and "8bit" not in str(it).lower())
        much = Fact(state >= STATE_BYTES * MANY if step.components.known else None, (step.components,))
        full = step.peak.known and step.peak.it[0] > FULL * usable
        yield Candidate(
            step,
            on_gpu(step.device) & adam & much,
            blame=name if any(origin.location for origin in name.origins) else None,
            severity="warning" if full else None,
            words={"state": state / GIB, "small": state / 4 / GIB},
        )


def _optimizer(trace: Trace) -> Value:
    """The one that the program builds, else the engine's."""
    built = [optimizer.name for optimizer in trace.all(Optimizer)]
    engines = [engine.optimizer for engine in trace.all(Engine) if engine.optimizer.known]
    return (built or engines or [Value(unknown="no optimizer is in sight")])[-1]
