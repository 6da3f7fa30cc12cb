"""Fixes are tried before they are believed: the edited text is linted, and must be better for it."""

from __future__ import annotations

import difflib
import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from t4lint.findings import Finding, Report, TextEdit
from t4lint.fix.text import NoPlace, edited, kind_of, overlap
from t4lint.rule import SEVERITIES, Severity

MAX_ROUNDS = 10

Texts = Mapping[str, str]  # by path as shown
Attempt = tuple[dict[str, str], Report]  # texts that were tried, and what is said of them
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
        work.fix(group)
    return work.outcome()


Answer = Literal["fix", "skip", "ignore", "quit"]


def ask(
    report: Report,
    check: Check,
    text_of: Callable[[str], str | None],
    wanted: Callable[[Finding], bool],
    choose: Callable[[Finding, str], Answer],
    ignored: Callable[[Report, Finding, Callable[[str], str | None]], Texts],
) -> Outcome:
    """Let somebody choose for each fix that helps, seeing the finding and the diff. `ignored` gives the texts with a comment."""
    work = _Work(report, check, text_of)
    asked: set[str] = set()
    while finding := next((it for it in work.todo(wanted) if it.fingerprint not in asked), None):
        asked.add(finding.fingerprint)
        done = work.attempt([finding])
        if done is None:
            continue
        texts = {path: text for path, text in done[0].items() if text != work.text(path)}
        answer = choose(finding, diff(Outcome({path: work.text(path) or "" for path in texts}, texts, ())))
        if answer == "quit":
            break
        if answer == "fix":
            work.accept(done, [finding])
        elif answer == "ignore":
            texts = {**work.texts, **ignored(work.report, finding, work.text)}
            work.accept((texts, check(texts, None)), [])
    return work.outcome()


def prove(
    report: Report,
    check: Check,
    text_of: Callable[[str], str | None],
    wanted: Callable[[Finding], bool] = lambda finding: True,
) -> Report:
    """The report with only those fixes that help: tried together, and where that fails each by itself.

    Findings that are not wanted keep theirs untried.
    """
    work = _Work(report, check, text_of)
    left = work.todo(wanted)
    tried = {finding.fingerprint for finding in left}
    helps: set[str] = set()
    while group := _without_conflicts(left):
        left = [finding for finding in left if finding not in group]
        if len(group) == 1 or work.attempt(group) is None:  # one is tried on the runs that it is about: that is quick
            group = _helpful(group, report, check, text_of, {})
        helps |= {finding.fingerprint for finding in group}
    useless = tried - helps
    findings = (replace(it, fix=None) if it.fingerprint in useless else it for it in report.findings)
    return replace(report, findings=tuple(findings))


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

    def fix(self, group: list[Finding]) -> None:
        """All of a group, mostly; else those that help by themselves, which is quick to see; else what halving leaves."""
        done = self.attempt(group)
        if done is None:
            alone = _helpful(group, self.report, self.check, self.text, self.texts)
            self.useless |= {finding.fingerprint for finding in group if finding not in alone}
            group, done = self.that_help(alone)
        if done is not None:
            self.accept(done, group)

    def that_help(self, group: list[Finding]) -> tuple[list[Finding], Attempt | None]:
        """The largest part of a group, found by halving, that helps as a whole."""
        done = self.attempt(group) if group else None
        if done is not None or not group:
            return group, done
        if len(group) == 1:
            self.useless.add(group[0].fingerprint)
            return [], None
        middle = len(group) // 2
        left, right = self.that_help(group[:middle]), self.that_help(group[middle:])
        if not left[0] or not right[0]:
            return left if left[0] else right
        both = [*left[0], *right[0]]
        done = self.attempt(both)
        return left if done is None else (both, done)

    def attempt(self, group: Sequence[Finding]) -> Attempt | None:
        """The texts and the report after a group of fixes; None when it is not better."""
        changed = texts_after(group, self.text)
        if changed is None or not all(_sound(path, self.text(path) or "", text) for path, text in changed.items()):
            return None
        texts = {**self.texts, **changed}
        report = self.check(texts, None)
        return (texts, report) if _better(self.report, report, group) else None

    def text(self, path: str) -> str | None:
        return self.texts[path] if path in self.texts else self.text_of(path)

    def accept(self, done: Attempt, group: Sequence[Finding]) -> None:
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


