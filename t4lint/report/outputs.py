"""Where reports go: `FORMAT` for the screen, `FORMAT:FILE` for a file. A renderer is imported when it is used."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

from t4lint.language import ENGLISH, asked, chosen, translated

if TYPE_CHECKING:
    from t4lint.findings import Report
    from t4lint.report.text import Place

FORMATS = ("text", "concise", "json", "jsonl", "github", "sarif", "gitlab", "junit", "rdjson", "markdown")
FOR_PEOPLE = frozenset({"text", "concise", "markdown"})
JSON = frozenset({"json", "jsonl", "sarif", "gitlab", "rdjson"})
BESIDE = ({"text", "github"}, {"concise", "github"})  # the log of a workflow has room for both
MODULES = {"json": "json_report"}  # where the renderer of a format is, if not in a module of its name
PIPED_WIDTH = 120  # cells that a line of code may take where no terminal says how wide it is


class OutputError(ValueError):
    """An output that was asked for cannot be had; the message is for people."""


class Output(NamedTuple):
    """One report to write; without a file it goes to the screen."""

    format: str
    file: Path | None = None


def parse(given: Sequence[str], known: Sequence[str] = FORMATS) -> tuple[Output, ...]:
    """What the `--output-format` flags ask for. When there is none: text on the screen, in a GitHub workflow with annotations."""
    outputs = tuple(dict.fromkeys(_parse_one(text, known) for text in given)) if given else _default(known)
    screen = {output.format for output in outputs if output.file is None}
    if len(screen) > 1 and screen not in BESIDE:
        raise OutputError("only one format can go to the screen; give the others a file, e.g. json:report.json")
    return outputs


def _default(known: Sequence[str]) -> tuple[Output, ...]:
    in_workflow = os.environ.get("GITHUB_ACTIONS") == "true" and "github" in known
    return (Output("text"), Output("github")) if in_workflow else (Output("text"),)


def _parse_one(text: str, known: Sequence[str]) -> Output:
    name, colon, file = text.partition(":")
    if name not in known:
        raise OutputError(f"unknown output format {name!r}; the formats are {', '.join(known)}")
    if colon and not file:
        raise OutputError(f"{text!r} names no file; write {name} alone, or {name}:FILE")
    return Output(name, Path(file) if file and file != "-" else None)


def write(
    report: Report, outputs: Iterable[Output], *, version: str, verbose: bool = False, language: str | None = None
) -> None:
    """Write the report everywhere that it was asked for. When all of it goes to files, a summary goes to stderr."""
    outputs = tuple(outputs)
    screen = [output.format for output in outputs if output.file is None]
    for output in outputs:
        shown = spoken(report, output, language)
        text = render(shown, output, version=version, verbose=verbose)
        if output.file is not None:
            _to_file(output.file, text)
        else:
            _to_screen(shown, output.format, text, beside=len(screen) > 1)
    if not screen:
        from t4lint.report.text import summary

        print(summary(translated(report, chosen(language))), file=sys.stderr)


def spoken(report: Report, output: Output, language: str | None) -> Report:
    """The report in the language of an output.

    What people read is in `language`, else in that of their system; what programs read is English unless a language was asked for.
    """
    return translated(report, chosen(language) if output.format in FOR_PEOPLE else asked(language) or ENGLISH)


def _to_screen(report: Report, format: str, text: str, *, beside: bool) -> None:
    if format == "github":
        from t4lint.report.github import write_summary

        write_summary(report)
    elif format not in JSON and (beside or os.environ.get("GITHUB_ACTIONS") == "true"):
        from t4lint.report.github import inert

        text = inert(text)
    to_screen(text, json=format in JSON)


def render(
    report: Report, output: Output, *, version: str, verbose: bool = False, shown: Collection[Place] = ()
) -> str:
    """The report in one format; as text without the findings that were shown before."""
    if output.format != "text":
        module = import_module(f"t4lint.report.{MODULES.get(output.format, output.format)}")
        text: str = module.render(report, version=version)
        return text
    from t4lint.report.text import render as render_text

    if output.file is not None or not is_terminal():
        colour = output.file is None and has_colour(sys.stdout)
        return render_text(report, colour=colour, width=PIPED_WIDTH, verbose=verbose)
    width = terminal_width()
    return render_text(report, colour=has_colour(sys.stdout), width=width, wrap=True, verbose=verbose, shown=shown)


def look(format: str) -> tuple[object, ...] | None:
    """What a report on the screen depends on besides its content; None for formats that look at more than that."""
    if format not in ("text", "concise", "json"):
        return None
    width = terminal_width() if is_terminal() else 0
    return (format, is_terminal(), width, has_colour(sys.stdout))


def is_terminal() -> bool:
    """Does a person look at stdout?"""
    return sys.stdout.isatty()


def terminal_width() -> int:
    """The width of the terminal, in cells."""
    return shutil.get_terminal_size().columns


def has_colour(stream: TextIO) -> bool:
    """Colour on a terminal; NO_COLOR and FORCE_COLOR have their usual meaning."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def to_screen(text: str, *, json: bool = False) -> None:
    """Write to stdout, whatever it can encode. A reader that has gone away (`| head`) is no fault."""
    try:
        sys.stdout.write(_encodable(text, sys.stdout.encoding or "utf-8", json=json))
        sys.stdout.flush()
    except BrokenPipeError:
        silence()
    except OSError as error:
        silence()
        raise OutputError(f"cannot write to stdout: {error.strerror or error}") from error


def silence() -> None:
    """Nobody reads stdout any more: keep Python from complaining about it when it exits."""
    with suppress(OSError, ValueError, io.UnsupportedOperation):  # where stdout is not a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _encodable(text: str, encoding: str, *, json: bool) -> str:
    """What an old terminal cannot show is spelled out, in JSON in JSON's own way."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        from json import dumps

        if json:
            return re.sub(r"[^\x00-\x7f]+", lambda found: dumps(found[0])[1:-1], text)
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text


def _to_file(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise OutputError(f"cannot write {file}: {error.strerror or error}") from error
