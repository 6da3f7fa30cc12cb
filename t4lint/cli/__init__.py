"""The command line. Nothing heavy is imported before it is known to be needed.

Exit codes: 0 clean, 1 findings at or above `--fail-on`, 2 could not run as asked.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from t4lint.cli.flags import parser
from t4lint.cli.usage import CLEAN, COMMANDS, FAILED, FOUND, INTERRUPTED, UsageError, complain, spoken

__all__ = ["CLEAN", "COMMANDS", "FAILED", "FOUND", "INTERRUPTED", "main", "parser"]

OWN_MODULE = ("check", "verify", "fit")  # commands with a module of their name; the others are pages


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    if "_ARGCOMPLETE" in os.environ:
        from t4lint.completion import answer

        answer(parser(), COMMANDS)
    _open_streams()
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except UsageError as error:
        return complain(str(error))
    except SystemExit as end:  # argparse, after --help, --version and mistakes
        return end.code if isinstance(end.code, int) else CLEAN
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        from t4lint.report.outputs import silence

        silence()
        return CLEAN
    except Exception as error:
        from t4lint.report.outputs import OutputError

        if isinstance(error, OutputError):
            return complain(str(error))
        if os.environ.get("T4LINT_DEBUG"):
            raise
        what = " ".join(f"{type(error).__name__}: {error}".split())
        return complain(f"internal error, please report it: {what} (T4LINT_DEBUG=1 shows where)")


def _open_streams() -> None:
    """Where the shell has closed them (`>&-`) Python has none."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


def _run(argv: list[str]) -> int:
    argv, language = _language(argv)
    flags, rest = _split(argv)
    args = parser(spoken.language).parse_args(flags)
    args.rest, args.language = rest, language
    module = import_module(f"t4lint.cli.{args.command if args.command in OWN_MODULE else 'pages'}")
    run: Callable[[argparse.Namespace], int] = getattr(module, f"{args.command}_command")
    return run(args)


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
    spoken.language = language.chosen(given)
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
