"""From paths to findings: documents, runs, traces, rules."""

from __future__ import annotations

import gc
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from t4lint.engine.discovery import is_source, text_of
from t4lint.engine.environment import check_environment
from t4lint.engine.finding import about, finding_from
from t4lint.engine.options import Options, chosen_by, everywhere, near
from t4lint.engine.reporting import early_report, report
from t4lint.engine.session import Helpers, Session, Step, on_a_gpu
from t4lint.findings import Problem, Report
from t4lint.ruleset import UnknownRule, rules, select
from t4lint.sources import disk
from t4lint.sources.document import Document
from t4lint.sources.files import display_path

__all__ = [
    "Helpers", "Options", "Session", "Step", "UnknownRule", "about", "check", "check_command", "check_with_fixes",
    "chosen_by", "everywhere", "finding_from", "is_source", "near", "on_a_gpu", "recheck", "report", "rules", "select",
    "text_of",
]  # fmt: skip


Early = Callable[[Report], None]
"""Is given the findings of each group of scripts once it is done, the groups in the order of their paths."""


def check(
    paths: Sequence[Path], options: Options, helpers: Helpers | None = None, early: Early | None = None
) -> Report:
    """Lint files and folders, alone or with helpers. Nothing of the user's is imported or run.

    The report is the same with any helpers and with none, and so is what `early` is given, where the check takes long.
    """
    session = Session(options)
    with rare_collections():
        files = session.collect(paths)
        order = session.ordered(files)
        parts = session.parts(order)
        made = map(session.check_part, parts) if helpers is None else helpers.check(session, paths, parts)
        if early is not None and helpers is not None and helpers.takes_long(session, parts):
            made = told(session, parts, made, early)
        session.take(order, made)
        check_environment(session, files)
        return report(session, files)


def told(
    session: Session, parts: Sequence[Sequence[Path]], made: Iterable[list[Step]], early: Early
) -> Iterator[list[Step]]:
    """What the parts give, which `early` is told on the way."""
    for part, steps in zip(parts, made, strict=True):
        if any(step.found for step in steps):
            early(early_report(session, part, steps))
        yield steps


# Objects more than those freed, from which on the collector looks for cycles: a syntax tree of 1,000 lines has about as many.
COLLECT_AFTER = 100_000


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage more rarely. Trees and values live until the end, and looking through them costs a fifth of the time."""
    before = gc.get_threshold()
    if 0 < before[0] < COLLECT_AFTER:
        gc.set_threshold(COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def check_command(argv: Sequence[str], options: Options) -> Report:
    """Lint exactly the run that a command starts."""
    from t4lint.sources.shell import launches

    text = shlex.join(argv) + "\n"
    document = Document("<command line>", options.cwd / "<command line>", "shell", text)
    session = Session(options)
    session.sources[document.path] = text
    started = [launch for launch in launches(document, options.cwd) if launch.file is not None]
    if not started:
        problem = Problem(document.path, f"no Python script to follow in this command: {text.strip()}")
        return replace(report(session, []), problems=(problem,))
    launch = started[0]
    assert launch.file is not None
    file = disk.real(launch.file)
    session.shown = {display_path(file, options.cwd), document.path}
    session.run(file, on_a_gpu(launch))  # it may have to run without one here; it is asked what the target does
    return report(session, [file])


def check_with_fixes(paths: Sequence[Path], options: Options, helpers: Helpers | None = None) -> Report:
    """Lint, and offer the fixes that help, each of them tried."""
    from t4lint.fix.loop import prove

    report = check(paths, replace(options, fixes=True), helpers)
    return prove(report, partial(recheck, paths, options), lambda path: text_of(path, options, report.sources))


def recheck(
    paths: Sequence[Path], options: Options, texts: Mapping[str, str], scripts: Sequence[str] | None = None
) -> Report:
    """Lint with other texts in the place of some files; with names of scripts only the runs of those."""
    options = replace(options, texts={**options.texts, **texts}, fixes=scripts is None)
    if scripts is None:
        return check(paths, options)
    session = Session(options)
    files = session.collect(paths)
    for script in scripts:
        session.check_script(options.cwd / script)
    return report(session, files)
