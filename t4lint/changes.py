"""What the command line does with findings besides showing them: fix, hide, ignore, accept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from t4lint import baseline, suppress
from t4lint.engine import Options, check, chosen_by, everywhere, near, recheck, text_of
from t4lint.findings import Finding, Problem, Report
from t4lint.fix.loop import Answer, Outcome, apply, ask
from t4lint.fix.write import NotWritten
from t4lint.fix.write import write as write_file
from t4lint.rule import Confidence
from t4lint.suppress import UNUSED

Chooser = Callable[[Report, Finding, str], Answer]
"""Asked with the report, the finding and the diff of its fix."""


@dataclass(frozen=True, slots=True)
class OnlyNew:
    """Which findings count: not those of the baseline, and only those on changed lines."""

    file: Path | None
    entries: tuple[baseline.Entry, ...]
    changes: baseline.Changes | None
    cwd: Path
    least: Confidence

    @classmethod
    def read(cls, file: Path | None, reference: str | None, cwd: Path, least: Confidence) -> OnlyNew:
        entries = tuple(baseline.load(file)) if file is not None else ()
        changes = baseline.changed_since(reference, cwd) if reference is not None else None
        return cls(file, entries, changes, cwd, least)

    def of(self, report: Report) -> Report:
        """The report with only the new findings; a baseline loses the entries whose findings are gone."""
        shown = self.chosen(report, {}, {})
        if self.file is not None and baseline.prune(self.file, self.entries, report, self.least, self.cwd):
            print(f"{self.file}: findings that are gone were taken out", file=sys.stderr)
        return shown

    def chosen(self, report: Report, before: Mapping[str, str], after: Mapping[str, str]) -> Report:
        """The same while fixes are tried; `after` are texts that are not on disk yet."""
        report = baseline.hide(report, self.entries) if self.entries else report
        if self.changes is None:
            return report
        kept = tuple(finding for finding in report.findings if self.changes.touch(finding, before, after))
        return replace(report, findings=kept)

    def fixable(self, report: Report, before: Mapping[str, str], after: Mapping[str, str]) -> Report:
        """The whole report, for what is not new without a fix: it is left alone, and yet must not get worse."""
        new = {finding.fingerprint for finding in self.chosen(report, before, after).findings}
        findings = (it if it.fingerprint in new else replace(it, fix=None) for it in report.findings)
        return replace(report, findings=tuple(findings))


@dataclass(frozen=True, slots=True)
class Fixed:
    """What fixing led to; `report` is from before it."""

    outcome: Outcome
    report: Report
    elsewhere: tuple[str, ...]  # files with fixes that were not among the paths

    @property
    def summary(self) -> str:
        return self._said("Fixed")

    @property
    def promise(self) -> str:
        return self._said("Would fix")

    def _said(self, verb: str) -> str:
        count, files = len(self.outcome.fixed), len(self.outcome.after)
        said = f"{verb} {_counted(count, 'finding')} in {_counted(files, 'file')}"
        if self.elsewhere:
            said += f"; there are fixes in {', '.join(self.elsewhere)}, which was not named"
        return said


def checked(paths: Sequence[Path], options: Options) -> Report:
    return check(paths, options)


def fix(
    paths: Sequence[Path], options: Options, only: OnlyNew, *, unsafe: bool, choose: Chooser | None = None
) -> Fixed:
    """Try the fixes of the chosen rules. All default rules watch, so that no fix brings a finding of another rule.

    `choose` is asked for each fix, if it is given, and may also have a comment written.
    """
    watching = replace(options, fixes=True)
    if options.select:
        more = (*options.select, *options.extend_select)
        watching = everywhere(watching, select=(), extend_select=more)
    report = check(paths, watching)
    allowed = ("safe", "unsafe") if unsafe else ("safe",)
    elsewhere: set[str] = set()

    @cache
    def chosen(path: str) -> set[str]:
        return {rule.name for rule in chosen_by(near(options, options.cwd / path))} | {UNUSED.name}

    def wanted(finding: Finding) -> bool:
        if finding.rule not in chosen(finding.location.path) or finding.fix is None:
            return False
        if finding.fix.safety not in allowed:
            return False
        outside = {edit.path for edit in finding.fix.edits} - set(report.checked)
        elsewhere.update(outside)
        return not outside

    def text(path: str) -> str | None:
        return text_of(path, options, report.sources)

    def again(texts: Mapping[str, str], scripts: Sequence[str] | None) -> Report:
        before = {path: text(path) or "" for path in texts}
        return only.fixable(recheck(paths, watching, texts, scripts), before, texts)

    fixable = only.fixable(report, {}, {})
    if choose is None:
        outcome = apply(fixable, again, text, wanted)
    else:
        outcome = ask(fixable, again, text, wanted, partial(choose, report), suppress.with_ignore)
    return Fixed(outcome, report, tuple(sorted(elsewhere)))


def write(done: Fixed, paths: Sequence[Path], options: Options, only: OnlyNew) -> Report:
    """Write the fixed files, and report what remains."""
    problems = _write_all(done.outcome.before, done.outcome.after, options.cwd)
    report = only.of(check(paths, options))
    return replace(report, problems=(*report.problems, *problems))


def remaining(done: Fixed, paths: Sequence[Path], options: Options, only: OnlyNew) -> Report:
    """What remains of text from stdin, which is written nowhere."""
    return only.of(check(paths, replace(options, texts={**options.texts, **done.outcome.after})))


def add_ignores(report: Report, options: Options, reason: str) -> tuple[Problem, ...]:
    """Write a comment for each finding of the report."""
    text = partial(text_of, options=options, sources=report.sources)
    after = {path: new for path, new in suppress.add_ignores(report, text, reason).items() if path in report.checked}
    problems = _write_all({path: text(path) or "" for path in after}, after, options.cwd)
    findings = [finding for finding in report.findings if finding.rule != UNUSED.name]
    left = sorted({it.location.path for it in findings} - after.keys())
    count = sum(finding.location.path in after for finding in findings)
    print(f"Wrote comments for {_counted(count, 'finding')} in {_counted(len(after), 'file')}", file=sys.stderr)
    if left:
        print(
            f"No comment can stand in {', '.join(left)}, or it was not named; --baseline FILE hides findings there too",
            file=sys.stderr,
        )
    return (*report.problems, *problems)


def write_baseline(report: Report, file: Path) -> tuple[Problem, ...]:
    """Write all findings of the report into a baseline."""
    if report.problems:
        return report.problems
    try:
        count = baseline.dump(file, report.findings)
    except NotWritten as error:
        return (Problem(str(file), str(error)),)
    print(f"Wrote {_counted(count, 'finding')} to {file}", file=sys.stderr)
    return ()


def _write_all(before: Mapping[str, str], after: Mapping[str, str], cwd: Path) -> list[Problem]:
    problems = []
    for path in sorted(after):
        try:
            write_file(cwd / path, before[path], after[path])
        except NotWritten as error:
            problems.append(Problem(path, str(error)))
    return problems


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
