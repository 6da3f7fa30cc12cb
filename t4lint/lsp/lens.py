"""Code lenses above the place where training starts: what a step takes of the card, and "verify"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lsprotocol import types

from t4lint.fit import Fit
from t4lint.lsp.diagnostics import Documents

# commands of the editor's extension
FIT = "t4lint.fit"
VERIFY = "t4lint.verify"


def lenses(uri: str, fits: Sequence[Fit], documents: Documents, target: str) -> Iterator[types.CodeLens]:
    """Of each step that trains in a document, the fullest; one line "verify" with it."""
    fullest: dict[int, tuple[types.Range, Fit]] = {}
    for fit in fits:
        spot = documents.spot(fit.where) if fit.where is not None else None
        if spot is None or spot.uri != uri:
            continue
        line = spot.range.start.line
        if line not in fullest or fullest[line][1].expected < fit.expected:
            fullest[line] = spot.range, fit
    for range_, fit in fullest.values():
        at = types.Range(range_.start, range_.start)
        yield types.CodeLens(at, types.Command(summary(fit, target), FIT))
        yield types.CodeLens(at, types.Command("verify (runs it)", VERIFY))


def summary(fit: Fit, target: str) -> str:
    """`about 11.2 of 14.1 GiB on t4: fits`, or that it is not known."""
    if fit.peak is None:
        return f"what fills the card of {target} is not known: see why"
    return f"about {_gib(fit.expected)} of {_gib(fit.limit)} GiB on {target}: {fit.answer}"


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f}"
