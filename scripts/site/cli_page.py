"""The page of the command line, from the parser itself."""

from __future__ import annotations

import argparse

from t4lint.cli import parser

HEAD = """\
# The command line

<!-- Made from the parser: what `t4lint COMMAND --help` prints. -->

`t4lint PATH` is `t4lint check PATH`. Exit codes: 0 clean, 1 findings at or above `--fail-on`, 2 t4lint could not do what it
was asked.
"""
WIDTH = 92


def page() -> str:
    """Each command with its flags."""
    return "\n".join([HEAD, *(f"## t4lint {name}\n\n```text\n{_help(it)}\n```\n" for name, it in commands().items())])


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parsers of the commands, by name."""
    actions = parser()._actions
    found = next(it for it in actions if isinstance(it, argparse._SubParsersAction))
    return dict(found.choices)


def _help(of: argparse.ArgumentParser) -> str:
    of.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=WIDTH, max_help_position=28)  # type: ignore[assignment]
    return of.format_help().strip()
