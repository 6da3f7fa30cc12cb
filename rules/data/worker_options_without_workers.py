"""Options for worker processes on a DataLoader that has none.

## What happens on a T4

`persistent_workers=True` or a `prefetch_factor` with `num_workers=0` (also the default) ends in a ValueError when the
loader is built. With Trainer, `dataloader_persistent_workers=True` passes `TrainingArguments` and fails only when
training starts, after model and data have been loaded. It is met where workers were set to 0 to get along with the 2
CPU cores of a Colab T4.

## How to fix it

Drop the option, or set `num_workers` to 1 or 2.

## When it is right to ignore it

Never; it fails everywhere.

## Sources

* torch 2.13 `utils/data/dataloader.py`, executed; transformers 5.24 `training_args.py` and `trainer.py`, executed
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, DropArgument, Edit, rule
from t4lint.trace import Loader, Trace


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    option = str(candidate.words["option"])
    if candidate.blame is not None:
        yield DropArgument(candidate.blame, option, otherwise="None" if option == "prefetch_factor" else "False")


@rule(
    name="worker-options-without-workers",
    severity="error",
    summary="Options for DataLoader workers without workers",
    message="`{option}` is set and `num_workers` is 0: building the loader ends in a ValueError.",
    help="Drop the option, or use at least one worker.",
    triggers=("persistent_workers", "persistent-workers", "prefetch_factor", "prefetch-factor"),
    reads=(Loader,),
    fix="safe",
    fixes=_fixes,
    fix_title="Drop the option",
)
def worker_options_without_workers(trace: Trace) -> Iterator[Candidate]:
    for loader in trace.all(Loader):
        no_workers = loader.workers.equals(0)
        persistent = loader.persistent_workers.equals(True)
        prefetch = loader.prefetch_factor.test(lambda factor: factor is not None)
        option = "prefetch_factor" if prefetch.holds and not persistent.holds else "persistent_workers"
        yield Candidate(
            loader,
            no_workers & (persistent | prefetch),
            blame=getattr(loader, option),
            words={"option": option},
        )
