"""`notebook_launcher` is given what a function returned, not the function.

## What happens on a T4

`notebook_launcher(train())` calls `train` first, in the notebook's own process and on one GPU, to the end. The launcher
then gets its result, `None`, and the processes that it starts fail with `'NoneType' object is not callable`. By then the
notebook has also touched CUDA, which forked processes do not survive.

## How to fix it

Hand over the function, and its arguments apart: `notebook_launcher(train, args=(config,), num_processes=2)`.

## When it is right to ignore it

When the call returns a function to be launched: only results that are known to be no function are reported.

## Sources

* accelerate 1.15, `launchers.py`; huggingface/accelerate#3925
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import Candidate, Edit, PassFunction, rule
from t4lint.trace import NOT_SAID, Call, Trace


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    yield PassFunction(candidate.event, "notebook_launcher")


@rule(
    name="notebook-launcher-given-a-call",
    severity="error",
    summary="notebook_launcher is given a result, not a function",
    message="`notebook_launcher` is given what a call returned, not a function: training runs before it, in the notebook's "
    "own process.",
    help="Hand over the function and its arguments apart: `notebook_launcher(train, args=(...), num_processes=2)`.",
    triggers=("notebook_launcher",),
    reads=(Call,),
    fix="safe",
    fixes=_fixes,
    fix_title="Hand over the function",
)
def notebook_launcher_given_a_call(trace: Trace) -> Iterator[Candidate]:
    for call in trace.all(Call):
        if call.function == "accelerate.notebook_launcher":
            function = call.arguments.get("function", NOT_SAID)
            yield Candidate(
                call,
                function.test(lambda it: it is None or isinstance(it, (bool, int, float, dict, list, tuple))),
            )
