"""Findings as diagnostics: squiggles, with the provenance chain as related places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from lsprotocol import types
from pygls.workspace import PositionCodec

from t4lint.findings import Finding, Problem
from t4lint.language import ENGLISH, phrase, told, translated
from t4lint.lsp.buffers import Buffer, uri_of
from t4lint.lsp.places import Places
from t4lint.lsp.results import Results
from t4lint.report.common import rule_url
from t4lint.report.text import chain
from t4lint.suppress import UNUSED
from t4lint.trace import Location

SOURCE = "t4lint"
SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A finding as the editor shows it: in the document `uri` (a file, or a cell)."""

    uri: str
    finding: Finding
    diagnostic: types.Diagnostic


class Documents:
    """The texts that diagnostics are about, and their places in the editor's units."""

    def __init__(
        self, results: Results, buffers: Mapping[Path, Buffer], codec: PositionCodec, language: str = ENGLISH
    ) -> None:
        self.results = results
        self.language = language
        self.buffers = buffers
        self.codec = codec
        self._places: dict[str, Places] = {}

    def say(self, text: str) -> str:
        """A label or sentence in the language of the editor."""
        return phrase(text, self.language, "editor")

    def spot(self, location: Location) -> types.Location | None:
        """Where a location is in the editor; None where its text cannot be had."""
        path = self.results.file_of(location.path)
        buffer = self.buffers.get(path)
        if buffer is not None and buffer.is_notebook:
            if location.cell is None or location.cell >= len(buffer.cells):
                return None
            cell = buffer.cells[location.cell]
            return types.Location(cell.uri, self._of(cell.uri, cell.text).of(location))
        text = buffer.text if buffer is not None else self.results.text_of(location.path)
        if text is None:
            return None
        uri = uri_of(path, self.buffers)
        physical = Location(location.path, location.line, location.column, location.end_line, location.end_column)
        return types.Location(uri, self._of(uri, text).of(physical))

    def _of(self, uri: str, text: str) -> Places:
        if uri not in self._places:
            self._places[uri] = Places(text, self.codec)
        return self._places[uri]


def shown(results: Results, documents: Documents) -> list[Shown]:
    """All findings of a check with their diagnostics, those of the baseline as hints."""
    spoken = translated(results.report, documents.language)
    found = list(_shown(results.report.findings, spoken.findings, documents, None))
    pairs = zip(results.report.suppressed, spoken.suppressed, strict=True)
    hidden = [pair for pair in pairs if pair[0].suppressed and pair[0].suppressed.kind == "baseline"]
    hints = _shown([it for it, _ in hidden], [said for _, said in hidden], documents, types.DiagnosticSeverity.Hint)
    return [*found, *hints]


def problem_diagnostics(results: Results, documents: Documents) -> list[tuple[str, types.Diagnostic]]:
    """What kept the check from being done, at its place; what has none stands at the top of the document."""
    made = []
    for problem in results.problems:
        where = documents.spot(_place(problem)) if problem.path else None
        spot = where or documents.spot(Location(results.shown, 1, 1, 1, 1))
        if spot is not None:
            said = told(problem.message, documents.language, "problem")
            message = said if where else f"{problem.path}: {said}".removeprefix(": ")
            made.append(
                (spot.uri, types.Diagnostic(spot.range, message, types.DiagnosticSeverity.Warning, source=SOURCE))
            )
    return made


@lru_cache
def page_url(rule: str, language: str = ENGLISH) -> str | None:
    """The address of a rule's page."""
    from t4lint.ruleset import rules

    return next((rule_url(it, language) for it in rules() if it.name == rule), None)


def _shown(
    findings: Sequence[Finding],
    spoken: Sequence[Finding],
    documents: Documents,
    severity: types.DiagnosticSeverity | None,
) -> Iterator[Shown]:
    """`spoken` are the same findings in the language of the editor."""
    for finding, said in zip(findings, spoken, strict=True):
        spot = documents.spot(finding.location)
        if spot is not None:
            yield Shown(spot.uri, finding, _diagnostic(said, spot.range, documents, severity))


def _diagnostic(
    finding: Finding, range_: types.Range, documents: Documents, severity: types.DiagnosticSeverity | None
) -> types.Diagnostic:
    url = page_url(finding.rule, documents.language)
    accepted = documents.say(" (accepted in the baseline)") if severity is not None else ""
    return types.Diagnostic(
        range=range_,
        message=f"{finding.message}{accepted}" + (f"\n{finding.help}" if finding.help else ""),
        severity=severity or SEVERITIES[finding.severity],
        code=finding.rule,
        code_description=types.CodeDescription(url) if url else None,
        source=SOURCE,
        tags=[types.DiagnosticTag.Unnecessary] if finding.rule == UNUSED.name else None,
        related_information=list(_related(finding, documents.spot)) or None,
        data={"fingerprint": finding.fingerprint},
    )


def _related(
    finding: Finding, spot: Callable[[Location], types.Location | None]
) -> Iterator[types.DiagnosticRelatedInformation]:
    steps = [(origin.location, origin.note) for origin in chain(finding) if origin.location is not None]
    steps += [(related.location, related.note) for related in finding.related]
    for location, note in steps:
        where = spot(location) if location != finding.location else None
        if where is not None:
            yield types.DiagnosticRelatedInformation(where, note)


def _place(problem: Problem) -> Location:
    line, column = problem.line or 1, problem.column or 1
    return Location(problem.path, line, column, line, column + 1 if problem.column else 1_000)
