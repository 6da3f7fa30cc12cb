"""What every command needs to speak to the person who typed it: exit codes, errors, the language."""

from __future__ import annotations

import sys
from collections.abc import Iterable

CLEAN, FOUND, FAILED, INTERRUPTED = 0, 1, 2, 130
COMMANDS = ("check", "verify", "fit", "explain", "rules", "settings", "targets", "doctor", "completion", "server")
# As in t4lint/rule.py, which is not imported for `--help`.
SEVERITIES = ("error", "warning", "note")


class UsageError(Exception):
    """t4lint cannot do what was asked; the message says why, to the person who asked."""


class _Spoken:
    """The language in which t4lint speaks to this person, for errors too."""

    language = "en"


spoken = _Spoken()


def complain(message: str) -> int:
    print(f"t4lint: {say('error')}: {say(message)}", file=sys.stderr)
    return FAILED


def say(text: str, context: str = "problem") -> str:
    """An error in the person's language."""
    if spoken.language == "en":
        return text
    from t4lint.language import phrase

    return phrase(text, spoken.language, context)


def suggestion(name: str, known: Iterable[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""
