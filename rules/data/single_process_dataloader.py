"""The training loader prepares its samples in the main process, and each sample is real work.

## What happens on a T4

Without workers the batch is made between two steps: while images are decoded and augmented, sounds become spectrograms, or text
is split into tokens, the GPU waits. In a published benchmark one epoch of loading took 5.4 s so, 1.3 s with two workers and 0.8 s
with three. `num_workers` is 0 unless it is given, in `DataLoader` and in the Trainer's arguments.

## How to fix it

`num_workers=2` (Colab has two virtual CPUs), at most as many as the machine has virtual CPUs. With workers, pinned memory is filled
beside the training as well.

## When it is right to ignore it

When the set is tiny, or the workers cannot be started where it runs. Loaders whose samples come ready from memory, that do not
shuffle, or whose samples are not understood are not reported. Splitting text into tokens alone is a note: it is quick beside
the step of a large model.

## Sources

* torch 2.13 `utils/data/dataloader.py`; transformers 4.30 to 5.24 `training_args.py` for the default; benchmark:
  stas00/ml-engineering; virtual CPUs: providers' documentation, 2023 to 2025. The defaults are
  shown by a test here; what they cost takes a GPU
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Loader, Trace
from t4lint.trace.questions import first_of_each, on_gpu

DOES = {
    "decode": "decoded", "augment": "augmented", "extract": "turned into features", "tokenize": "split into tokens",
}  # fmt: skip


@rule(
    name="single-process-dataloader",
    severity="warning",
    summary="Samples are decoded or augmented in the main process while the GPU waits",
    message="Each sample is {work} in the main process, because this loader has no workers: the GPU waits for every batch.",
    help="Give the loader workers: 2 on Colab, at most as many as the machine has virtual CPUs.",
    triggers=("DataLoader", "Trainer", "YOLO", "yolo"),
    reads=(Loader,),
)
def single_process_dataloader(trace: Trace) -> Iterator[Candidate]:
    for loader in first_of_each(trace, Loader):
        alone = loader.workers.equals(0) & on_gpu(loader.device)
        trains = loader.role == "train" or loader.shuffle.it is True or loader.sampler.it not in (None, "none")
        if not trains:
            alone &= FALSE
        kinds = loader.work.it if loader.work.known else ()
        yield Candidate(
            loader,
            alone & loader.work.test(bool),
            blame=loader.workers,
            severity="note" if kinds == ("tokenize",) else None,
            words={"work": " and ".join(DOES[kind] for kind in kinds)},
        )
