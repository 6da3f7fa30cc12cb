"""`t4lint fit`: what fills the card."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from t4lint import __version__
from t4lint.cli.inputs import asked_of, catch_unknown_target, given_paths, options_of, wanted_outputs, working_folder
from t4lint.cli.usage import CLEAN, FAILED, FOUND, UsageError

if TYPE_CHECKING:
    from t4lint.fit import FitReport
    from t4lint.report.outputs import Output


def fit_command(args: argparse.Namespace) -> int:
    """What fills the card: 0 where all that was measured may fit, 1 where something does not, 2 where too little is known."""
    from t4lint.devices import find_target
    from t4lint.findings import Report
    from t4lint.fit import FitReport, fit
    from t4lint.memory.reading import Given

    wanted = wanted_outputs(args.output_format, ("text", "json"))
    working_folder()
    paths, text = given_paths(args)
    asked = asked_of(args, paths)
    options = options_of(args, asked, text)
    if args.target:
        catch_unknown_target(args)
    problems = asked.base.problems
    if not problems and find_target(options.target).gpu is None:
        raise UsageError(f"{options.target} has no GPU to fill")
    given = Given(args.model, args.batch_size, args.sequence_length, args.image_size)
    failed = Report(target=options.target, findings=(), problems=problems, runs=(), files=0)
    found = FitReport(failed) if problems else fit(paths, options, given)
    _deliver_fit(found, wanted, args.language)
    answers = {it.answer for it in found.fits}
    if found.report.problems or not answers or answers == {"unknown"}:
        return FAILED
    return FOUND if "does not fit" in answers else CLEAN


def _deliver_fit(found: FitReport, wanted: tuple[Output, ...], language: str | None) -> None:
    from t4lint.report import fit_json, outputs

    for output in wanted:
        made = (
            fit_json.render(found, version=__version__)
            if output.format == "json"
            else _fit_text(found, output, language)
        )
        if output.file is None:
            outputs.to_screen(made, json=output.format == "json")
        else:
            output.file.write_text(made, encoding="utf-8")


def _fit_text(found: FitReport, output: Output, language: str | None) -> str:
    from t4lint.language import chosen
    from t4lint.report import fit_text, outputs

    screen = output.file is None
    width = outputs.terminal_width() if screen and outputs.is_terminal() else outputs.PIPED_WIDTH
    colour = screen and outputs.has_colour(sys.stdout)
    return fit_text.render(found, colour=colour, width=width, language=chosen(language))
