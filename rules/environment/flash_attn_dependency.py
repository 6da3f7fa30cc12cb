"""flash-attn is installed for a T4, where it has no kernel.

## What happens on a T4

FlashAttention 2 and later need compute capability 8.0; a T4 has 7.5. Where no wheel fits, the package is built from source,
which takes an hour and more on the two to four cores of a small machine. Then every call raises `FlashAttention only
supports Ampere GPUs or newer`.

## How to fix it

Remove it, and use `attn_implementation="sdpa"`: PyTorch's memory-efficient kernel runs on a T4.

## When it is right to ignore it

When the same image is used on newer GPUs. An optional extra, and a version below 2 (which has kernels for Turing), are not
reported.

## Sources

* flash-attn 2.8.3, `csrc/flash_attn/flash_api.cpp` and README. The kernel needs a GPU and is not shown here
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import Candidate, DropStatement, Edit, rule
from t4lint.trace import Fact, Requirement, Trace, release

FIRST_WITHOUT = "2.0"


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    """A line of a requirements file; a command that installs it may do more."""
    yield DropStatement(candidate.event)


@rule(
    name="flash-attn-dependency",
    severity="warning",
    summary="flash-attn installed where it has no kernel",
    message="flash-attn 2 and later has no kernel for a T4: it is built for a long time, and every call raises.",
    help='Remove it, and use `attn_implementation="sdpa"`.',
    triggers=("flash-attn", "flash_attn"),
    reads=(Requirement,),
    verifiable=False,
    fix="unsafe",
    fixes=_fixes,
    fix_title="Do not require flash-attn",
)
def flash_attn_dependency(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 0):
        return
    for asked in trace.all(Requirement):
        if asked.name == "flash-attn":
            highest = asked.version.it or asked.high.it
            old = (
                highest is not None and release(highest) <= release(FIRST_WITHOUT) and asked.version.it != FIRST_WITHOUT
            )
            required = Fact(asked.role != "optional")
            yield Candidate(asked, required & Fact(not old, (asked.version,)), blame=asked.version)
