"""`t4lint check`: findings of files and folders, kept results, and the flags that change files."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from t4lint.cli.delivery import deliver, exit_code, look, said
from t4lint.cli.inputs import (
    asked_of,
    given_paths,
    not_excluded,
    only_new,
    options_of,
    reported,
    wanted_outputs,
    working_folder,
)
from t4lint.cli.usage import CLEAN, FAILED, FOUND, UsageError, spoken

if TYPE_CHECKING:
    from t4lint.asked import Asked
    from t4lint.cache import Kept
    from t4lint.changes import Chooser, Fixed
    from t4lint.findings import Report
    from t4lint.report.early import Early
    from t4lint.report.outputs import Output
    from t4lint.workers import Workers

FORMATS_WITH_FIXES = ("json", "jsonl", "sarif", "rdjson")


def check_command(args: argparse.Namespace) -> int:
    wanted = wanted_outputs(args.output_format)
    working_folder()
    paths, text = given_paths(args)
    _catch_contradictions(args)
    if args.fix or args.interactive or args.diff or args.add_ignores is not None or args.write_baseline:
        asked = asked_of(args, paths)
        return _change(args, asked, _left(args, asked, paths, text), text, wanted)
    kept = _kept(args, text, wanted)
    known = kept is not None and kept.load()
    if kept is not None and known and _show_kept(args, kept, wanted):
        return kept.code
    report = kept.report() if kept is not None and known else None
    early = _early(args, wanted)
    if report is not None:
        asked = asked_of(args, paths)
    elif kept is not None:
        asked, report = _checked_anew(args, paths, wanted, kept, early)
    else:
        asked, report = _checked(args, paths, text, wanted, early)
    if args.baseline or args.diff_base:
        report = only_new(args, asked).of(report)
    return deliver(args, asked, report, wanted, kept, early)


def _early(args: argparse.Namespace, wanted: tuple[Output, ...]) -> Early | None:
    """Who shows findings before all is done: only a person at a terminal is waiting for them, and only for all findings."""
    from t4lint.report import outputs

    if wanted != (outputs.Output("text"),) or not outputs.is_terminal():
        return None
    if args.baseline or args.diff_base or args.show_trace or os.environ.get("GITHUB_ACTIONS") == "true":
        return None
    from t4lint.report.early import Early

    return Early(args.language)


def _checked(
    args: argparse.Namespace,
    paths: list[Path],
    text: str | None,
    wanted: tuple[Output, ...],
    early: Early | None = None,
) -> tuple[Asked, Report]:
    """The settings that were met, and what was found."""
    asked = asked_of(args, paths)
    paths = _left(args, asked, paths, text)

    def check() -> Report:
        from t4lint import engine

        options = options_of(args, asked, text)
        with _helped(args, early) as helpers:
            if _with_fixes(wanted):
                return engine.check_with_fixes(paths, options, helpers)
            return engine.check(paths, options, helpers, early.show if early is not None else None)

    return asked, reported(args, asked, check)


@contextmanager
def _helped(args: argparse.Namespace, early: Early | None) -> Iterator[Workers]:
    """Who does the work: the executor that was asked for, or as many processes as there are processors."""
    from t4lint.report.progress import shown
    from t4lint.workers import Workers, WorkersError, cores, executor

    with shown(sys.stderr, spoken.language) as line:
        progress = line.tell if line is not None else None
        if early is not None:
            early.line = line
        if not args.executor:
            yield Workers(None, args.workers or cores(), progress)
            return
        try:
            made, count = executor(args.executor)
        except WorkersError as error:
            raise UsageError(str(error)) from None
        try:
            yield Workers(made, args.workers or count, progress)
        finally:
            made.shutdown()


def _left(args: argparse.Namespace, asked: Asked, paths: list[Path], text: str | None) -> list[Path]:
    """The paths to check, without the excluded ones where that is asked for."""
    return not_excluded(paths, asked) if args.force_exclude and text is None else paths


def _with_fixes(wanted: tuple[Output, ...]) -> bool:
    return any(output.format in FORMATS_WITH_FIXES for output in wanted)


# What says how a report is shown, or which of its findings, and not what is in it.
NOT_IN_THE_REPORT = frozenset(
    {"command", "output_format", "statistics", "no_cache", "baseline", "write_baseline", "diff_base"}
)


def _kept(args: argparse.Namespace, text: str | None, wanted: tuple[Output, ...]) -> Kept | None:
    """Where the result of this invocation is kept; None where none is."""
    off = args.no_cache or os.environ.get("T4LINT_NO_CACHE") or os.environ.get("T4LINT_DEBUG")
    if off or args.show_trace or text is not None:
        return None
    from t4lint.cache import CacheError, Kept, store

    asked_for = {name: value for name, value in vars(args).items() if name not in NOT_IN_THE_REPORT}
    try:
        return Kept([asked_for, _with_fixes(wanted)], store())
    except CacheError as error:
        raise UsageError(str(error)) from None


def _checked_anew(
    args: argparse.Namespace, paths: list[Path], wanted: tuple[Output, ...], kept: Kept, early: Early | None
) -> tuple[Asked, Report]:
    """What was found, kept for the next time with all that it rests on."""
    from t4lint.sources import disk

    with disk.watched() as questions:
        asked, report = _checked(args, paths, None, wanted, early)
        code = FAILED if report.problems else exit_code(args, asked, report)
    kept.save(report, code, questions)
    return asked, report


def _show_kept(args: argparse.Namespace, kept: Kept, wanted: tuple[Output, ...]) -> bool:
    """Show a kept result as it was shown before, if it was."""
    how = look(args, wanted)
    text = kept.shown(how) if how is not None else None
    if text is None:
        return False
    from t4lint.report import outputs

    outputs.to_screen(text, json=wanted[0].format in outputs.JSON)
    return True


def _catch_contradictions(args: argparse.Namespace) -> None:
    """Flags that only make sense with others, or without them."""
    if args.unsafe_fixes and not (args.fix or args.diff or args.interactive):
        raise UsageError("--unsafe-fixes goes with --fix or --diff")
    if args.interactive and (args.diff or not sys.stdin.isatty()):
        raise UsageError("-i does not go with --diff" if args.diff else "-i asks questions, and stdin is no terminal")
    if args.write_baseline and not args.baseline:
        raise UsageError("--write-baseline needs --baseline FILE, the file to write")
    actions = ("--fix", "--diff", "--add-ignores", "--write-baseline")
    given = [name for name in actions if getattr(args, name[2:].replace("-", "_")) not in (None, False)]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} do not go together")


def _change(
    args: argparse.Namespace, asked: Asked, paths: list[Path], text: str | None, wanted: tuple[Output, ...]
) -> int:
    """The commands that change files: what they do is in changes.py."""
    from t4lint import changes

    options = options_of(args, asked, text)
    failed = reported(args, asked, lambda: changes.checked(paths, options))
    if failed.problems and not failed.files:
        return deliver(args, asked, failed, wanted)
    if args.write_baseline:
        return said(changes.write_baseline(failed, args.baseline))
    only = only_new(args, asked)
    if args.add_ignores is not None:
        return said(changes.add_ignores(only.of(failed), options, args.add_ignores))
    done = changes.fix(paths, options, only, unsafe=args.unsafe_fixes or args.interactive, choose=_chooser(args))
    if args.diff:
        return _show_diff(done)
    if text is not None:
        from t4lint.report import outputs

        outputs.to_screen(next(iter(done.outcome.after.values()), text))
        report = changes.remaining(done, paths, options, only)
        return said(report.problems) or exit_code(args, asked, report)
    report = changes.write(done, paths, options, only)
    code = deliver(args, asked, report, wanted)
    print(done.summary, file=sys.stderr)
    return code


def _chooser(args: argparse.Namespace) -> Chooser | None:
    if not args.interactive:
        return None
    from t4lint.interactive import Asker

    return Asker()


def _show_diff(done: Fixed) -> int:
    from t4lint.fix.loop import diff
    from t4lint.report import outputs

    text = diff(done.outcome)
    if os.environ.get("GITHUB_ACTIONS") == "true":  # lines of a file are no commands of the workflow
        from t4lint.report.github import inert

        outputs.to_screen(inert(text))
    else:
        outputs.to_screen(text)
    if done.report.problems:
        return said(done.report.problems)
    print(done.promise, file=sys.stderr)
    return FOUND if text else CLEAN
