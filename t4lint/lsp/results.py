"""The findings of open documents: the engine with buffers over files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t4lint import baseline
from t4lint.asked import Asked, Flags
from t4lint.devices import UnknownTarget, find_target
from t4lint.engine import Options, check, recheck, text_of
from t4lint.engine.options import near
from t4lint.findings import Finding, Problem, Report
from t4lint.fit import Fit, fit
from t4lint.fix.loop import apply, prove
from t4lint.lsp.buffers import is_foreign
from t4lint.rule import CONFIDENCES, Confidence
from t4lint.ruleset import BadOption, BadRules, UnknownRule
from t4lint.settings import Nearest
from t4lint.sources.files import display_path
from t4lint.trace import Location

if TYPE_CHECKING:
    from t4lint.interpret.heard import Argument

MAX_ARGUMENTS = 20_000  # of one document that are kept for hovers


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the editor's own settings ask for; empty values leave the project's settings in force."""

    target: str = ""
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    min_confidence: Confidence | None = None
    baseline: str = ""
    inlay_hints: bool = False
    code_lens: bool = True

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Wishes:
        """From the editor's JSON; what is of another type than expected is left at its default."""

        def names(key: str) -> tuple[str, ...]:
            value = given.get(key)
            return tuple(it for it in value if isinstance(it, str)) if isinstance(value, list) else ()

        def text(key: str) -> str:
            value = given.get(key)
            return value if isinstance(value, str) else ""

        confidence = given.get("minConfidence")
        return cls(
            target=text("target"),
            select=names("select"),
            ignore=names("ignore"),
            extend_select=names("extendSelect"),
            min_confidence=confidence if confidence in CONFIDENCES else None,
            baseline=text("baseline"),
            inlay_hints=given.get("inlayHints") is True,
            code_lens=given.get("codeLens") is not False,
        )

    def flags(self) -> Flags:
        """The same, as on a command line."""
        return Flags(self.target or None, self.select, self.ignore, self.extend_select, self.min_confidence)


@dataclass(frozen=True, slots=True)
class Results:
    """What was found for one document. Paths of `report` are relative to `options.cwd`.

    `problems` are those of the whole check, settings included; `arguments` are what its runs give to libraries, for hovers.
    """

    path: Path
    options: Options
    report: Report
    arguments: tuple[Argument, ...] = ()

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self.report.problems

    def file_of(self, shown: str) -> Path:
        """The path of a file as shown."""
        return self.options.cwd / shown

    def text_of(self, shown: str) -> str | None:
        return text_of(shown, self.options, self.report.sources)

    @property
    def shown(self) -> str:
        """The path of the document as shown."""
        return display_path(self.path, self.options.cwd)

    @property
    def broken(self) -> bool:
        """Could the document itself not be read: is it half typed?"""
        return any(problem.path == self.shown for problem in self.problems)


@dataclass(slots=True)
class Watched:
    """Keeps the arguments that a check comes across."""

    arguments: dict[tuple[Location, str], Argument] = field(default_factory=dict)

    def __call__(self, argument: Argument) -> None:
        if len(self.arguments) < MAX_ARGUMENTS:
            self.arguments.setdefault((argument.around, repr(argument.value)), argument)


def results_of(path: Path, root: Path, texts: Mapping[Path, str], wishes: Wishes, *, fixes: bool = False) -> Results:
    """Lint one document; nothing is said of one that the settings leave out, or that is other people's.

    `root` is what paths are shown relative to; `fixes` takes longer.
    """
    nearest = Nearest()
    base = nearest.loaded(path.parent)
    asked = Asked(wishes.flags(), base, nearest, root)
    watched = Watched()
    shown = {display_path(file, root): text for file, text in texts.items()}
    options = replace(asked.options(), texts=shown, watch=watched)
    if nearest.excludes(path) or is_foreign(path, root):
        return Results(path, options, _nothing(options, ()))
    if base.problems:
        return Results(path, options, _nothing(options, base.problems))
    try:
        report = asked.with_problems(check([path], replace(options, fixes=fixes)))
    except (UnknownRule, UnknownTarget, BadOption, BadRules) as error:
        problems = asked.rule_problems() or (Problem("", str(error)),)
        return Results(path, options, _nothing(options, problems))
    return Results(path, options, _baselined(report, root, wishes), tuple(watched.arguments.values()))


def target_of(path: Path, root: Path, wishes: Wishes) -> str:
    """What a document is checked for."""
    nearest = Nearest()
    return near(Asked(wishes.flags(), nearest.loaded(path.parent), nearest, root).options(), path).target


def fixed(results: Results, findings: tuple[Finding, ...]) -> Mapping[str, str]:
    """The texts, by path as shown, after the fixes of some findings that help; each is tried."""
    wanted = {finding.fingerprint for finding in findings}
    again = partial(recheck, [results.path], replace(results.options, watch=None))
    outcome = apply(results.report, again, results.text_of, lambda finding: finding.fingerprint in wanted)
    return outcome.after


def fits_of(results: Results) -> tuple[Fit, ...]:
    """What the steps of the document's runs take of the card; nothing where the target has no GPU."""
    if find_target(results.options.target).gpu is None:
        return ()
    return fit([results.path], replace(results.options, watch=None)).fits


def with_proof(results: Results, finding: Finding) -> Finding:
    """The finding with its fix, where the fix helps."""
    again = partial(recheck, [results.path], replace(results.options, watch=None))
    report = prove(results.report, again, results.text_of, lambda it: it.fingerprint == finding.fingerprint)
    return next((it for it in report.findings if it.fingerprint == finding.fingerprint), finding)


def _nothing(options: Options, problems: tuple[Problem, ...]) -> Report:
    return Report(target=options.target, findings=(), problems=problems, runs=(), files=0)


def _baselined(report: Report, root: Path, wishes: Wishes) -> Report:
    """The report with the findings of the baseline among its suppressed ones."""
    if not wishes.baseline:
        return report
    try:
        return baseline.hide(report, tuple(baseline.load(root / wishes.baseline)))
    except baseline.BaselineError as error:
        return replace(report, problems=(*report.problems, Problem(wishes.baseline, str(error))))
