"""What was asked for, and where stand-ins are told of."""

# os.path is loaded anyway; pathlib would cost every process its import.
# ruff: noqa: PTH110, PTH111

from __future__ import annotations

import json
import os
from typing import Any

from .. import journal
from ..frames import look


def data() -> bool:
    """May data sets be made up?"""
    return os.environ.get("T4LINT_SYNTHETIC") == "1"


def weights() -> bool:
    """May models be made of their shapes alone?"""
    return data() or bool(os.environ.get("T4LINT_PHANTOM"))


def columns() -> dict[str, dict[str, str]]:
    """Columns that the person has said, as {data set: {column: type}}."""
    given: dict[str, dict[str, str]] = json.loads(os.environ.get("T4LINT_COLUMNS") or "{}")
    return given


def told(kind: str, name: Any, how: str) -> None:
    """Something stands in for `name`. `how`: what it was made from, for people."""
    journal.fact("stand_in", look(), what=kind, name=str(name), how=how)


def lacking(kind: str, name: Any, advice: str) -> None:
    """Nothing could stand in. `advice`: what to provide."""
    journal.fact("lacking", look(), what=kind, name=str(name), advice=advice)


def is_hub_name(name: Any) -> bool:
    """Could it be the name of a repository on a hub, and not a path of this machine?"""
    if not isinstance(name, str) or not name or os.path.exists(os.path.expanduser(name)):
        return False
    return not name.startswith(("/", ".", "~")) and name.count("/") <= 1 and "\\" not in name and "://" not in name
