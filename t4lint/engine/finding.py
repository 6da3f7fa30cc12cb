"""From a rule's candidate to a finding."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from t4lint.devices import Target
from t4lint.findings import Finding, Related, text_at
from t4lint.rule import CONFIDENCES, SEVERITIES, Candidate, Confidence, Rule, Severity
from t4lint.trace import Location, Origin, Value

if TYPE_CHECKING:
    pass


def place_of(candidate: Candidate) -> Location:
    """Where a finding lands: the first place in the origins of the blamed value, else the event's own statement."""
    if candidate.blame is not None:
        for origin in candidate.blame.origins:
            if origin.location is not None:
                return origin.location
    return candidate.event.where


def finding_from(
    rule: Rule,
    candidate: Candidate,
    confidence: Confidence,
    runs: tuple[int, ...] = (),
    sources: Mapping[str, str] | None = None,
    target: Target | None = None,
    presumption: str = "",
) -> Finding:
    """The finding that a candidate stands for. An error that is not certain is shown as a warning.

    Messages say "T4"; where the program is meant for another GPU its name stands there.
    """
    severity: Severity = candidate.severity or rule.severity
    if severity == "error" and confidence != "certain":
        severity = "warning"
    location = place_of(candidate)
    words = {name: said(word) for name, word in candidate.words.items()}
    provenance = candidate.blame.origins if candidate.blame is not None else ()
    related = [
        Related(event.where, type(event).__name__.lower())
        for event in candidate.related
        if event.where != candidate.event.where
    ]
    if candidate.event.where.path != location.path or not inside(location, candidate.event.where):
        related.insert(0, Related(candidate.event.where, "takes effect here"))
    return Finding(
        rule=rule.name,
        severity=severity,
        confidence=confidence,
        location=location,
        message=about(rule.message, target).format(**words),
        help=about(rule.help, target).format(**words) if "{" in rule.help else about(rule.help, target),
        provenance=unique(provenance),
        related=tuple(related),
        runs=runs,
        keys=(candidate.event.key,),
        fix_safety=rule.fix,
        fingerprint=fingerprint(rule.name, location, sources or {}),
        presumption=presumption,
    )


def about(text: str, target: Target | None) -> str:
    """A text about the T4 as one about the GPU of a target."""
    gpu = target.gpu if target is not None else None
    if gpu is not None and gpu.share < 1 and "GiB" in text:  # what a whole one has is another number
        text = re.sub(r"\b([Aa])n? T4\b", lambda found: f"{_capital(gpu.part, found[1])} a T4", text)
    if gpu is None or gpu.short_name == "T4" or "T4" not in text:
        return text
    article = "an" if gpu.short_name[0] in "AHLR" else "a"  # as the letter is spoken
    text = re.sub(r"\b([Aa])n? T4\b", lambda found: f"{found[1]}{article[1:]} {gpu.short_name}", text)
    return re.sub(r"\bT4(s?)\b", rf"{gpu.short_name}\1", text)


def _capital(words: str, like: str) -> str:
    return words[:1].upper() + words[1:] if like.isupper() else words


def said(word: object) -> object:
    """A named value as text in a message."""
    if isinstance(word, Value):
        return word.it if word.known else "an unknown value"
    return word


def unique(origins: Sequence[Origin]) -> tuple[Origin, ...]:
    return tuple(dict.fromkeys(origins))


def inside(location: Location, where: Location) -> bool:
    return where.line <= location.line <= where.end_line


def fingerprint(rule: str, location: Location, sources: Mapping[str, str]) -> str:
    """Stable when lines move or are indented anew: the rule, the file and the words of the line."""
    source, where = text_at(sources, location) or ("", location)
    lines = source.splitlines()
    text = " ".join(lines[where.line - 1].split()) if where.line <= len(lines) else ""
    return blake2b(f"{rule}\0{location.path}\0{text}".encode("utf-8", "replace"), digest_size=16).hexdigest()


def numbered(findings: Sequence[Finding], sources: Mapping[str, str]) -> list[Finding]:
    """The findings with fingerprints that also tell equal lines of a file apart, by their order."""
    seen: Counter[str] = Counter()
    found = []
    for finding in findings:
        plain = fingerprint(finding.rule, finding.location, sources)
        number = seen[plain]
        seen[plain] += 1
        text = f"{plain}\0{number}".encode()
        found.append(replace(finding, fingerprint=blake2b(text, digest_size=16).hexdigest() if number else plain))
    return found


def merged(one: Finding, other: Finding) -> Finding:
    """The same fault seen twice: the surer judgement stands, with the runs and events of both."""
    better = max((one, other), key=lambda f: (CONFIDENCES.index(f.confidence), SEVERITIES.index(f.severity)))
    return replace(
        better,
        runs=tuple(dict.fromkeys(one.runs + other.runs)),
        keys=tuple(dict.fromkeys(one.keys + other.keys)),
    )
