"""Fixes are tried before they are believed: the edited text is linted, and must be better for it."""

from __future__ import annotations

import difflib
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from t4lint.findings import Finding, Report, TextEdit
from t4lint.fix.text import NoPlace, edited, overlap, surface

MAX_ROUNDS = 10

Texts = Mapping[str, str]  # by path as shown
Check = Callable[[Texts, Sequence[str] | None], Report]
"""Lint with some texts in the place of files; with names of scripts only the runs of those."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What fixing leads to: the texts before and after of the files that change, and what was fixed."""

    before: Texts
    after: Texts
    fixed: tuple[Finding, ...]


def apply(
    report: Report, check: Check, text_of: Callable[[str], str | None], wanted: Callable[[Finding], bool]
) -> Outcome:
    """Apply the wanted fixes round by round until there are no more; those that do not help are left out."""
    work = _Work(report, check, text_of)
    for _ in range(MAX_ROUNDS):
        group = _without_conflicts(work.todo(wanted))
        if not group:
            break
        work.take(work.best_of(group))
    return work.outcome()


def prove(report: Report, check: Check, text_of: Callable[[str], str | None]) -> Report:
    """The report with only those fixes that help, each tried by itself, on the runs that its finding is about."""
    return replace(report, findings=tuple(_proven(finding, report, check, text_of) for finding in report.findings))


def diff(outcome: Outcome) -> str:
    """What fixing changes, as a unified diff."""
    return "".join(
        part for path in sorted(outcome.after) for part in _diff(path, outcome.before[path], outcome.after[path])
    )


# --- rounds ------------------------------------------------------------------------------------------------------


class _Work:
    """The state between rounds."""

    def __init__(self, report: Report, check: Check, text_of: Callable[[str], str | None]) -> None:
        self.report = report
        self.check = check
        self.text_of = text_of
        self.texts: dict[str, str] = {}
        self.originals: dict[str, str] = {}
        self.fixed: list[Finding] = []
        self.useless: set[str] = set()  # fingerprints of findings whose fix did not help

    def todo(self, wanted: Callable[[Finding], bool]) -> list[Finding]:
        return [
            finding
            for finding in self.report.findings
            if finding.fix is not None and finding.fingerprint not in self.useless and wanted(finding)
        ]

    def best_of(self, group: list[Finding]) -> list[Finding]:
        """All of a group, mostly; else those that help by themselves, which is quick to see; else what halving leaves."""
        if self.attempt(group) is not None:
            return group
        alone = [finding for finding in group if _helps(finding, self.report, self.check, self.text, self.texts)]
        self.useless |= {finding.fingerprint for finding in group if finding not in alone}
        return self.that_help(alone)

    def that_help(self, group: list[Finding]) -> list[Finding]:
        """The largest part of a group, found by halving, that helps as a whole."""
        if not group or self.attempt(group) is not None:
            return group
        if len(group) == 1:
            self.useless.add(group[0].fingerprint)
            return []
        middle = len(group) // 2
        left, right = self.that_help(group[:middle]), self.that_help(group[middle:])
        both = [*left, *right]
        return both if not left or not right or self.attempt(both) is not None else left

    def attempt(self, group: Sequence[Finding]) -> tuple[dict[str, str], Report] | None:
        """The texts and the report after a group of fixes; None when it is not better."""
        changed = _changed(group, self.text)
        if changed is None or not all(_sound(path, self.text(path) or "", text) for path, text in changed.items()):
            return None
        texts = {**self.texts, **changed}
        report = self.check(texts, None)
        return (texts, report) if _better(self.report, report, group) else None

    def text(self, path: str) -> str | None:
        return self.texts[path] if path in self.texts else self.text_of(path)

    def take(self, group: list[Finding]) -> None:
        done = self.attempt(group) if group else None
        if done is None:
            return
        for path in done[0].keys() - self.originals.keys():
            self.originals[path] = self.text_of(path) or ""
        self.texts, self.report = done
        self.fixed += group

    def outcome(self) -> Outcome:
        changed = {path: text for path, text in self.texts.items() if text != self.originals[path]}
        return Outcome({path: self.originals[path] for path in changed}, changed, tuple(self.fixed))


def _without_conflicts(findings: Iterable[Finding]) -> list[Finding]:
    """Of fixes that want to change the same text the first by position stays."""
    chosen: list[Finding] = []
    for finding in sorted(findings, key=lambda it: min((e.path, e.start) for e in _edits(it))):
        if not any(overlap(_edits(finding), _edits(other)) for other in chosen):
            chosen.append(finding)
    return chosen


def _edits(finding: Finding) -> tuple[TextEdit, ...]:
    return finding.fix.edits if finding.fix is not None else ()


def _changed(findings: Iterable[Finding], text_of: Callable[[str], str | None]) -> dict[str, str] | None:
    """The texts after the fixes of some findings."""
    edits = {edit for finding in findings for edit in _edits(finding)}
    changed: dict[str, str] = {}
    for path in sorted({edit.path for edit in edits}):
        text = text_of(path)
        if text is None:
            return None
        try:
            changed[path] = edited(text, (edit for edit in edits if edit.path == path))
        except NoPlace:
            return None
    return changed


# --- is it better? -----------------------------------------------------------------------------------------------


def _proven(finding: Finding, report: Report, check: Check, text_of: Callable[[str], str | None]) -> Finding:
    helps = finding.fix is not None and _helps(finding, report, check, text_of, {})
    return finding if helps else replace(finding, fix=None)


def _helps(finding: Finding, report: Report, check: Check, text_of: Callable[[str], str | None], texts: Texts) -> bool:
    """Does a fix help by itself, in the runs that its finding is about? `texts` are in force already."""
    changed = _changed([finding], text_of)
    if changed is None or not all(_sound(path, text_of(path) or "", text) for path, text in changed.items()):
        return False
    if not finding.runs:  # about a comment: no run sees it
        return True
    scripts = list(dict.fromkeys(report.runs[index].script for index in finding.runs))
    seen = [it for it in report.findings if any(report.runs[index].script in scripts for index in it.runs)]
    return _better(replace(report, findings=tuple(seen)), check({**texts, **changed}, scripts), [finding])


def _better(before: Report, after: Report, fixed: Sequence[Finding]) -> bool:
    """The findings are gone, nothing that matters has come, and nothing keeps t4lint from reading the files."""
    if len(after.problems) > len(before.problems):
        return False
    old, new = _count(before.findings), _count(after.findings)
    for key, gone in _count(fixed).items():
        if new[key] > old[key] - gone:
            return False
    old, new = (_count(f for f in report.findings if f.severity != "note") for report in (before, after))
    return all(new[key] <= old[key] for key in new)


def _count(findings: Iterable[Finding]) -> Counter[tuple[str, str]]:
    return Counter((finding.rule, finding.location.path) for finding in findings)


def _sound(path: str, before: str, after: str) -> bool:
    """What could be parsed still can. Python is asked too: libcst lets a repeated argument pass."""
    if surface(path, before) == "shell":
        return _shell_parses(after) or not _shell_parses(before)
    return _python_compiles(after) or not _python_compiles(before)


def _python_compiles(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<fixed>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return False
    return True


def _shell_parses(text: str) -> bool:
    from t4lint.sources.shell import _parser

    return not _parser().parse(text.encode("utf-8", "replace")).root_node.has_error


# --- diff --------------------------------------------------------------------------------------------------------


def _diff(path: str, before: str, after: str) -> Iterable[str]:
    for line in difflib.unified_diff(_lines(before), _lines(after), path, path):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)
