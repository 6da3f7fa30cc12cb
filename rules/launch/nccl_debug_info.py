"""NCCL's debug output is left on.

## What happens on a T4

With `NCCL_DEBUG=INFO` every rank writes its set-up into the log, and with `TRACE` every operation. Over a long run the lines
of all ranks drown the loss, and fill small disks.

## How to fix it

`NCCL_DEBUG=WARN`: a failure still names its reason. For a first run on new machines use INFO with
`NCCL_DEBUG_FILE=nccl.%h.%p.log`.

## When it is right to ignore it

While looking for a fault. With `NCCL_DEBUG_FILE` the output goes elsewhere, and nothing is reported.

## Sources

* NCCL 2.30.7 documentation of `NCCL_DEBUG`; the output needs GPUs and is not shown here
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import Candidate, Edit, SetValue, rule
from t4lint.trace import EnvironmentVariable, Fact, Launch, Trace
from t4lint.trace.questions import settings_of


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    if candidate.blame is not None:
        yield SetValue(candidate.blame, '"WARN"')


@rule(
    name="nccl-debug-info",
    severity="note",
    summary="NCCL's debug output left on",
    message="`NCCL_DEBUG={value}` writes the set-up of every rank into the log.",
    help="Use `NCCL_DEBUG=WARN`, or send it to a file with `NCCL_DEBUG_FILE`.",
    triggers=("NCCL_DEBUG",),
    reads=(EnvironmentVariable, Launch),
    default=False,
    fix="safe",
    fixes=_fixes,
    fix_title="Set NCCL_DEBUG to WARN",
)
def nccl_debug_info(trace: Trace) -> Iterator[Candidate]:
    elsewhere = any(True for _ in settings_of(trace, "NCCL_DEBUG_FILE"))
    for event, value in settings_of(trace, "NCCL_DEBUG"):
        loud = value.test(lambda text: str(text).strip().upper() in ("INFO", "TRACE"))
        yield Candidate(event, loud & Fact(not elsewhere), blame=value, words={"value": value.it})
