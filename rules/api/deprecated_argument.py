"""An argument that still works and is announced to go.

## What happens on a T4

Nothing yet: a warning at each start. The next major version of the library will refuse it, and a notebook that installs the newest one
then ends with `TypeError`.

## How to fix it

Use the new name where every version that the program runs on has it, or pin the library below the next major version.

## When it is right to ignore it

Where older versions are supported that know the old name only. For that reason the rule is off unless it is selected.

## Sources

* transformers 5.24: the warnings were seen there. Each row of the table beside this rule names its own
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, Edit, RenameArgument, rule
from t4lint.trace import Call, Trace

from ._argument_tables import Row, named, rows, taken

TABLE = "deprecated_arguments.csv"


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    row = candidate.words["row"]
    if isinstance(row, Row) and row.library in trace.versions and candidate.blame is not None:
        yield RenameArgument(candidate.blame, row.argument, row.rename)


@rule(
    name="deprecated-argument",
    severity="note",
    summary="An argument that is announced to go",
    message="`{argument}` of `{call}` is deprecated since {library} {version}; use {replacement}.",
    help="Use the new name where every version that you support has it.",
    triggers=sorted({row.argument for row in rows(TABLE)}),
    reads=(Call,),
    default=False,
    fix="safe",
    fixes=_fixes,
    fix_title="Use the new name",
)
def deprecated_argument(trace: Trace) -> Iterator[Candidate]:
    for call, row, value in taken(trace, TABLE):
        said = value.test(lambda given: given is not None, if_unknown=True)
        yield Candidate(
            call,
            said & trace.version_at_least(row.library, row.since),
            blame=value,
            words={
                "argument": row.argument,
                "call": named(call),
                "library": row.library,
                "version": row.since,
                "replacement": row.replacement,
                "row": row,
            },
        )
