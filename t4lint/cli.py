"""The command line. Nothing heavy is imported before it is known to be needed.

Exit codes: 0 clean, 1 findings at or above `--fail-on`, 2 could not run as asked.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from t4lint import __version__

if TYPE_CHECKING:
    from t4lint.asked import Asked
    from t4lint.cache import Kept
    from t4lint.changes import Chooser, Fixed, OnlyNew
    from t4lint.engine import Options
    from t4lint.findings import Finding, Problem, Report
    from t4lint.fit import FitReport
    from t4lint.record.launch import Limits, Recording
    from t4lint.report.outputs import Output
    from t4lint.rule import Rule
    from t4lint.workers import Workers

CLEAN, FOUND, FAILED, INTERRUPTED = 0, 1, 2, 130
COMMANDS = ("check", "verify", "fit", "explain", "rules", "settings", "targets", "doctor", "completion", "server")
# As in t4lint/rule.py, which is not imported for `--help`.
SEVERITIES = ("error", "warning", "note")
CONFIDENCES = ("certain", "likely", "possible")
DEFAULT_TARGET = "t4"
STDIN_FILENAME = "stdin.py"
FORMATS_WITH_FIXES = ("json", "jsonl", "sarif", "rdjson")
DEFAULT_STEPS = 3  # optimizer steps that verify runs
SHELLS = ("bash", "zsh", "fish")  # as in t4lint/completion.py
LANGUAGE_HELP = "English or Chinese (default: T4LINT_LANG, else the locale)"
VERIFY_EXAMPLE = "t4lint verify -- python train.py --epochs 1"


class UsageError(Exception):
    """t4lint cannot do what was asked; the message says why, to the person who asked."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    if "_ARGCOMPLETE" in os.environ:
        from t4lint.completion import answer

        answer(parser(), COMMANDS)
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except UsageError as error:
        return _complain(str(error))
    except SystemExit as end:  # argparse, after --help, --version and mistakes
        return end.code if isinstance(end.code, int) else CLEAN
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        from t4lint.report.outputs import silence

        silence()
        return CLEAN
    except Exception as error:
        if os.environ.get("T4LINT_DEBUG"):
            raise
        what = " ".join(f"{type(error).__name__}: {error}".split())
        return _complain(f"internal error, please report it: {what} (T4LINT_DEBUG=1 shows where)")


def _run(argv: list[str]) -> int:
    argv, language = _language(argv)
    flags, rest = _split(argv)
    args = parser(_spoken.language).parse_args(flags)
    args.rest, args.language = rest, language
    run: Callable[[argparse.Namespace], int] = args.run
    return run(args)


class _Spoken:
    """The language in which t4lint speaks to this person, for errors too."""

    language = "en"


_spoken = _Spoken()


def _language(argv: list[str]) -> tuple[list[str], str | None]:
    """The command line without `--language`, which may stand anywhere in it, and what it says."""
    from t4lint import language

    end = argv.index("--") if "--" in argv else len(argv)
    kept, given = [], None
    words = iter(argv[:end])
    for word in words:
        name, equals, value = word.partition("=")
        if name != "--language":
            kept.append(word)
            continue
        given = value if equals else next(words, "")
        if language.known(given) is None:
            raise UsageError(f"there is no language {given!r}; t4lint speaks {' and '.join(language.LANGUAGES)}")
    _spoken.language = language.chosen(given)
    return [*kept, *argv[end:]], given


def _split(argv: list[str]) -> tuple[list[str], list[str]]:
    """The command with its flags (`check` where a path alone stands for it), and what comes after `--`."""
    at = argv.index("--") if "--" in argv else len(argv)
    flags, rest = argv[:at], argv[at + 1 :]
    if flags[:1] == ["verify"] and not rest:  # a notebook stands for the command that runs it
        rest = [word for word in flags[1:] if word.endswith(".ipynb")]
        flags = [word for word in flags if word not in rest]
    if not flags or flags[0] not in (*COMMANDS, "-h", "--help", "-V", "--version"):
        flags = ["check", *flags]
    return flags, rest


def _complain(message: str) -> int:
    print(f"t4lint: {_say('error')}: {_say(message)}", file=sys.stderr)
    return FAILED


def _say(text: str, context: str = "problem") -> str:
    """An error in the person's language."""
    if _spoken.language == "en":
        return text
    from t4lint.language import phrase

    return phrase(text, _spoken.language, context)


# --- check and verify --------------------------------------------------------------------------------------------


