"""An argument that the pinned library does not have yet.

## What happens on a T4

Recipes that worked on a T4 pin old libraries, and code copied from newer documentation does not fit them: `dtype=` before
transformers 4.56, `eval_strategy=` before 4.41, `processing_class=` before 4.46. The call ends at once with
`TypeError: ... got an unexpected keyword argument`.

## How to fix it

Use the older name that the finding gives, or raise the pin.

## When it is right to ignore it

Never where the pin is what is installed. Without a pin nothing is reported: the newest version is presumed, and has the argument.

## Sources

* transformers wheels 4.30 to 5.24 and trl wheels 0.7 to 1.16, whose dataclasses and signatures were compared. Each row of the table
  beside this rule names its own
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from t4lint.rule import Candidate, Edit, RenameArgument, rule
from t4lint.trace import Call, Trace, release

from ._argument_tables import Row, named, rows, taken, written

TABLE = "newer_arguments.csv"


def _fixes(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    row = candidate.words["row"]
    if isinstance(row, Row) and row.rename and candidate.blame is not None:
        yield RenameArgument(candidate.blame, row.argument, row.rename)


@rule(
    name="argument-newer-than-library",
    severity="error",
    summary="An argument that the pinned library does not have yet",
    message="`{argument}` is no argument of `{call}` in {library} {installed}: it came with {version}{instead}.",
    help="Use the older name, or raise the pin.",
    triggers=sorted({row.argument for row in rows(TABLE)}),
    reads=(Call,),
    fix="safe",
    fixes=_fixes,
    fix_title="Use the name that this version has",
)
def argument_newer_than_library(trace: Trace) -> Iterator[Candidate]:
    for call, row, value in taken(trace, TABLE):
        version = trace.versions.get(row.library)
        if version is None or row.argument in (call.accepts.it or ()):
            continue
        yield Candidate(
            call,
            version.test(lambda installed, first=row.since: release(installed) < release(first)),  # type: ignore[misc]
            blame=written(value, row.argument),
            words={
                "argument": row.argument,
                "call": named(call),
                "library": row.library,
                "installed": version.it,
                "version": row.since,
                "instead": f"; use {row.replacement}" if row.replacement else "",
                "row": row,
            },
        )