def texts_after(findings: Iterable[Finding], text_of: Callable[[str], str | None]) -> dict[str, str] | None:
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


def _helpful(
    group: Sequence[Finding], report: Report, check: Check, text_of: Callable[[str], str | None], texts: Texts
) -> list[Finding]:
    """The findings whose fix helps by itself. Findings with the same edits (launches of one script) have one fix."""
    same: dict[tuple[TextEdit, ...], list[Finding]] = {}
    for finding in group:
        same.setdefault(_edits(finding), []).append(finding)
    helped = [it.fingerprint for alike in same.values() if _helps(alike, report, check, text_of, texts) for it in alike]
    return [finding for finding in group if finding.fingerprint in helped]


def _helps(
    alike: Sequence[Finding], report: Report, check: Check, text_of: Callable[[str], str | None], texts: Texts
) -> bool:
    """Does the fix of findings that have one help by itself, in the runs that they are about? `texts` are in force already."""
    changed = texts_after(alike[:1], text_of)
    if changed is None or not all(_sound(path, text_of(path) or "", text) for path, text in changed.items()):
        return False
    scripts = list(dict.fromkeys(report.runs[index].script for finding in alike for index in finding.runs))
    if not scripts:  # about a comment: no run sees it
        return True
    seen = [it for it in report.findings if any(report.runs[index].script in scripts for index in it.runs)]
    return _better(replace(report, findings=tuple(seen)), check({**texts, **changed}, scripts), alike)


def _better(before: Report, after: Report, fixed: Sequence[Finding]) -> bool:
    """The findings are gone or milder, nothing that matters has come, and nothing keeps t4lint from reading the files."""
    if len(after.problems) > len(before.problems):
        return False
    for severity in {finding.severity for finding in fixed}:
        grave = [_count(_as_grave(findings, severity)) for findings in (before.findings, after.findings, fixed)]
        if any(grave[1][key] > grave[0][key] - gone for key, gone in grave[2].items()):
            return False
    old, new = (_count(f for f in report.findings if f.severity != "note") for report in (before, after))
    return all(new[key] <= old[key] for key in new)


def _as_grave(findings: Iterable[Finding], severity: Severity) -> Iterator[Finding]:
    return (finding for finding in findings if SEVERITIES.index(finding.severity) >= SEVERITIES.index(severity))


def _count(findings: Iterable[Finding]) -> Counter[tuple[str, str]]:
    return Counter((finding.rule, finding.location.path) for finding in findings)


def _sound(path: str, before: str, after: str) -> bool:
    """What could be parsed still can. Python is asked too: libcst lets a repeated argument pass."""
    parses = _PARSES.get(kind_of(path, before))
    return parses is None or parses(after) or not parses(before)


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


def _yaml_parses(text: str) -> bool:
    import yaml

    try:
        return all(True for _ in yaml.compose_all(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError, ValueError):
        return False


def _json_parses(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _notebook_parses(text: str) -> bool:
    """Is it JSON, and is each of its code cells Python?"""
    from t4lint.findings import Problem
    from t4lint.sources.notebook import notebook_from

    notebook = notebook_from(text, Path("a.ipynb"), "a.ipynb") if _json_parses(text) else None
    return notebook is not None and not isinstance(notebook, Problem) and not notebook.problems


_PARSES: dict[str, Callable[[str], bool]] = {
    "python": _python_compiles,
    "shell": _shell_parses,
    "yaml": _yaml_parses,
    "json": _json_parses,
    "notebook": _notebook_parses,
}

# --- diff --------------------------------------------------------------------------------------------------------


def _diff(path: str, before: str, after: str) -> Iterable[str]:
    for line in difflib.unified_diff(_lines(before), _lines(after), path, path):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)
