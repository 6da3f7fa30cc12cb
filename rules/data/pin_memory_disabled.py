"""`pin_memory=False` is written for a loader whose batches go to the GPU.

## What happens on a T4

Batches in ordinary memory are first copied by the driver into a page-locked buffer and then over PCIe, and the copy
cannot overlap with computation, not even with `non_blocking=True`. In a published copy-only benchmark pinning and
`non_blocking` together took 0.46 s instead of 0.65 s. On a T4 the link is the slow part: AWS attaches it with 8 of 16
PCIe lanes.

## How to fix it

Write `pin_memory=True` (for Trainer drop `dataloader_pin_memory=False`; pinning is its default), use at least one
worker, since without workers pinning happens in the main thread, and copy with `.to(device, non_blocking=True)`.

## When it is right to ignore it

When the dataset yields CUDA tensors, which cannot be pinned; when host memory is the limit (Colab has about 12.7 GB,
and pinned pages cannot be swapped out); when batches are tiny. Where a language model is trained, whose batches are some
thousands of token numbers, the finding is a note. A loader that only leaves the argument at its default is not reported,
and one whose batches go to an unknown device is presumed to feed the GPU.

## Sources

* torch 2.13 `utils/data/dataloader.py`; PyTorch tutorial on pinned memory and `non_blocking`; copy benchmark:
  stas00/ml-engineering; transformers 4.30 to 5.24 `training_args.py` for the default; link width of g4dn:
  ec2instances.info, December 2025. The defaults are shown by a test here; what they cost takes a GPU
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, Edit, SetValue, rule
from t4lint.trace import FALSE, Loader, Model, Trace, Value
from t4lint.trace.questions import loads_any, on_gpu

OF_TOKENS = (
    "ForCausalLM",
    "LMHeadModel",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForMaskedLM",
    "ForQuestionAnswering",
)


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    if candidate.blame is not None:
        yield SetValue(candidate.blame, "True")


@rule(
    name="pin-memory-disabled",
    severity="warning",
    summary="A DataLoader that feeds the GPU does not pin its batches",
    message="The batches of this loader are not page-locked, so every copy to the T4 goes through an extra buffer and cannot overlap "
    "with computation.",
    help="Write `pin_memory=True` (for a Trainer `dataloader_pin_memory=True`) and copy with `.to(device, non_blocking=True)`.",
    triggers=("pin_memory", "pin-memory"),
    reads=(Loader, Model),
    fix="safe",
    fixes=_fixes,
    fix_title="Pin the batches",
)
def pin_memory_disabled(trace: Trace) -> Iterator[Candidate]:
    tokens = loads_any(trace, OF_TOKENS)
    for loader in trace.all(Loader):
        unpinned = loader.pin_memory.equals(False)
        if unpinned.holds and not _written(loader.pin_memory):
            unpinned &= FALSE
        feeds_gpu = on_gpu(loader.device)
        yield Candidate(loader, unpinned & feeds_gpu, blame=loader.pin_memory, severity="note" if tokens else None)


def _written(value: Value) -> bool:
    """The person said so: a library's own default has no place in the program."""
    return any(origin.how != "default" or origin.location is not None for origin in value.origins)
