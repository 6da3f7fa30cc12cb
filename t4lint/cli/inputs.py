"""What a command line asks for: paths, settings, options, and what is wrong with them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t4lint.cli.usage import COMMANDS, UsageError, suggestion

if TYPE_CHECKING:
    from t4lint.asked import Asked
    from t4lint.changes import OnlyNew
    from t4lint.engine import Options
    from t4lint.findings import Report
    from t4lint.report.outputs import Output

DEFAULT_TARGET = "t4"
STDIN_FILENAME = "stdin.py"


def given_paths(args: argparse.Namespace) -> tuple[list[Path], str | None]:
    """The paths to check, and the text from stdin if that is what is to be checked."""
    names = [*args.paths, *args.rest]
    if "-" not in names and not args.stdin_filename:
        _catch_misspelt_command(names)
        _catch_impossible_names(names)
        return [Path(name) for name in names or ["."]], None
    if set(names) - {"-"}:
        raise UsageError("either files or text from stdin can be checked, not both")
    stdin: Any = sys.stdin  # None where the shell has closed it
    try:
        if stdin is None:
            raise UsageError("there is no stdin to read from: it is closed")
        text = stdin.buffer.read().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"stdin cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError("the text from stdin is not UTF-8") from None
    args.stdin_filename = args.stdin_filename or STDIN_FILENAME
    return [Path(args.stdin_filename)], text


def _catch_impossible_names(names: list[str]) -> None:
    """Names that the file system refuses even to look up."""
    for name in names:
        if not name:
            raise UsageError("an empty name is no file or folder; `.` is this folder")
        try:
            Path(name).is_dir()
        except (OSError, ValueError):
            shown = name if len(name) <= 60 else f"{name[:60]}..."
            raise UsageError(f"{shown!r} does not exist") from None


def _catch_misspelt_command(names: list[str]) -> None:
    """`t4lint explan RULE` would look for a file of that name."""
    if not names or not names[0].isalpha() or len(names[0]) > max(map(len, COMMANDS)) + 3 or Path(names[0]).exists():
        return
    hint = suggestion(names[0], COMMANDS)
    if hint:
        raise UsageError(f"there is no command, file or folder {names[0]!r}{hint}")


def asked_of(args: argparse.Namespace, paths: Sequence[Path]) -> Asked:
    """The flags over the settings: those of the paths as a whole, and for each file the nearest."""
    from t4lint import settings
    from t4lint.asked import Asked, Flags

    flags = Flags(
        target=args.target,
        select=_names(args.select),
        ignore=_names(args.ignore),
        extend_select=_names(args.extend_select),
        min_confidence=args.min_confidence,
    )
    if args.isolated:
        return Asked(flags, settings.NOTHING, None, Path.cwd())
    found = settings.Nearest()
    base = found.loaded(settings.common_folder(paths))
    return Asked(flags, base, found, Path.cwd())


def working_folder() -> Path:
    try:
        return Path.cwd()
    except OSError:
        raise UsageError("the working directory does not exist any more") from None


def not_excluded(paths: list[Path], asked: Asked) -> list[Path]:
    """The paths that `exclude` leaves: pre-commit and editors name files that a walk would not come to."""
    from t4lint.sources import disk

    nearest = asked.nearest
    # A folder is its own business and that of the walk below it, unless a pattern names it.
    return paths if nearest is None else [it for it in paths if not nearest.excludes(it, folder=disk.is_folder(it))]


def options_of(args: argparse.Namespace, asked: Asked, stdin_text: str | None = None) -> Options:
    """What the engine is to do; text from stdin stands for the file that it is said to be."""
    from dataclasses import replace

    texts = {_shown(args.stdin_filename): stdin_text} if stdin_text is not None else {}
    return replace(asked.options(), show_trace=args.show_trace, texts=texts)


def _shown(name: str) -> str:
    from t4lint.sources.files import display_path

    return display_path(Path(name), Path.cwd())


def _names(values: Iterable[str]) -> tuple[str, ...]:
    """`["a,b", "c"]` → `("a", "b", "c")`."""
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


def reported(args: argparse.Namespace, asked: Asked, make: Callable[[], Report]) -> Report:
    """What `make` finds; with bad settings nothing is run, and the report says what is wrong with them."""
    from t4lint.findings import Report

    catch_unknown_target(args)
    problems = asked.base.problems
    if not problems:
        from t4lint.ruleset import BadOption, BadRules, UnknownRule

        try:
            return asked.with_problems(make())
        except (UnknownRule, BadOption, BadRules) as error:
            _catch_unknown_rules(args, asked)
            problems = asked.rule_problems()
            if not problems:
                raise UsageError(str(error)) from None
    target = args.target or asked.base.settings.target
    return Report(target=target, findings=(), problems=problems, runs=(), files=0)


def catch_unknown_target(args: argparse.Namespace) -> None:
    if args.target in (None, DEFAULT_TARGET):
        return
    from t4lint.devices import UnknownTarget, find_target

    try:
        find_target(args.target)
    except UnknownTarget as error:
        raise UsageError(f"{error} (`t4lint targets` lists them)") from None


def _catch_unknown_rules(args: argparse.Namespace, asked: Asked) -> None:
    """Unknown rules in the flags are a mistake of the command line."""
    from t4lint.ruleset import BadRules, UnknownRule, named

    for name in _names([*args.select, *args.ignore, *args.extend_select]):
        try:
            named([name], asked.base.settings.own_rules)
        except UnknownRule as error:
            raise UsageError(str(error)) from None
        except BadRules:
            return


def wanted_outputs(given: Sequence[str], known: Sequence[str] | None = None) -> tuple[Output, ...]:
    from t4lint.report import outputs

    try:
        return outputs.parse(given, known or outputs.FORMATS)
    except outputs.OutputError as error:
        raise UsageError(str(error)) from None


def only_new(args: argparse.Namespace, asked: Asked) -> OnlyNew:
    from t4lint.baseline import BaselineError
    from t4lint.changes import OnlyNew

    try:
        least = args.min_confidence or asked.base.settings.min_confidence
        return OnlyNew.read(args.baseline, args.diff_base, Path.cwd(), least)
    except BaselineError as error:
        raise UsageError(str(error)) from None
