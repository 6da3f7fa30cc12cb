"""A variable of torch's NCCL backend is set under its old name.

## What happens on a T4

`NCCL_ASYNC_ERROR_HANDLING`, `NCCL_BLOCKING_WAIT` and a few others are torch's, not NCCL's, and are called
`TORCH_NCCL_...` since torch 2.2. The old names still count, with a warning from every rank, and one day will not: a run
that should have ended with an error then hangs, on machines that are paid by the hour.

## How to fix it

Put `TORCH_` in front of the name.

## When it is right to ignore it

When torch before 2.2 is used; pin it, and the rule is silent. So it is where both names are set, for any version.

## Sources

* torch 2.13 `ProcessGroupNCCL.hpp` (deprecated names), 2.2.0 release notes; NCCL 2.30 knows none of these names. The
  warning needs NCCL and is not shown here
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import Candidate, Edit, RenameArgument, rule
from t4lint.trace import EnvironmentVariable, Fact, Launch, Trace
from t4lint.trace.questions import settings_of

# Old name → new name, as torch 2.13 reads them.
RENAMED = {
    "NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT": "TORCH_NCCL_BLOCKING_WAIT",
    "NCCL_ENABLE_TIMING": "TORCH_NCCL_ENABLE_TIMING",
    "NCCL_DESYNC_DEBUG": "TORCH_NCCL_DESYNC_DEBUG",
}


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    if candidate.blame is not None:
        yield RenameArgument(candidate.blame, str(candidate.words["old"]), str(candidate.words["new"]))


@rule(
    name="renamed-nccl-variable",
    severity="note",
    summary="A variable of torch's NCCL backend under its old name",
    message="`{old}` is read by torch, which calls it `{new}` since 2.2 and warns of the old name.",
    help="Put `TORCH_` in front of the name.",
    triggers=tuple(RENAMED),
    reads=(EnvironmentVariable, Launch),
    fix="safe",
    fixes=_fixes,
    fix_title="Use the new name",
)
def renamed_nccl_variable(trace: Trace) -> Iterator[Candidate]:
    recent = trace.version_at_least("torch", "2.2")
    for old, new in RENAMED.items():
        both = any(True for _ in settings_of(trace, new))
        for event, value in settings_of(trace, old):
            yield Candidate(event, recent & Fact(not both), blame=value, words={"old": old, "new": new})
