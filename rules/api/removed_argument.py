"""An argument that the library no longer takes, or a name that it no longer has.

## What happens on a T4

Recipes for T4s are often older than the libraries that a fresh notebook installs. transformers 5 and TRL took many
arguments out; a call that still gives one ends at once with `TypeError: ... got an unexpected keyword argument`. Names went as well:
`from transformers import AdamW`, `from datasets import load_metric` or `from trl import PPOTrainer` is an ImportError, and a
tokenizer's `encode_plus` an AttributeError. That is no matter of the GPU, but it is the first thing that happens on it.

## How to fix it

Use the name that the finding gives, or pin the library to a version that has the argument.

## When it is right to ignore it

When an older version is installed and nothing in the project says so: pin it (`transformers==4.46.3` in requirements.txt
or in the notebook's `pip install`), and the finding goes. Without a pin it is a note, since the newest version is
presumed; what other rules say of the program and would not say of both versions, they say for the newest version that
takes all of its arguments, as likely. Arguments that the project's own subclass declares are not reported, nor old names of TRL's after
`import unsloth`, which rebuilds TRL's trainers so that they take them.

## Sources

* transformers wheels 4.30 to 5.24, trl wheels 0.7 to 1.16, datasets wheels 2.21 to 5.2, pytorch-lightning wheels 1.2 to 2.6; the
  errors were run on transformers 5.24, trl 1.16, datasets 5.2 and lightning 2.6. Each row of the table beside this rule names its
  own; unsloth 2025.12 `trainer.py` for the names that it still takes
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from t4lint.rule import Candidate, Edit, RenameArgument, rule
from t4lint.trace import FALSE, Call, Fact, Trace, Value, release

from ._argument_tables import named, takes, written

# Two packages of the same library, with the same versions.
PACKAGES = {"lightning": ("lightning", "pytorch-lightning")}
TOKENIZER = "transformers.PreTrainedTokenizerBase."
SHOWN = 4  # arguments that a message names


class Row(NamedTuple):
    """A line of the table: `takes` names the call, `present_in` a version that surely has the argument yet."""

    library: str
    takes: str
    argument: str
    removed_in: str
    present_in: str
    replacement: str
    rename: str
    source: str


@cache
def table() -> tuple[Row, ...]:
    with Path(__file__).with_name("removed_arguments.csv").open(encoding="utf-8", newline="") as file:
        return tuple(Row(**line) for line in csv.DictReader(file))


def offered(trace: Trace, candidate: Candidate) -> Iterable[Edit]:
    """Another name for the same thing, where the version is known to have it."""
    rows, call = candidate.words["rows"], candidate.event
    if not isinstance(call, Call) or not isinstance(rows, tuple):
        return
    for row in rows:
        if isinstance(row, Row) and row.rename and _pinned(trace, row.library) is not None:
            yield RenameArgument(call.arguments[row.argument], row.argument, row.rename)


@rule(
    name="removed-argument",
    severity="error",
    summary="An argument that the library no longer takes",
    message="{what}: {library} took {pronoun} out in {version}{instead}.",
    help="Use the new name, or pin the library to a version that has the argument.",
    triggers=sorted({row.argument for row in table()}),
    reads=(Call,),
    fix="safe",
    fixes=offered,
    fix_title="Use the argument's new name",
    dates=True,
)
def removed_argument(trace: Trace) -> Iterator[Candidate]:
    """One finding for a call and a library: old code gives many of them at once."""
    for call in trace.all(Call):
        rows = [row for row in table() if row.argument in call.arguments and takes(row.library, row.takes, call)]
        for library in dict.fromkeys(row.library for row in rows):
            judged = [(row, _gone(trace, row) & _not_own(call, row)) for row in rows if row.library == library]
            gone = [(row, fact) for row, fact in judged if fact.holds]
            yield Candidate(
                call,
                _any(fact for _, fact in judged),
                blame=next(filter(None, (_place(call, row) for row, _ in gone or judged)), None),
                severity="note" if _pinned(trace, library) is None else None,
                words=_words(call, [row for row, _ in gone or judged]),
                written_for={} if _pinned(trace, library) is not None else _written_for([row for row, _ in gone]),
            )


def _pinned(trace: Trace, library: str) -> Value | None:
    packages = PACKAGES.get(library, (library,))
    return next((trace.versions[package] for package in packages if package in trace.versions), None)


def _place(call: Call, row: Row) -> Value | None:
    return written(call.arguments[row.argument], row.argument)


def _written_for(rows: Sequence[Row]) -> dict[str, tuple[str, bool]]:
    """The versions that take all of these arguments of a library: up to the last that surely has them, or below one."""
    bounds = [(row.present_in, True) if row.present_in else (row.removed_in, False) for row in rows]
    return {rows[0].library: min(bounds, key=lambda bound: (release(bound[0]), bound[1]))} if rows else {}


def _any(facts: Iterable[Fact]) -> Fact:
    found = FALSE
    for fact in facts:
        found |= fact
    return found


def _words(call: Call, rows: Sequence[Row]) -> dict[str, object]:
    """The arguments, and what each is replaced by; where there are many, the first three and how many more."""
    names = [f"`{row.argument}`" for row in rows]
    shown = names if len(names) <= SHOWN else [*names[: SHOWN - 1], f"{len(names) - SHOWN + 1} more"]
    listed = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    others = [
        row.replacement if len(rows) == 1 else f"{row.replacement} for `{row.argument}`"
        for row in rows[:SHOWN]
        if row.replacement
    ]
    versions = sorted({row.removed_in for row in rows}, key=release)
    if call.role == "symbol" and call.function.startswith(TOKENIZER):
        text = f"A tokenizer of `{rows[0].library}` has no {listed} any more"
    elif call.role == "symbol":
        text = f"`{rows[0].library}` has no {listed} any more"
    else:
        text = f"{listed} {'is no argument' if len(rows) == 1 else 'are no arguments'} of `{named(call)}` any more"
    return {
        "what": text,
        "library": rows[0].library,
        "pronoun": "it" if len(rows) == 1 else "them",
        "version": versions[0] if len(versions) == 1 else f"{', '.join(versions[:-1])} and {versions[-1]}",
        "instead": f"; use {', '.join(others)}" if others else "",
        "rows": tuple(rows),
    }


def _gone(trace: Trace, row: Row) -> Fact:
    if row.library == "trl" and "unsloth" in trace.imported:  # its trainers and configurations take the old names
        return FALSE
    version = _pinned(trace, row.library)
    if version is None:  # the newest is presumed
        return Fact(True, (Value("no version is pinned", likely=True),))
    if not version.known:
        return Fact(None, (version,))
    installed = release(version.it)
    if installed >= release(row.removed_in):
        return Fact(True, (version,))
    if row.present_in and installed > release(row.present_in):
        return Fact(None, (Value(unknown=f"{row.library} took it out after {row.present_in}"),))
    return Fact(False, (version,))


def _not_own(call: Call, row: Row) -> Fact:
    """Not an argument that a class of the project adds, nor a flag that another of its classes may take."""
    if call.accepts.known and row.argument in call.accepts.it:
        return FALSE
    value = call.arguments[row.argument]
    if row.library == "trl" and any(origin.how == "flag" for origin in value.origins):
        return Fact(None, (Value(unknown="another part of the program may read this flag"),))
    return Fact(True)
