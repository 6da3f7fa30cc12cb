"""The weights of the model alone do not fit on the card, or leave no room to train.

## What happens on a T4

Weights take 4 bytes a parameter in float32, 2 in 16 bits, 1 in 8 bits and a little over half a byte in 4 bits, and a
T4 leaves 14.3 GiB to a program. Above that the run ends with `torch.OutOfMemoryError` while the model is loaded or
moved, whatever the batch is. 7 billion parameters in float16 take 12.6 GiB: they load, and the first activations and the
CUDA libraries end the run.

With `device_map="auto"` on one GPU what does not fit goes to the host's memory or to the disk without an error. Those
layers are never trained: their weights get no gradient, and a LoRA adapter on one of them ends the first backward with
`RuntimeError: ... returned an invalid gradient`.

## How to fix it

Load a frozen base in 4 bits (`BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float16)`) and train
adapters: 7 to 8 billion parameters then take about 4 to 6 GiB. Above 20 billion parameters no format fits: take a
smaller model or more GPUs.

## When it is right to ignore it

When DeepSpeed or FSDP places parts of the model elsewhere. Models whose size is not known are not judged; a copy under
another organisation's name, or in a folder with the name of a known checkpoint, is taken for that checkpoint, and the
finding is only likely.

## Sources

* bytes by format: bitsandbytes 0.48 documentation, and live storages measured with torch 2.13; sizes of checkpoints
  from litgpt 0.5.13, transformers 5.24 and torchtune 0.6.1
* offloaded layers: run with a device map that leaves layers on the disk, transformers 5.24, accelerate 1.15, peft 0.21
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Fact, Model, Step, Trace
from t4lint.trace.questions import first_of_each, lowest, on_gpu, only_checkpoint

GIB = 2**30
STATE = ("weights", "gradients", "optimizer")
SPREADING = ("auto", "balanced", "balanced_low_0", "sequential")
ROOM = 0.85  # of the card: above it, weights leave no room for a step


@rule(
    name="weights-exceed-gpu-memory",
    severity="error",
    summary="A model whose weights alone do not fit on the card",
    message="The weights take at least {weights:.1f} GiB and a T4 leaves {usable:.1f} GiB to a program, {end}.",
    help="Load a frozen base in 4 bits and train adapters, or take a smaller model.",
    triggers=("from_pretrained", "Trainer"),
    reads=(Model, Step),
)
def weights_exceed_gpu_memory(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None:
        return
    usable = float(trace.target.gpu.usable_bytes)
    for step in first_of_each(trace, Step):
        weights = lowest(step, "weights")
        fits = weights <= usable
        gpu = on_gpu(step.device)
        heavy = gpu & Fact(weights > ROOM * usable if step.components.known else None, (step.components,))
        if fits and lowest(step, *STATE) > usable:  # the whole state is another rule's
            heavy &= FALSE
        end = "so the run ends out of memory"
        if placed := _placed_by_trl(trace):
            end = "so TRL leaves a part in the host's memory, or the run ends out of memory"
        spilled = not fits and _placed_by_map(trace)
        if spilled:
            end = "so its device map leaves a part in the host's memory, and the layers there cannot be trained"
        if fits:
            end = "so little is left for a training step"
        yield Candidate(
            step,
            heavy,
            blame=only_checkpoint(trace),
            severity="warning" if fits or placed or spilled else None,
            words={"weights": weights / GIB, "usable": usable / GIB, "end": end},
        )


def _placed_by_map(trace: Trace) -> bool:
    """Is there a device map that fills the GPU and leaves the rest to the host?"""
    return any(model.role == "load" and model.device_map.it in SPREADING for model in trace.all(Model))


def _placed_by_trl(trace: Trace) -> bool:
    """A trainer of TRL loads a model given by its name with a device map, which may leave a part of it in the host."""
    asked = [model.requested_dtype for model in trace.all(Model) if model.role == "load"]
    return any(origin.note.startswith("trl loads") for value in asked for origin in value.origins)
