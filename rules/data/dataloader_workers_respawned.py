"""The loader's workers are started anew in each epoch.

## What happens on a T4

Without `persistent_workers` the worker processes end with the epoch, and the next one starts with forking them, importing what
they need and filling their queues, while the GPU waits. On a machine with two to four slow cores that is one to several seconds; it matters
where an epoch takes less than half a minute.

## How to fix it

`persistent_workers=True`. The workers then keep their memory between epochs.

## When it is right to ignore it

When epochs are long, or the dataset changes between them (workers keep the copy that they started with). The rule is off by default.

## Sources

* torch 2.13 documentation of `DataLoader` and source `utils/data/dataloader.py`; executed: workers of the second epoch have other
  process ids without it, and the same with it
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import AddArgument, Candidate, Edit, rule
from t4lint.trace import Backward, Loader, Trace
from t4lint.trace.questions import first_of_each


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    yield AddArgument(candidate.event, "persistent_workers", "True", callee="DataLoader")


@rule(
    name="dataloader-workers-respawned",
    severity="note",
    summary="The loader's workers are started anew in each epoch",
    message="Its {workers} workers are started anew in each epoch, and the GPU waits until they have filled their queues.",
    help="Pass `persistent_workers=True`.",
    triggers=("num_workers",),
    reads=(Backward, Loader),
    default=False,
    fix="unsafe",
    fixes=_fixes,
    fix_title="Keep the workers between epochs",
)
def dataloader_workers_respawned(trace: Trace) -> Iterator[Candidate]:
    epochs = any(backward.batches.it is True and len(backward.loops) > 1 for backward in trace.all(Backward))
    if not epochs:
        return
    for loader in first_of_each(trace, Loader):
        if not loader.role and loader.device.it != "cpu":
            works = loader.workers.test(lambda count: count > 0)
            yield Candidate(
                loader, works & loader.persistent_workers.equals(False), words={"workers": loader.workers.it}
            )
