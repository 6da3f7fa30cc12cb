"""A method of an own Trainer does not take an argument that the library passes.

## What happens on a T4

Many recipes change the loss by a subclass: `def compute_loss(self, model, inputs, return_outputs=False)`. Since 4.46 transformers
calls it with `num_items_in_batch`, so with a fresh install the run ends at its first step, after the model was downloaded, with
`TypeError: ... got an unexpected keyword argument 'num_items_in_batch'`. `training_step`, `log` and `_get_train_sampler` got an
argument more as well. That is no matter of the GPU, but it is what a Colab or Kaggle user with an older recipe meets.

## How to fix it

Take what comes: `def compute_loss(self, model, inputs, return_outputs=False, **kwargs)`; for the others one parameter more, or
`*args`.

## When it is right to ignore it

When an older version is installed and nothing in the project says so: pin it (`transformers==4.45.2`), and the finding goes. Without a
pin it is a note, since the newest version is presumed. A subclass with a loop, a `training_step` or a `get_train_dataloader` of its own
is not reported for what only the library's would call.

## Sources

* transformers wheels 4.45.2 to 5.24 (`trainer.py`): `num_items_in_batch` since 4.46.0, `start_time` of `log` since 4.47.0, the dataset
  for `_get_train_sampler` between 4.51.3 and 4.52.4; the TypeErrors were run on 5.24
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Fact, Trace, Value, release
from t4lint.trace.questions import first_of_each

# method → (passed since this version, not yet in this one)
SINCE = {
    "compute_loss": ("4.46.0", "4.45.2"),
    "training_step": ("4.46.0", "4.45.2"),
    "log": ("4.47.0", "4.46.3"),
    "_get_train_sampler": ("4.52.4", "4.51.3"),
}


@rule(
    name="outdated-override",
    severity="error",
    summary="An own Trainer's method lacks an argument that the library passes",
    message="transformers passes `{argument}` to `{method}` since {version}, which this method does not take: a TypeError at {when}.",
    help="Let the method take it: `**kwargs` in `compute_loss`, one parameter more, with a default, in the others.",
    triggers=tuple(f"def {name}" for name in SINCE),
    reads=(Call,),
    dates=True,
)
def outdated_override(trace: Trace) -> Iterator[Candidate]:
    pinned = trace.versions.get("transformers")
    for call in first_of_each(trace, Call):
        method = call.function.rpartition(".")[2]
        if call.role != "override" or method not in SINCE:
            continue
        argument, taken = next(iter(call.arguments.items()))
        since, before = SINCE[method]
        yield Candidate(
            call,
            _passed(pinned, since, before) & taken.equals(False),
            severity="note" if pinned is None else None,
            words={
                "argument": argument, "method": method, "version": ".".join(since.split(".")[:2]),
                "when": "the first log" if method == "log" else "the first step",
            },
            written_for={} if pinned is not None else {"transformers": (before, True)},
        )  # fmt: skip


def _passed(pinned: Value | None, since: str, before: str) -> Fact:
    """Does the version that is used pass it?"""
    if pinned is None:
        return Fact(True, (Value("no version is pinned", likely=True),))
    if not pinned.known:
        return Fact(None, (pinned,))
    installed = release(pinned.it)
    if installed >= release(since):
        return Fact(True, (pinned,))
    known = installed <= release(before)
    return Fact(False if known else None, (pinned if known else Value(unknown=f"it came after {before}"),))
