"""Weights, gradients and optimizer states alone need more memory than the T4 has.

## What happens on a T4

Adam in float32, with or without autocast, keeps 16 bytes a trained parameter: weights 4, gradients 4, two moments 8. A
T4 leaves 14.3 GiB to a program, so full training ends at about 0.95 billion parameters, before a single activation. The
run dies with `torch.OutOfMemoryError` while the model moves to the GPU, in the first backward, or, most often, in the
first `optimizer.step()`, where the moments are made. No batch size helps.

## How to fix it

Train adapters instead (LoRA; QLoRA for 7 billion parameters and more). To train all weights: an 8-bit or paged optimizer
(about 10 bytes a parameter), Adafactor, a smaller model, or sharding with offload (ZeRO-3, FSDP). Sharding alone divides
the sum by the number of GPUs: 7 billion parameters still need 25 GiB on each of four.

## When it is right to ignore it

When a part of the model is frozen where this program cannot be seen to do so. Runs that shard in a way that is not
followed, and models whose size is not known, are not judged.

## Sources

* bytes per parameter, measured with torch 2.13 on AdamW steps; sizes of checkpoints from litgpt 0.5.13, transformers
  5.24 and torchtune 0.6.1; 8-bit states: bitsandbytes documentation, 2025
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Fact, Model, Step, Trace, Value

GIB = 2**30
STATE = ("weights", "gradients", "optimizer")


@rule(
    name="training-state-exceeds-gpu",
    severity="error",
    summary="Training whose weights, gradients and optimizer states do not fit on the card",
    message="Weights, gradients and optimizer states need at least {state:.1f} GiB ({parts}) and a T4 leaves {usable:.1f} GiB: "
    "no batch size fits.",
    help="Train adapters (LoRA, QLoRA), or use an 8-bit optimizer, a smaller model, or sharding with offload.",
    triggers=("from_pretrained", "Trainer"),
    reads=(Model, Step),
)
def training_state_exceeds_gpu(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None:
        return
    usable = float(trace.target.gpu.usable_bytes)
    for step in _first_of_each(trace):
        state, weights = _lowest(step, *STATE), _lowest(step, "weights")
        on_gpu = step.device.test(lambda device: str(device).startswith("cuda"), if_unknown=True)
        too_much = on_gpu & Fact(state > usable if step.components.known else None, (step.components,))
        if weights > usable:  # the weights alone are another rule's
            too_much &= FALSE
        parts = ", ".join(f"{name} {_lowest(step, name) / GIB:.1f}" for name in STATE)
        yield Candidate(
            step,
            too_much,
            blame=_name(trace),
            words={"state": state / GIB, "usable": usable / GIB, "parts": parts},
        )


def _first_of_each(trace: Trace) -> Iterator[Step]:
    """A loop is traced for several steps: one judgement for each place is enough."""
    seen = set()
    for step in trace.all(Step):
        if step.key not in seen:
            seen.add(step.key)
            yield step


def _lowest(step: Step, *names: str) -> float:
    bands: Mapping[str, tuple[float, float]] = step.components.it or {}
    return float(sum(bands[name][0] for name in names if name in bands))


def _name(trace: Trace) -> Value | None:
    """The name of the only checkpoint, which gives the size."""
    names = [model.name for model in trace.all(Model) if model.role == "load" and model.name.known]
    return names[0] if len(names) == 1 else None
