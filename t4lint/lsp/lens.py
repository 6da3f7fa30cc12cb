"""Code lenses above the place where training starts: what a step takes of the card, and "verify" without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lsprotocol import types

from t4lint.devices import Target
from t4lint.fit import Fit
from t4lint.lsp.diagnostics import Documents
from t4lint.lsp.places import lines_after

# commands of the editor's extension
FIT = "t4lint.fit"
VERIFY = "t4lint.verifyPhantom"


def lenses(uri: str, fits: Sequence[Fit], documents: Documents, target: Target) -> Iterator[types.CodeLens]:
    """Of each step that trains in a document, the fullest; one line "verify" with it. Nothing where the target has no GPU."""
    if target.gpu is None:
        return
    card, say = target.gpu.short_name, documents.say
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
        yield types.CodeLens(at, types.Command(summary(fit, card, say), FIT))
        yield types.CodeLens(at, types.Command(say(f"verify on a phantom {card} (runs it)"), VERIFY))


def lenses_after(before: str, lenses: Sequence[types.CodeLens], text: str) -> list[types.CodeLens]:
    """Lenses of a text that has been edited since: where their lines are now; those whose lines changed are left out."""
    moved = lines_after(before, text)
    found = []
    for lens in lenses:
        line = moved(lens.range.start.line)
        if line is not None:
            at = types.Position(line, lens.range.start.character)
            found.append(types.CodeLens(types.Range(at, at), lens.command))
    return found


def summary(fit: Fit, card: str, say: Callable[[str], str] = str) -> str:
    """`about 11.2 of 14.1 GiB on the T4: fits`, or that it is not known."""
    if fit.peak is None:
        return say(f"what fills the {card} is not known: see why")
    return say(f"about {_gib(fit.expected)} of {_gib(fit.limit)} GiB on the {card}: {fit.answer}")


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f}"
