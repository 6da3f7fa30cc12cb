"""Hovers and inlay hints: the page of a rule on its squiggle, the value of a setting and where it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from lsprotocol import types

from t4lint.interpret.heard import Argument
from t4lint.language import ENGLISH, phrase
from t4lint.lsp.diagnostics import Documents, Shown
from t4lint.lsp.places import contains, lines_after, smallest, touch
from t4lint.trace import Location, Origin, Value

WIDTH = 80  # characters of a value
MAX_VALUES = 4  # of one argument, over all runs


def hover(
    position: types.Position, uri: str, shown: Sequence[Shown], arguments: Sequence[Argument], documents: Documents
) -> types.Hover | None:
    """What there is to say about a place: the values of the innermost argument there, then pages of rules."""
    parts: list[str] = []
    ranges: list[types.Range] = []
    here = [(argument, range_) for argument, range_ in _in(uri, arguments, documents) if contains(range_, position)]
    around = smallest([range_ for _, range_ in here]) if here else None
    inner = [argument for argument, range_ in here if range_ == around]
    if around is not None and not all(map(_is_literal, inner)):  # a value that stands there needs no words
        ranges.append(around)
        parts.append(_settings(inner, documents))
    for one in shown:
        if one.uri == uri and contains(one.diagnostic.range, position):
            rule = one.finding.rule
            parts.append(page(rule, documents.language) or rule)
            ranges.append(one.diagnostic.range)
    if not parts:
        return None
    text = "\n\n---\n\n".join(dict.fromkeys(parts))
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text), smallest(ranges))


def hints(
    range_: types.Range, uri: str, arguments: Sequence[Argument], documents: Documents
) -> Iterator[types.InlayHint]:
    """The values of arguments that are not written as they are, behind each."""
    found = [(argument, at) for argument, at in _in(uri, arguments, documents) if touch(at, range_)]
    for end, group in groupby(sorted(found, key=lambda it: it[1].end), key=lambda it: it[1].end):
        values = [argument.value for argument, _ in group if not _is_literal(argument)]
        texts = list(dict.fromkeys(_shown(value) for value in values if value.known))
        if texts and len(texts) <= MAX_VALUES:
            label = f" = {documents.say(' or ').join(texts)}"
            steps = (line for value in values for line in _steps(value.origins, documents))
            tooltip = "\n".join(dict.fromkeys(steps))
            yield types.InlayHint(end, label, kind=types.InlayHintKind.Parameter, tooltip=tooltip or None)


def hints_after(before: str, hints: Sequence[types.InlayHint], text: str) -> list[types.InlayHint]:
    """Hints of a text that has been edited since, where their lines are now."""
    moved = lines_after(before, text)
    found = []
    for hint in hints:
        line = moved(hint.position.line)
        if line is not None:
            at = types.Position(line, hint.position.character)
            found.append(types.InlayHint(at, hint.label, kind=hint.kind, tooltip=hint.tooltip))
    return found


def page(rule: str, language: str = ENGLISH) -> str | None:
    """The page of a rule, as Markdown."""
    from t4lint.report.page import explain
    from t4lint.ruleset import rules
    from t4lint.suppress import UNUSED

    return next((explain(it, language) for it in (*rules(), UNUSED) if it.name == rule), None)


def _in(uri: str, arguments: Sequence[Argument], documents: Documents) -> Iterator[tuple[Argument, types.Range]]:
    """The arguments in a document, with the ranges of all that is written of them."""
    for argument in arguments:
        spot = documents.spot(argument.around)
        if spot is not None and spot.uri == uri:
            yield argument, spot.range


def _settings(arguments: Sequence[Argument], documents: Documents) -> str:
    """The values of one argument over the runs that were looked at."""
    first = arguments[0]
    say = documents.say
    lines = [say(f"`{first.name}` of `{first.function}` in a run:"), ""]
    for argument in arguments[:MAX_VALUES]:
        value = argument.value
        said = f"`{_shown(value)}`" if value.known else say(f"not known: {value.unknown}")
        lines.append(f"* {said}{say(' (presumed)') if value.likely else ''}")
        lines += [f"    * {step}" for step in _steps(value.origins, documents) if not _is_literal(argument)]
    if len(arguments) > MAX_VALUES:
        lines.append("* " + say(f"and {len(arguments) - MAX_VALUES} more"))
    return "\n".join(lines)


def _steps(origins: Sequence[Origin], documents: Documents) -> list[str]:
    """The provenance of a value, from where a person would edit it."""
    notes = [(phrase(it.note, documents.language, "origin"), it.location) for it in origins]
    return [f"{note} ({location.path}:{location.line})" if location else note for note, location in notes]


def _is_literal(argument: Argument) -> bool:
    """Is the value what stands there?"""
    first = next((it for it in argument.value.origins), None)
    return first is not None and first.how == "literal" and _same(first.location, argument.where)


def _same(one: Location | None, other: Location) -> bool:
    return one is not None and (one.path, one.line, one.column) == (other.path, other.line, other.column)


def _shown(value: Value) -> str:
    text = repr(value.it)
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."
