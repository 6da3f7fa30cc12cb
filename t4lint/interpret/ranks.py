"""What differs between the processes of a run.

The trace is that of the first process: its number is the constant 0, marked in its provenance as RANK, LOCAL_RANK or what
was computed from one (`PER_PROCESS`). A branch on such a value is taken by some of the processes only.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from t4lint.interpret.values import LOCAL_RANK, PER_PROCESS, RANK, Abstract, Const, Provenance, Step, replace_origins
from t4lint.trace import whole_number

if TYPE_CHECKING:
    from t4lint.interpret.machine import Machine

MARKS = (RANK, LOCAL_RANK, PER_PROCESS)
# Names that tests on the number of a process use: enough to see that another branch is for the other processes.
_NAMED = re.compile(r"rank|main_process|master|world_process_zero|primary|is_main", re.IGNORECASE)


def by_process(value: Abstract) -> bool:
    """Does the value differ between the processes?"""
    return any(step is mark for step in value.origins for mark in MARKS)


def unmarked(steps: Provenance) -> Provenance:
    return tuple(step for step in steps if not any(step is mark for mark in MARKS))


def computed(name: str, left: Abstract, right: Abstract, result: Abstract) -> Abstract:
    """The result of arithmetic with a process's number: it differs by process, and is no rank any more.

    A text that holds the number (`"cuda:0"`) still tells which one it is.
    """
    if not by_process(result):
        return result
    is_text = any(isinstance(side, Const) and isinstance(side.value, str) for side in (left, right))
    if name == "Add" and is_text:
        return result
    return replace_origins(result, (*unmarked(result.origins), PER_PROCESS))


def marked(value: Abstract, *others: Abstract) -> Abstract:
    """The value, which differs between the processes where one of the others does."""
    marks = tuple(step for other in others for step in other.origins if any(step is mark for mark in MARKS))
    missing = tuple(step for step in dict.fromkeys(marks) if not any(step is own for own in value.origins))
    return replace_origins(value, (*value.origins, *missing)) if missing else value


def next_process(value: Abstract) -> Abstract:
    """The value as the next process has it."""
    if isinstance(value, Const) and by_process(value):
        if isinstance(value.value, int) and not isinstance(value.value, bool):
            return Const(value.value + 1, value.origins)
        if isinstance(value.value, str) and (number := whole_number(value.value)) is not None:
            return Const(str(number + 1), value.origins)
    return value


def same_for_all(result: Abstract, next_result: Abstract) -> Abstract:
    """The answer of a test without its mark where the next process gets the same: `rank >= 0`, `local_rank != -1`."""
    if isinstance(next_result, Const) and isinstance(result, Const) and result.value == next_result.value:
        return replace_origins(result, unmarked(result.origins))
    return result


# --- branches ----------------------------------------------------------------------------------------------------


def guard_of(m: Machine) -> tuple[Any, ast.If] | None:
    """The innermost branch around what is being run that only some of the processes take: its module and node."""
    for frame in reversed(m.frames):
        if frame.apart:
            return frame.source, frame.apart[-1]
    return None


def who_runs(m: Machine, called: str) -> Abstract:
    """Which processes make a call: "all", those of a branch with its place, or unknown where others may make it too."""
    from t4lint.interpret.values import Unknown

    if m.uncalled:
        return Unknown("nothing in the project calls this function")
    guard = guard_of(m)
    if guard is None:
        return Const("all")
    source, node = guard
    function = next((frame.function for frame in reversed(m.frames) if frame.apart), None)
    surroundings = function.node if function is not None else source.tree
    if _elsewhere(source, surroundings, node, called):
        return Unknown("the other processes may make the same call in another branch")
    step = Step("derived", "only some of the processes get here", source, node.test)
    return Const("some", (step,))


def _elsewhere(source: Any, surroundings: ast.AST, guard: ast.AST, called: str) -> bool:
    """Is the same function also called in a branch for other processes?"""
    short = called.rpartition(".")[2]
    pending: list[tuple[ast.AST, bool]] = [(surroundings, False)]
    while pending:
        node, under = pending.pop()
        if isinstance(node, ast.Call) and under:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name == short:
                return True
        if isinstance(node, ast.If):
            named = under or bool(_NAMED.search(source.code(node.test)))
            if node is not guard:
                pending.extend((child, named) for child in node.body)
            pending.extend((child, named or node is guard) for child in node.orelse)
            continue
        pending.extend((child, under) for child in ast.iter_child_nodes(node))
    return False
