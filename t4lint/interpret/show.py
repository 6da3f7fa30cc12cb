"""What a program was understood to do, in lines for people: the tool to debug a wrong verdict."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields

from t4lint.interpret.machine import Machine
from t4lint.interpret.run import Interpretation
from t4lint.interpret.worlds import Worlds
from t4lint.trace import Event, Value

SKIPPED = frozenset({"where", "role", "subject", "loops", "step", "micro", "phase", "guards", "evidence"})
MAX_LINES = 400
WIDTH = 60  # characters of one value


def lines(interpretation: Interpretation, title: str) -> Iterator[str]:
    """The events of a run in order, the gaps, and what was given up."""
    yield f"trace of {title}"
    for segment in interpretation.segments:
        if segment.uncalled:
            yield "  a function that nothing calls:"
        worlds = Worlds(interpretation.machine, segment, {}, launched=True)
        tests = Tests(interpretation.machine)
        seen: Counter[str] = Counter(
            described(worlds.build(draft, {}), len(draft.loops), tests) for draft in segment.drafts
        )
        for number, (line, times) in enumerate(seen.items()):
            if number == MAX_LINES:
                yield f"  ... and {len(seen) - MAX_LINES} more"
                break
            yield f"  {line}" + (f"  (x{times})" if times > 1 else "")
        for why in dict.fromkeys(gap.why for gap in segment.gaps):
            yield f"  unknown from here on: {why}"
    for note, times in Counter(interpretation.machine.notes).items():
        yield f"  given up: {note}" + (f" (x{times})" if times > 1 else "")


class Tests:
    """The undecided tests of a run as a person would name them: by their text and place."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.known: dict[str, str] = {}

    def __call__(self, test: str, side: bool) -> str:
        if test not in self.known:
            self.known[test] = self.text(test)
        return self.known[test] if side else f"not ({self.known[test]})"

    def text(self, test: str) -> str:
        source, node = self.machine.tests.get(test, (None, None))
        if source is None or node is None:
            return NUMBERS.sub("…", test)
        where = source.location(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            node = node.operand  # the name of a negated test is that of what it negates
        code = " ".join(source.code(node).split())
        return f"{cut(code, WIDTH)} [{where.path}:{where.line}]"


NUMBERS = re.compile(r"@\d+|\b\d{6,}\b|\bu\d+\b")  # identities of values


def described(event: Event, depth: int, tests: Tests) -> str:
    """One event: place, kind, what is known, and why the rest is not."""
    place = f"{event.where.path}:{event.where.line}"
    parts = [f"{item.name}={shown(getattr(event, item.name))}" for item in fields(event) if said(event, item.name)]
    guards = " if " + " and ".join(sorted(tests(test, side) for test, side in event.guards)) if event.guards else ""
    role = f" ({event.role})" if event.role else ""
    return f"{place:<32} {'  ' * depth}{type(event).__name__}{role} {', '.join(parts)}{cut(guards, 240)}".rstrip()


def said(event: Event, name: str) -> bool:
    if name in SKIPPED:
        return False
    value = getattr(event, name)
    if isinstance(value, Value):
        return value.known or value.unknown != "the trace does not say"
    return bool(value)


def shown(value: object) -> str:
    if isinstance(value, Value):
        if not value.known:
            return f"? ({cut(value.unknown, WIDTH)})"
        return cut(repr(value.it), WIDTH) + ("~" if value.likely else "")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shown(item)}" for key, item in list(value.items())[:8]) + "}"
    return cut(str(value), WIDTH)


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