def _check(args: argparse.Namespace) -> int:
    wanted = _outputs(args.output_format)
    _cwd()
    paths, text = _paths(args)
    _catch_contradictions(args)
    if args.fix or args.interactive or args.diff or args.add_ignores is not None or args.write_baseline:
        asked = _asked(args, paths)
        return _change(args, asked, _left(args, asked, paths, text), text, wanted)
    kept = _kept(args, text, wanted)
    known = kept is not None and kept.load()
    if kept is not None and known and _show_kept(args, kept, wanted):
        return kept.code
    report = kept.report() if kept is not None and known else None
    if report is not None:
        asked = _asked(args, paths)
    elif kept is not None:
        asked, report = _checked_anew(args, paths, wanted, kept)
    else:
        asked, report = _checked(args, paths, text, wanted)
    if args.baseline or args.diff_base:
        report = _only_new(args, asked).of(report)
    return _deliver(args, asked, report, wanted, kept)


def _checked(
    args: argparse.Namespace, paths: list[Path], text: str | None, wanted: tuple[Output, ...]
) -> tuple[Asked, Report]:
    """The settings that were met, and what was found."""
    asked = _asked(args, paths)
    paths = _left(args, asked, paths, text)

    def check() -> Report:
        from t4lint import engine

        options = _options(args, asked, text)
        lint = engine.check_with_fixes if _with_fixes(wanted) else engine.check
        with _helped(args) as helpers:
            return lint(paths, options, helpers)

    return asked, _report(args, asked, check)


@contextmanager
def _helped(args: argparse.Namespace) -> Iterator[Workers]:
    """Who does the work: the executor that was asked for, or as many processes as there are processors."""
    from t4lint.report.progress import shown
    from t4lint.workers import Workers, WorkersError, cores, executor

    with shown(sys.stderr) as progress:
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
    return _not_excluded(paths, asked) if args.force_exclude and text is None else paths


def _with_fixes(wanted: tuple[Output, ...]) -> bool:
    return any(output.format in FORMATS_WITH_FIXES for output in wanted)


# --- what is kept of earlier invocations -------------------------------------------------------------------------

# What says how a report is shown, or which of its findings, and not what is in it.
NOT_IN_THE_REPORT = frozenset(
    {"run", "output_format", "statistics", "no_cache", "baseline", "write_baseline", "diff_base"}
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
    args: argparse.Namespace, paths: list[Path], wanted: tuple[Output, ...], kept: Kept
) -> tuple[Asked, Report]:
    """What was found, kept for the next time with all that it rests on."""
    from t4lint.sources import disk

    with disk.watched() as questions:
        asked, report = _checked(args, paths, None, wanted)
        code = FAILED if report.problems else _exit_code(args, asked, report)
    kept.save(report, code, questions)
    return asked, report


def _show_kept(args: argparse.Namespace, kept: Kept, wanted: tuple[Output, ...]) -> bool:
    """Show a kept result as it was shown before, if it was."""
    how = _look(args, wanted)
    text = kept.shown(how) if how is not None else None
    if text is None:
        return False
    from t4lint.report import outputs

    outputs.to_screen(text, json=wanted[0].format in outputs.JSON)
    return True


def _look(args: argparse.Namespace, wanted: tuple[Output, ...]) -> object:
    """What the text on the screen depends on besides the report; None where it depends on more than can be said."""
    if len(wanted) != 1 or wanted[0].file is not None or args.baseline or args.diff_base or args.statistics:
        return None
    from t4lint.report import outputs

    return outputs.look(wanted[0].format)


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


def _only_new(args: argparse.Namespace, asked: Asked) -> OnlyNew:
    from t4lint.baseline import BaselineError
    from t4lint.changes import OnlyNew

    try:
        least = args.min_confidence or asked.base.settings.min_confidence
        return OnlyNew.read(args.baseline, args.diff_base, Path.cwd(), least)
    except BaselineError as error:
        raise UsageError(str(error)) from None


