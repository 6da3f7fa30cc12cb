"""`t4lint verify`: run a command, and say which findings hold."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t4lint import __version__
from t4lint.cli.delivery import deliver
from t4lint.cli.flags import DEFAULT_STEPS
from t4lint.cli.inputs import asked_of, only_new, options_of, reported, wanted_outputs, working_folder
from t4lint.cli.usage import UsageError, say, spoken

if TYPE_CHECKING:
    from t4lint.asked import Asked
    from t4lint.changes import OnlyNew
    from t4lint.findings import Report
    from t4lint.record.launch import Limits, Recording

VERIFY_EXAMPLE = "t4lint verify -- python train.py --epochs 1"


def verify_command(args: argparse.Namespace) -> int:
    if args.changed:
        return _verify_changed(args)
    if not args.rest:
        raise UsageError(f"verify needs the command to run, after two dashes: {VERIFY_EXAMPLE}")
    wanted = wanted_outputs(args.output_format)
    from t4lint.verify import program_of

    asked = asked_of(args, [program_of(args.rest, working_folder()) or working_folder()])
    _catch_undrawable(args)
    from t4lint.report.screen import Screen

    screen = Screen(language=spoken.language)

    def verify() -> Report:
        from t4lint.record.launch import Limits, listening
        from t4lint.verify import verify

        limits = _limits(args)
        screen.announce(args.rest, Path.cwd(), limits)
        more: dict[str, Any] = {} if limits == Limits(limits.steps, args.timeout) else {"limits": limits}
        if args.measure:
            more |= {"pairs": args.pairs, "progress": screen.measures}
        with listening(screen):
            options = options_of(args, asked)
            return verify(
                args.rest, options=options, device=args.device, steps=limits.steps, timeout=args.timeout, **more
            )

    report = reported(args, asked, verify)
    if args.diff_base:
        report = _only_changed(args, asked).of(report)
    code = deliver(args, asked, report, wanted)
    if any(output.format == "text" and output.file is None for output in wanted):
        _show_verdicts(report)
    if args.report is not None and screen.recording is not None:
        _draw(args.report, report, screen.recording)
    return code


def _only_changed(args: argparse.Namespace, asked: Asked) -> OnlyNew:
    args.baseline = None
    return only_new(args, asked)


def _verify_changed(args: argparse.Namespace) -> int:
    """`--changed`: the commands of the scripts that have findings on changed lines, one after the other."""
    if args.rest or not args.diff_base:
        raise UsageError("--changed finds the commands itself, from --diff-base REF: give that, and no command")
    if args.measure or args.report is not None:
        raise UsageError("--changed does not go with --measure or --report: verify one command with these")
    wanted = wanted_outputs(args.output_format)
    asked = asked_of(args, [working_folder()])
    only = _only_changed(args, asked)

    def verify() -> Report:
        from t4lint import changed, engine
        from t4lint.record.launch import listening
        from t4lint.report.screen import Screen
        from t4lint.verify import verify

        limits = _limits(args)

        def run(words: list[str]) -> Report:
            screen = Screen(language=spoken.language)
            screen.announce(words, Path.cwd(), limits)
            with listening(screen):
                return verify(
                    words, options=options_of(args, asked), device=args.device, steps=limits.steps, timeout=args.timeout,
                    limits=limits,
                )  # fmt: skip

        return changed.verified(only.of(engine.check([Path.cwd()], options_of(args, asked))), only.of, run)

    report = reported(args, asked, verify)
    code = deliver(args, asked, report, wanted)
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
    print(say(f"the run is drawn in {file}"), file=sys.stderr)


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
    from t4lint.language import translated
    from t4lint.report import outputs
    from t4lint.report.screen import table

    text = table(translated(report, spoken.language), outputs.has_colour(sys.stdout))
    if text:
        outputs.to_screen("\n" + text)
