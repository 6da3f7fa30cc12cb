"""An argument that the library takes and does nothing with.

## What happens on a T4

`low_cpu_mem_usage=True` is in most recipes for small machines. transformers 5 loads sparingly by itself, accepts the argument and drops
it: no harm, but no help either where one hoped for it.

## How to fix it

Drop the argument from the call.

## When it is right to ignore it

Where the program also runs on older versions, in which the argument still counts. It is reported by itself only where the pinned
version ignores it; without a pin on request.

## Sources

* transformers 5.24 `modeling_utils.py`. Each row of the table beside this rule names its own
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, DropArgument, Edit, rule
from t4lint.trace import Call, Trace

from ._argument_tables import named, rows, taken

TABLE = "ignored_arguments.csv"


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    if candidate.blame is not None and not candidate.on_request:
        yield DropArgument(candidate.blame, str(candidate.words["argument"]))


@rule(
    name="ignored-argument",
    severity="note",
    summary="An argument that the library does nothing with",
    message="{library} takes `{argument}` in `{call}` and does nothing with it since {version}.",
    help="Drop it.",
    triggers=sorted({row.argument for row in rows(TABLE)}),
    reads=(Call,),
    fix="safe",
    fixes=_fixes,
    fix_title="Drop the argument",
)
def ignored_argument(trace: Trace) -> Iterator[Candidate]:
    for call, row, value in taken(trace, TABLE):
        said = value.test(lambda given: given not in (None, False))
        yield Candidate(
            call,
            said & trace.version_at_least(row.library, row.since),
            blame=value,
            words={"argument": row.argument, "call": named(call), "library": row.library, "version": row.since},
            on_request=row.library not in trace.versions,
        )