def _change(
    args: argparse.Namespace, asked: Asked, paths: list[Path], text: str | None, wanted: tuple[Output, ...]
) -> int:
    """The commands that change files: what they do is in changes.py."""
    from t4lint import changes

    options = _options(args, asked, text)
    failed = _report(args, asked, lambda: changes.checked(paths, options))
    if failed.problems and not failed.files:
        return _deliver(args, asked, failed, wanted)
    if args.write_baseline:
        return _said(changes.write_baseline(failed, args.baseline))
    only = _only_new(args, asked)
    if args.add_ignores is not None:
        return _said(changes.add_ignores(only.of(failed), options, args.add_ignores))
    done = changes.fix(paths, options, only, unsafe=args.unsafe_fixes or args.interactive, choose=_chooser(args))
    if args.diff:
        return _show_diff(done)
    if text is not None:
        from t4lint.report import outputs

        outputs.to_screen(next(iter(done.outcome.after.values()), text))
        report = changes.remaining(done, paths, options, only)
        return _said(report.problems) or _exit_code(args, asked, report)
    report = changes.write(done, paths, options, only)
    code = _deliver(args, asked, report, wanted)
    print(done.summary, file=sys.stderr)
    return code


def _chooser(args: argparse.Namespace) -> Chooser | None:
    if not args.interactive:
        return None
    from t4lint.interactive import Asker

    return Asker()


def _said(problems: tuple[Problem, ...]) -> int:
    """Problems go to stderr; the code says whether there were any."""
    for problem in problems:
        line = f":{problem.line}" if problem.line else ""
        print(f"t4lint: {_say('error')}: {problem.path}{line}: {_say(problem.message)}", file=sys.stderr)
    return FAILED if problems else CLEAN


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
        return _said(done.report.problems)
    print(done.promise, file=sys.stderr)
    return FOUND if text else CLEAN


def _verify(args: argparse.Namespace) -> int:
    if args.changed:
        return _verify_changed(args)
    if not args.rest:
        raise UsageError(f"verify needs the command to run, after two dashes: {VERIFY_EXAMPLE}")
    wanted = _outputs(args.output_format)
    from t4lint.verify import program_of

    asked = _asked(args, [program_of(args.rest, _cwd()) or _cwd()])
    _catch_undrawable(args)
    from t4lint.record.screen import Screen

    screen = Screen()

    def verify() -> Report:
        from t4lint.record.launch import Limits, listening
        from t4lint.verify import verify

        limits = _limits(args)
        screen.announce(args.rest, Path.cwd(), limits)
        more: dict[str, Any] = {} if limits == Limits(limits.steps, args.timeout) else {"limits": limits}
        if args.measure:
            more |= {"pairs": args.pairs, "progress": screen.measures}
        with listening(screen):
            options = _options(args, asked)
            return verify(
                args.rest, options=options, device=args.device, steps=limits.steps, timeout=args.timeout, **more
            )

    report = _report(args, asked, verify)
    if args.diff_base:
        report = _only_changed(args, asked).of(report)
    code = _deliver(args, asked, report, wanted)
    if any(output.format == "text" and output.file is None for output in wanted):
        _show_verdicts(report)
    if args.report is not None and screen.recording is not None:
        _draw(args.report, report, screen.recording)
    return code


def _only_changed(args: argparse.Namespace, asked: Asked) -> OnlyNew:
    args.baseline = None
    return _only_new(args, asked)


def _verify_changed(args: argparse.Namespace) -> int:
    """`--changed`: the commands of the scripts that have findings on changed lines, one after the other."""
    if args.rest or not args.diff_base:
        raise UsageError("--changed finds the commands itself, from --diff-base REF: give that, and no command")
    if args.measure or args.report is not None:
        raise UsageError("--changed does not go with --measure or --report: verify one command with these")
    wanted = _outputs(args.output_format)
    asked = _asked(args, [_cwd()])
    only = _only_changed(args, asked)

    def verify() -> Report:
        from t4lint import changed, engine
        from t4lint.record.launch import listening
        from t4lint.record.screen import Screen
        from t4lint.verify import verify

        limits = _limits(args)

        def run(words: list[str]) -> Report:
            screen = Screen()
            screen.announce(words, Path.cwd(), limits)
            with listening(screen):
                return verify(
                    words, options=_options(args, asked), device=args.device, steps=limits.steps, timeout=args.timeout,
                    limits=limits,
                )  # fmt: skip

        return changed.verified(only.of(engine.check([Path.cwd()], _options(args, asked))), only.of, run)

    report = _report(args, asked, verify)
    code = _deliver(args, asked, report, wanted)
    if any(output.format == "text" and output.file is None for output in wanted):
        _show_verdicts(report)
    return code


def _catch_undrawable(args: argparse.Namespace) -> None:
    """A page that cannot be drawn or written is said before the run, which may take minutes."""
    if args.report is None:
        return
    from t4lint.report import run_page

    try:
        run_page.check()
    except run_page.NoPlotly as error:
        raise UsageError(str(error)) from None
    if args.report.is_dir() or not args.report.absolute().parent.is_dir():
        raise UsageError(f"--report: {args.report} is no file that can be written")


