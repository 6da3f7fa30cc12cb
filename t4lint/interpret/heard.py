"""What library calls were given in a run, argument by argument: for people who ask what a setting will be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from t4lint.interpret.worlds import Segment, Worlds
from t4lint.trace import Location, Value

if TYPE_CHECKING:
    from t4lint.interpret.machine import Machine


@dataclass(frozen=True, slots=True)
class Argument:
    """A keyword argument of a library call. `where` is the expression as written, `around` the whole argument."""

    function: str
    name: str
    value: Value
    where: Location
    around: Location


def arguments(machine: Machine, launched: bool) -> Iterator[Argument]:
    """The arguments that a machine has heard (`Machine.heard`), with their values and provenance."""
    worlds = Worlds(machine, Segment([], []), {}, launched)
    for call in machine.heard or ():
        if not isinstance(call.node, ast.Call):
            continue
        for written in call.node.keywords:
            name = written.arg
            if name is None or name not in call.arguments.keywords:
                continue
            value = worlds.value(call.arguments.keywords[name], {})
            around = call.source.location(written)
            yield Argument(call.function, name, value, call.source.location(written.value), around)
