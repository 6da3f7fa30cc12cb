"""What the formats for machines share: which findings stand, in what order, where files are, and text that is safe."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t4lint.language import ENGLISH, phrase
from t4lint.report.frame import visible
from t4lint.report.text import chain, sorted_findings
from t4lint.rule import CONFIDENCES, SEVERITIES
from t4lint.sources.paths import below
from t4lint.sources.positions import split_lines

if TYPE_CHECKING:
    from t4lint.findings import Finding, Fix, Report
    from t4lint.rule import Rule
    from t4lint.trace import Origin

HOME = "https://github.com/t4lint/t4lint"
SITE = "https://t4lint.github.io/t4lint"
_SHIPPED = "t4lint.rules."
# Control, invisible and reordering characters above ASCII: JSON itself lets them stand.
_RAW = re.compile("[\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")


# --- findings ----------------------------------------------------------------------------------------------------


def active(report: Report) -> list[Finding]:
    """The findings that stand, in reading order: neither suppressed nor refuted by a run."""
    return [it for it in sorted_findings(report.findings) if it.suppressed is None and not is_refuted(it)]


def by_importance(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first: by severity, then what a run has confirmed, then by confidence, then in reading order."""
    return sorted(sorted_findings(findings), key=_importance)


def _importance(finding: Finding) -> tuple[int, bool, int]:
    confirmed = finding.verdict is not None and finding.verdict.verdict == "confirmed"
    return -SEVERITIES.index(finding.severity), not confirmed, -CONFIDENCES.index(finding.confidence)


def is_refuted(finding: Finding) -> bool:
    """Has a run shown that the finding does not hold?"""
    return finding.verdict is not None and finding.verdict.verdict == "refuted"


def fix_of(finding: Finding) -> Fix | None:
    """The edits that remove a finding, where there are some."""
    return finding.fix if finding.fix is not None and finding.fix.edits else None


def explained(finding: Finding, language: str = ENGLISH) -> str:
    """The message, where the value came from and what to do, for places that show text only."""

    def say(text: str) -> str:
        return phrase(text, language)

    parts = [finding.message, *(f"{say('from')}: {_step(origin)}" for origin in chain(finding))]
    if finding.help:
        parts.append(f"{say('help')}: {finding.help}")
    if finding.verdict is not None:
        said = finding.verdict.evidence or finding.verdict.reason
        parts.append(say(f"{finding.verdict.verdict} on {finding.verdict.basis}") + (f": {said}" if said else ""))
    if finding.effect is not None:
        parts.append(say(f"with the fix: {finding.effect.conclusion}"))
    return "\n".join(lines(part) for part in parts)


def _step(origin: Origin) -> str:
    return f"{origin.note} ({origin.location.path}:{origin.location.line})" if origin.location else origin.note


# --- rules -------------------------------------------------------------------------------------------------------


def rule_url(rule: Rule, language: str = ENGLISH) -> str | None:
    """Where the rule's page can be read, as the site is laid out (mkdocs.yml); nowhere for people's own rules."""
    if not rule.check.__module__.startswith((_SHIPPED, "t4lint.suppress")):
        return None
    return f"{SITE}/{'' if language == ENGLISH else f'{language}/'}rules/{rule.name}.html"


# --- places ------------------------------------------------------------------------------------------------------


def in_repository(path: str) -> str:
    """A path as the root of its repository sees it, which is what GitHub and GitLab want; elsewhere unchanged."""
    folder = Path.cwd()
    root = _root(folder)
    if root is None:
        return path
    return below(Path(os.path.abspath(folder / path)), root) or path  # noqa: PTH100  (links stay)


def _root(folder: Path) -> Path | None:
    """The root of the repository that a folder is in; where there is no `.git`, what the CI names."""
    for parent in (folder, *folder.parents):
        if (parent / ".git").exists():
            return parent
    given = os.environ.get("GITHUB_WORKSPACE") or os.environ.get("CI_PROJECT_DIR")
    return Path(given).resolve() if given else None


def is_outside(path: str) -> bool:
    """Is a path as `in_repository` gives it outside of the repository?"""
    return path == ".." or path.startswith("../") or Path(path).is_absolute()


def source_line(report: Report, path: str, line: int) -> str | None:
    """One line of a file with findings, if its text is known."""
    source = report.sources.get(path)
    found = () if source is None else _lines_of(source)
    return found[line - 1] if 1 <= line <= len(found) else None


@lru_cache(maxsize=16)
def _lines_of(source: str) -> tuple[str, ...]:
    return tuple(split_lines(source))


# --- text --------------------------------------------------------------------------------------------------------


def lines(text: str) -> str:
    """Text of several lines in which nothing can move a cursor or hide."""
    return "\n".join(visible(line) for line in split_lines(text.strip()))


def one_line(text: str) -> str:
    """Text as one line, in which nothing can move a cursor or hide."""
    return " ".join(lines(text).split())


def dumps(value: object, *, indent: int | None = 2) -> str:
    """JSON with a line end. What cannot be encoded or could harm a terminal is spelled out."""
    text = json.dumps(encodable(value), indent=indent, ensure_ascii=False)
    return harmless(text) + "\n"


def harmless(text: str) -> str:
    """JSON in which characters that could harm a terminal are spelled out."""
    return _RAW.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def encodable(value: Any) -> Any:
    """File names may hold bytes that are no text; JSON cannot."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, Mapping):
        return {encodable(key): encodable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encodable(item) for item in value]
    return value