def _draw(file: Path, report: Report, recording: Recording) -> None:
    """The page of `--report`."""
    from t4lint.devices import find_target
    from t4lint.record.picture import picture_of
    from t4lint.report import run_page

    page = run_page.render(report, picture_of(recording, find_target(report.target)), version=__version__)
    try:
        file.write_text(page, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(f"--report: {file}: {error.strerror}") from None
    print(f"the run is drawn in {file}", file=sys.stderr)


def _fit(args: argparse.Namespace) -> int:
    """What fills the card: 0 where all that was measured may fit, 1 where something does not, 2 where too little is known."""
    from t4lint.devices import find_target
    from t4lint.findings import Report
    from t4lint.fit import FitReport, fit
    from t4lint.memory.reading import Given

    wanted = _outputs(args.output_format, ("text", "json"))
    _cwd()
    paths, text = _paths(args)
    asked = _asked(args, paths)
    options = _options(args, asked, text)
    if args.target:
        _catch_unknown_target(args)
    problems = asked.base.problems
    if not problems and find_target(options.target).gpu is None:
        raise UsageError(f"{options.target} has no GPU to fill")
    given = Given(args.model, args.batch_size, args.sequence_length, args.image_size)
    failed = Report(target=options.target, findings=(), problems=problems, runs=(), files=0)
    found = FitReport(failed) if problems else fit(paths, options, given)
    _deliver_fit(found, wanted)
    answers = {it.answer for it in found.fits}
    if found.report.problems or not answers or answers == {"unknown"}:
        return FAILED
    return FOUND if "does not fit" in answers else CLEAN


def _deliver_fit(found: FitReport, wanted: tuple[Output, ...]) -> None:
    from t4lint.report import fit_json, outputs

    for output in wanted:
        made = fit_json.render(found, version=__version__) if output.format == "json" else _fit_text(found, output)
        if output.file is None:
            outputs.to_screen(made, json=output.format == "json")
        else:
            output.file.write_text(made, encoding="utf-8")


def _fit_text(found: FitReport, output: Output) -> str:
    from t4lint.report import fit_text, outputs

    screen = output.file is None
    width = outputs.terminal_width() if screen and outputs.is_terminal() else outputs.PIPED_WIDTH
    return fit_text.render(found, colour=screen and outputs.has_colour(sys.stdout), width=width)


def _limits(args: argparse.Namespace) -> Limits:
    from t4lint.measure import STEPS
    from t4lint.record.launch import Limits

    memory = int((args.memory_limit or 0) * 2**30)
    steps = args.steps or (STEPS if args.measure else DEFAULT_STEPS)
    return Limits(
        steps, args.timeout, memory, args.allow_network, args.sandbox, synthetic=args.synthetic or bool(args.columns),
        columns=dict(args.columns),
    )  # fmt: skip


def _show_verdicts(report: Report) -> None:
    """The verdicts at a glance, below the findings."""
    from t4lint.record.screen import table
    from t4lint.report import outputs

    text = table(report, outputs.has_colour(sys.stdout))
    if text:
        outputs.to_screen("\n" + text)


def _paths(args: argparse.Namespace) -> tuple[list[Path], str | None]:
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
        try:
            Path(name).is_dir()
        except (OSError, ValueError):
            shown = name if len(name) <= 60 else f"{name[:60]}..."
            raise UsageError(f"{shown!r} does not exist") from None


def _catch_misspelt_command(names: list[str]) -> None:
    """`t4lint explan RULE` would look for a file of that name."""
    if not names or not names[0].isalpha() or len(names[0]) > max(map(len, COMMANDS)) + 3 or Path(names[0]).exists():
        return
    hint = _suggestion(names[0], COMMANDS)
    if hint:
        raise UsageError(f"there is no command, file or folder {names[0]!r}{hint}")


def _asked(args: argparse.Namespace, paths: Sequence[Path]) -> Asked:
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


def _cwd() -> Path:
    try:
        return Path.cwd()
    except OSError:
        raise UsageError("the working directory does not exist any more") from None


def _not_excluded(paths: list[Path], asked: Asked) -> list[Path]:
    """The paths that `exclude` leaves: pre-commit and editors name files that a walk would not come to."""
    from t4lint.sources import disk

    nearest = asked.nearest
    # A folder is its own business and that of the walk below it, unless a pattern names it.
    return paths if nearest is None else [it for it in paths if not nearest.excludes(it, folder=disk.is_folder(it))]


def _options(args: argparse.Namespace, asked: Asked, stdin_text: str | None = None) -> Options:
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


def _report(args: argparse.Namespace, asked: Asked, make: Callable[[], Report]) -> Report:
    """What `make` finds; with bad settings nothing is run, and the report says what is wrong with them."""
    from t4lint.findings import Report

    _catch_unknown_target(args)
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


def _catch_unknown_target(args: argparse.Namespace) -> None:
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


def _deliver(
    args: argparse.Namespace, asked: Asked, report: Report, wanted: tuple[Output, ...], kept: Kept | None = None
) -> int:
    """Write the report, and say by the exit code how it went."""
    from t4lint.report import outputs

    how = _look(args, wanted) if kept is not None else None
    try:
        if kept is not None and how is not None:
            text = outputs.render(outputs.spoken(report, wanted[0], args.language), wanted[0], version=__version__)
            outputs.to_screen(text, json=wanted[0].format in outputs.JSON)
            kept.keep_shown(how, text)
        else:
            outputs.write(report, wanted, version=__version__, verbose=args.show_trace, language=args.language)
    except outputs.OutputError as error:
        raise UsageError(str(error)) from None
    if args.statistics:
        _statistics(report)
    return FAILED if report.problems else _exit_code(args, asked, report)


def _statistics(report: Report) -> None:
    """How often each rule was found, the most frequent first; to stderr, so that reports stay what they are."""
    from collections import Counter

    counts = Counter(finding.rule for finding in report.findings)
    width = len(str(max(counts.values(), default=0)))
    for rule, count in sorted(counts.items(), key=lambda it: (-it[1], it[0])):
        print(f"{count:>{width}}  {rule}", file=sys.stderr)


def _exit_code(args: argparse.Namespace, asked: Asked, report: Report) -> int:
    def fails(finding: Finding) -> bool:
        least = args.fail_on or asked.settings(Path.cwd() / finding.location.path).fail_on
        return finding.severity in _at_least(least) and not _is_refuted(finding)

    return FOUND if any(map(fails, report.findings)) and not args.exit_zero else CLEAN


def _at_least(severity: str) -> tuple[str, ...]:
    return SEVERITIES[: SEVERITIES.index(severity) + 1]


def _is_refuted(finding: Finding) -> bool:
    """A run has shown that the finding does not hold."""
    return finding.verdict is not None and finding.verdict.verdict == "refuted"


def _outputs(given: Sequence[str], known: Sequence[str] | None = None) -> tuple[Output, ...]:
    from t4lint.report import outputs

    try:
        return outputs.parse(given, known or outputs.FORMATS)
    except outputs.OutputError as error:
        raise UsageError(str(error)) from None


# --- pages -------------------------------------------------------------------------------------------------------


def _explain(args: argparse.Namespace) -> int:
    from t4lint.report import outputs, page
    from t4lint.suppress import UNUSED

    known = {rule.name: rule for rule in (*_known_rules(), UNUSED)}
    rule = known.get(args.rule)
    if rule is None:
        hint = _suggestion(args.rule, known) or "; `t4lint rules` lists them"
        raise UsageError(f"unknown rule {args.rule!r}{hint}")
    text = page.explain(rule, _spoken.language)
    if outputs.is_terminal():
        text = page.markdown(text, colour=outputs.has_colour(sys.stdout), width=outputs.terminal_width())
    outputs.to_screen(text)
    return CLEAN


def _rules(args: argparse.Namespace) -> int:
    from t4lint.report import outputs, page

    if args.output_format == "json":
        outputs.to_screen(page.rules_json(_known_rules()), json=True)
    else:
        width = outputs.terminal_width() if outputs.is_terminal() else None
        outputs.to_screen(page.rules_text(_known_rules(), width=width, language=_spoken.language))
    return CLEAN


def _known_rules() -> tuple[Rule, ...]:
    """The rules that t4lint ships, and those that the settings of this folder name."""
    from t4lint import ruleset, settings

    try:
        return ruleset.rules(settings.load(_cwd()).settings.own_rules)
    except ruleset.BadRules as error:
        raise UsageError(str(error)) from None


def _show_settings(args: argparse.Namespace) -> int:
    from t4lint.report import outputs, page

    if args.schema:
        import json

        from t4lint.asked import schema

        outputs.to_screen(json.dumps(schema(), indent=2) + "\n", json=True)
        return CLEAN
    from t4lint import ruleset, settings
    from t4lint.asked import Asked, Flags
    from t4lint.engine import chosen_by

    file = _cwd() / args.path
    file = file / "__init__.py" if file.is_dir() else file  # of a folder: what holds for a file in it
    nearest = settings.Nearest()
    asked = Asked(Flags(), nearest.loaded(file.parent), nearest, _cwd())
    try:
        names = [rule.name for rule in chosen_by(asked.for_file(file))] if not nearest.problems else []
    except (ruleset.UnknownRule, ruleset.BadOption, ruleset.BadRules):
        return _said(asked.rule_problems())
    if nearest.problems:
        return _said(nearest.problems)
    found, sources = nearest.explained(file)
    if args.output_format == "json":
        outputs.to_screen(page.settings_json(args.path, found, sources, names), json=True)
    else:
        outputs.to_screen(page.settings_text(args.path, found, sources, len(names)))
    return CLEAN


def _targets(args: argparse.Namespace) -> int:
    from t4lint.devices import UnknownTarget, find_target, targets
    from t4lint.report import outputs, page

    try:
        named = [find_target(name) for name in args.names]
    except UnknownTarget as error:
        raise UsageError(f"{error} (`t4lint targets` lists them)") from None
    if args.output_format == "json":
        outputs.to_screen(page.targets_json(named or targets()), json=True)
    elif named:
        outputs.to_screen("\n".join(page.target_text(target) for target in named))
    else:
        outputs.to_screen(page.targets_text(targets()))
    return CLEAN


def _doctor(args: argparse.Namespace) -> int:
    """What t4lint finds on this machine; nothing of it is a failure."""
    from t4lint import doctor
    from t4lint.report import outputs

    if args.output_format == "json":
        outputs.to_screen(doctor.as_json(_cwd()), json=True)
        return CLEAN
    width = outputs.terminal_width() if outputs.is_terminal() else outputs.PIPED_WIDTH
    colour = outputs.has_colour(sys.stdout)
    outputs.to_screen(doctor.text(_cwd(), colour=colour, width=width, language=_spoken.language))
    return CLEAN


def _completion(args: argparse.Namespace) -> int:
    from t4lint import completion
    from t4lint.report import outputs

    outputs.to_screen(completion.script(args.shell))
    return CLEAN


def _server(args: argparse.Namespace) -> int:
    """Answer an editor over stdin and stdout."""
    try:
        from t4lint.lsp.server import serve
    except ImportError:
        raise UsageError("the language server needs an extra: pip install 't4lint[lsp]'") from None
    return serve()


def _suggestion(name: str, known: Iterable[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


# --- the parser --------------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """argparse, with mistakes told in one line."""

    usage_title: str | None = None  # in another language

    def format_help(self) -> str:
        text = super().format_help()
        return text.replace("usage: ", self.usage_title, 1) if self.usage_title else text

    def error(self, message: str) -> NoReturn:
        hint = _say(f"(see `{self.prog} --help`)")
        self.exit(FAILED, f"t4lint: {_say('error')}: {_say(message, 'argparse')} {hint}\n")


def parser(language: str = "en") -> argparse.ArgumentParser:
    """The parser of all commands, with its help in a language."""
    made = _Parser(
        prog="t4lint",
        description="What a PyTorch or Hugging Face training script will do on an NVIDIA T4, before it runs.",
        epilog="A path alone is enough: `t4lint train.py` is `t4lint check train.py`. `t4lint check --help` lists the flags: "
        "fixes, targets, baselines, report formats.",
        allow_abbrev=False,
    )
    made.add_argument("--language", choices=("en", "zh"), help=LANGUAGE_HELP)
    made.add_argument("-V", "--version", action="version", version=f"t4lint {__version__}")
    commands = made.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)

    def command(name: str, run: Callable[[argparse.Namespace], int], text: str, usage: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text, usage=usage, allow_abbrev=False)
        added.set_defaults(run=run)
        added.add_argument("--language", choices=("en", "zh"), help=LANGUAGE_HELP)
        return added

    _add_check(command("check", _check, "check files and folders", "t4lint [check] [FLAGS] [PATH ...]"))
    _add_verify(
        command(
            "verify",
            _verify,
            "run a training command and see which findings hold",
            "t4lint verify [FLAGS] (-- COMMAND ... | NOTEBOOK)",
        )
    )
    _add_fit(command("fit", _fit, "say what fills the card, and what would make it fit", "t4lint fit [FLAGS] PATH ..."))
    explain = command("explain", _explain, "show the page of a rule", "t4lint explain RULE")
    explain.add_argument("rule", metavar="RULE")
    rules = command("rules", _rules, "list the rules", "t4lint rules [--output-format json]")
    rules.add_argument("--output-format", choices=("text", "json"), default="text")
    shown = command(
        "settings", _show_settings, "show the settings of a file, and where each comes from", "t4lint settings [FILE]"
    )
    shown.add_argument("path", nargs="?", default=".", metavar="FILE", help="a file or folder (default: this folder)")
    shown.add_argument("--output-format", choices=("text", "json"), default="text")
    shown.add_argument("--schema", action="store_true", help="print the JSON schema of the settings, for editors")
    command("server", _server, "answer an editor (language server, over stdin and stdout)", "t4lint server")
    doctor = command(
        "doctor", _doctor, "say what there is on this machine, and what verify can do here", "t4lint doctor"
    )
    doctor.add_argument("--output-format", choices=("text", "json"), default="text")
    shells = command("completion", _completion, "print a completion script for a shell", "t4lint completion SHELL")
    shells.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")
    shown = command(
        "targets", _targets, "list the GPUs, places and instances that --target knows", "t4lint targets [NAME ...]"
    )
    shown.add_argument("names", nargs="*", metavar="NAME", help="show these in full, with the sources of their figures")
    shown.add_argument("--output-format", choices=("text", "json"), default="text")
    if language != "en":
        _localize(made, language)
    return made


def _localize(made: argparse.ArgumentParser, language: str) -> None:
    """Put the help of a parser and its commands into a language."""
    from t4lint.language import phrase

    def say(text: str | None) -> str | None:
        return phrase(text, language, "help") if text else text

    made.description, made.epilog = say(made.description), say(made.epilog)
    if isinstance(made, _Parser):
        made.usage_title = say("usage: ")
    for group in made._action_groups:
        group.title = say(group.title)
    for action in made._actions:
        action.help = say(action.help) if action.help is not argparse.SUPPRESS else action.help
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                choice.help = say(choice.help)
            for sub in action.choices.values():
                _localize(sub, language)


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="files and folders (default: this folder); - for stdin"
    )
    add = parser.add_argument_group("how").add_argument
    add(
        "--workers",
        type=_positive_int,
        metavar="N",
        help="processes for large projects (default: one for each processor)",
    )
    add(
        "--executor", metavar="WHERE",
        help="who does the work: dask://HOST:PORT, or module:function that makes a concurrent.futures.Executor",
    )  # fmt: skip
    add(
        "--no-cache",
        action="store_true",
        help="neither read nor write kept results (T4LINT_CACHE_DIR says where they are)",
    )
    _add_common(parser)
    _add_changes(parser)


def _add_changes(parser: argparse.ArgumentParser) -> None:
    """Flags that change files, or choose what is new."""
    add = parser.add_argument_group("fixes and comments").add_argument
    add("--fix", action="store_true", help="apply the safe fixes, and report what remains")
    add("--unsafe-fixes", action="store_true", help="with --fix or --diff: the fixes that change numerics too")
    add("-i", "--interactive", action="store_true", help="ask for each fix, the unsafe ones too, showing its diff")
    add("--diff", action="store_true", help="show what --fix would change, and change nothing")
    add(
        "--add-ignores", nargs="?", const="", metavar="REASON",
        help="write a `# t4lint: ignore[...]` comment for each finding",
    )  # fmt: skip
    add = parser.add_argument_group("only what is new").add_argument
    add("--baseline", type=Path, metavar="FILE", help="hide the findings that this file lists; it shrinks by itself")
    add("--write-baseline", action="store_true", help="list all present findings in the file of --baseline")
    add("--diff-base", metavar="REF", help="show only findings on lines that changed since this git reference")
    add = parser.add_argument_group("for hooks and editors").add_argument
    add("--force-exclude", action="store_true", help="leave out excluded files also where they are named")
    add("--stdin-filename", metavar="FILE", help="check the text from stdin as if it were this file")


def _add_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        choices=("auto", "cuda", "phantom", "cpu"),
        default="auto",
        help="where to run it: on a GPU where there is one (auto), only on a GPU, on one that is not there (phantom: shapes "
        "and dtypes, no values), or on the CPU; a GPU larger than the target's is held to its memory",
    )
    parser.add_argument(
        "--steps", type=_positive_int, metavar="N", help="optimizer steps to run (default: 3, with --measure 12)"
    )
    parser.add_argument(
        "--timeout", type=_positive_float, default=600.0, metavar="SECONDS", help="stop after this time (default: 600)"
    )
    add = parser.add_argument
    add(
        "--report", type=Path, metavar="FILE.html",
        help="draw the run into one HTML file that opens offline: memory, dtypes, kernels, copies, verdicts beside the lines",
    )  # fmt: skip
    add("--memory-limit", type=_positive_float, metavar="GIB", help="end it when all its processes take more than this")
    add(
        "--measure", action="store_true",
        help="run it again with each fix applied to a copy, in pairs, and tell what that does to time, memory and loss",
    )  # fmt: skip
    add("--pairs", type=_pairs, default=4, metavar="N", help="pairs of runs for --measure (default: 4)")
    add("--diff-base", metavar="REF", help="show only findings on lines that changed since this git reference")
    add(
        "--changed", action="store_true",
        help="in place of a command: those of the scripts that have findings on lines changed since --diff-base",
    )  # fmt: skip
    add(
        "--synthetic", action="store_true",
        help="make up small data sets, and models by their configuration alone, where they are not on this machine",
    )  # fmt: skip
    add(
        "--columns", type=_columns, action="append", default=[], metavar="DATASET=COLUMN:TYPE,...",
        help="with --synthetic: the columns of a data set that t4lint does not know, e.g. 'me/chat=text:text,label:label 2'",
    )  # fmt: skip
    add("--allow-network", action="store_true", help="leave it the network and your tokens (default: offline)")
    add(
        "--sandbox", choices=("auto", "overlay", "copy"), default="auto",
        help="where its files go: an overlay over the project, a copy, or the first that works (default: auto)",
    )  # fmt: skip
    _add_common(parser)


