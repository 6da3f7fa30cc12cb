"""The parser of the command line: every command with its flags. Nothing heavy is imported here."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from t4lint import __version__
from t4lint.cli.usage import FAILED, SEVERITIES, say

CONFIDENCES = ("certain", "likely", "possible")
DEFAULT_STEPS = 3  # optimizer steps that verify runs
SHELLS = ("bash", "zsh", "fish")  # as in t4lint/completion.py
LANGUAGE_HELP = "English or Chinese (default: T4LINT_LANG, else the locale)"


class _Parser(argparse.ArgumentParser):
    """argparse, with mistakes told in one line."""

    usage_title: str | None = None  # in another language

    def format_help(self) -> str:
        text = super().format_help()
        return text.replace("usage: ", self.usage_title, 1) if self.usage_title else text

    def error(self, message: str) -> NoReturn:
        hint = say(f"(see `{self.prog} --help`)")
        self.exit(FAILED, f"t4lint: {say('error')}: {say(message, 'argparse')} {hint}\n")


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

    def command(name: str, text: str, usage: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text, usage=usage, allow_abbrev=False)
        added.set_defaults(command=name)
        added.add_argument("--language", choices=("en", "zh"), help=LANGUAGE_HELP)
        return added

    _add_check(command("check", "check files and folders", "t4lint [check] [FLAGS] [PATH ...]"))
    _add_verify(
        command(
            "verify",
            "run a training command and see which findings hold",
            "t4lint verify [FLAGS] (-- COMMAND ... | NOTEBOOK)",
        )
    )
    _add_fit(command("fit", "say what fills the card, and what would make it fit", "t4lint fit [FLAGS] PATH ..."))
    explain = command("explain", "show the page of a rule", "t4lint explain RULE")
    explain.add_argument("rule", metavar="RULE", help="its name, as findings and `t4lint rules` give it")
    rules = command("rules", "list the rules", "t4lint rules [--output-format json]")
    rules.add_argument("--output-format", choices=("text", "json"), default="text")
    shown = command("settings", "show the settings of a file, and where each comes from", "t4lint settings [FILE]")
    shown.add_argument("path", nargs="?", default=".", metavar="FILE", help="a file or folder (default: this folder)")
    shown.add_argument("--output-format", choices=("text", "json"), default="text")
    shown.add_argument("--schema", action="store_true", help="print the JSON schema of the settings, for editors")
    command("server", "answer an editor (language server, over stdin and stdout)", "t4lint server")
    doctor = command("doctor", "say what there is on this machine, and what verify can do here", "t4lint doctor")
    doctor.add_argument("--output-format", choices=("text", "json"), default="text")
    shells = command("completion", "print a completion script for a shell", "t4lint completion SHELL")
    shells.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")
    shown = command("targets", "list the GPUs, places and instances that --target knows", "t4lint targets [NAME ...]")
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
