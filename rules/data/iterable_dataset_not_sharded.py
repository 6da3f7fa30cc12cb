"""An iterable dataset is read in full by each worker of its DataLoader.

## What happens on a T4

Each worker has a copy of an `IterableDataset` and iterates over all of it. With two workers every sample comes twice in
an epoch, with four, four times: the epoch takes as much longer, and the model sees duplicates in one batch. Nothing warns.

## How to fix it

Split the work inside `__iter__`: `info = torch.utils.data.get_worker_info()`, then take each `info.num_workers`-th item
from `info.id` on; or use a map-style dataset, or one worker.

## When it is right to ignore it

When duplicates are wanted, or when the samples are drawn at random anyway. Datasets that iterate over another dataset
(Hugging Face's streaming datasets and WebDataset split by worker themselves) are not judged.

## Sources

* torch 2.13 `utils/data/dataset.py` (the example of `IterableDataset`), executed: two workers gave every sample twice
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Loader, Trace


@rule(
    name="iterable-dataset-not-sharded",
    severity="warning",
    summary="Every DataLoader worker reads all of an iterable dataset",
    message="Each of the {workers} workers iterates over the whole dataset, so every sample comes {workers} times in an epoch.",
    help="Take each worker's part in `__iter__` with `torch.utils.data.get_worker_info()`, or use one worker.",
    triggers=("IterableDataset",),
    reads=(Loader,),
)
def iterable_dataset_not_sharded(trace: Trace) -> Iterator[Candidate]:
    for loader in trace.all(Loader):
        repeated = loader.repeats.equals(True) & loader.workers.test(lambda workers: workers >= 2)
        yield Candidate(loader, repeated, blame=loader.workers, words={"workers": loader.workers.it})