def _add_fit(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("paths", nargs="*", metavar="PATH", help="scripts, notebooks and launch files (default: this folder)")
    add("--target", metavar="NAME", help="GPU, place or instance to fit (default: t4)")
    add("--model", metavar="NAME", help="the checkpoint that is trained, or a config.json, in place of the program's")
    add("--batch-size", type=_positive_int, metavar="N", help="samples on one GPU at a time")
    add("--sequence-length", type=_positive_int, metavar="N", help="tokens of the longest sample")
    add("--image-size", type=_positive_int, metavar="N", help="pixels of a side of the images")
    add(
        "--output-format", action="append", default=[], metavar="FORMAT[:FILE]",
        help="text or json, to the screen or to a file; may be given several times",
    )  # fmt: skip
    parser.set_defaults(
        stdin_filename=None,
        select=[],
        ignore=[],
        extend_select=[],
        min_confidence=None,
        show_trace=False,
        force_exclude=False,
        isolated=False,
    )


def _add_common(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what is judged").add_argument
    add("--target", metavar="NAME", help="GPU, place or instance to check for (default: t4)")
    add("--select", action="append", default=[], metavar="RULES", help="run only these: rules, families or all")
    add("--ignore", action="append", default=[], metavar="RULES", help="do not run these")
    add("--extend-select", action="append", default=[], metavar="RULES", help="run these too")
    add("--min-confidence", choices=CONFIDENCES, help="show findings that are at least this sure (default: likely)")
    add("--isolated", action="store_true", help="do as if there were no settings files")
    add = parser.add_argument_group("report").add_argument
    add(
        "--output-format", action="append", default=[], metavar="FORMAT[:FILE]",
        help="text (default), concise, json, jsonl, github, sarif, gitlab, junit, rdjson or markdown, to the screen or to "
        "a file; may be given several times",
    )  # fmt: skip
    add("--fail-on", choices=SEVERITIES, help="exit with 1 for findings at least this severe (default: warning)")
    add("--exit-zero", action="store_true", help="exit with 0 also when there are findings")
    add("--statistics", action="store_true", help="count the findings of each rule, on stderr")
    add("--show-trace", action="store_true", help="show what was understood of the program, and what was not")


def _columns(text: str) -> tuple[str, dict[str, str]]:
    name, _, said = text.partition("=")
    columns = dict(pair.strip().split(":", 1) for pair in said.split(",") if ":" in pair)
    if not name or not columns or len(columns) != len(said.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} is not DATASET=COLUMN:TYPE,COLUMN:TYPE")
    return name.strip(), {column.strip(): kind.strip() for column, kind in columns.items()}


def _pairs(text: str) -> int:
    number = _positive_int(text)
    if number < 2:
        raise argparse.ArgumentTypeError("one pair has no interval: at least 2")
    return number


def _positive_int(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return number


def _positive_float(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return number
