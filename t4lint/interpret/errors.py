"""Errors that are reached on what is only presumed or roughly known: a program that people run does not end there.

`if not args.data: raise` with a default that no launch overrides, a factory that knows none of the names that t4lint reads:
whoever starts the program gives what it asks for. What follows is read as if they had. An error that the target causes
(`if not bf16_supported: raise`), one that a handler takes, and one under a test that is not decided stay what they are.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from t4lint.interpret import statements
from t4lint.interpret.source import statements_of
from t4lint.interpret.values import PRESUMED, Abstract, Function, Step, Unknown

if TYPE_CHECKING:
    from t4lint.interpret.machine import Machine

MAX_BRANCHES = 8  # of a chain that are tried when none of its tests holds


def note(m: Machine, because: Sequence[Step], error: bool = True) -> None:
    """The program ends at a `raise`, a failed `assert` or, if no `error`, an exit; `because` of these steps."""
    m.ended = "target" if any(step.how == "target" for step in because) else "error" if error else "exit"


def unexpected(m: Machine) -> bool:
    """Did the program just end with an error of its own, on the only way that there is?"""
    frame = m.frames[-1]
    return m.ended == "error" and not m.catching and m.forks == frame.forks


def instead(m: Machine, node: ast.If, test: Abstract, chained: bool) -> Any:
    """What happens where the branch that was taken ends the program: another one is taken. `chained`: it is an `elif`."""
    given = m.ended == "exit" and PRESUMED in test.origins and not m.catching and m.forks == m.frames[-1].forks
    if any(step.how == "target" for step in test.origins) or not (given or unexpected(m)):
        return statements.DEAD
    if m.died is node.body:
        return statements.run(m, node.orelse)
    if chained:
        return statements.DEAD  # the head of the chain knows all branches
    bodies = [it.body for it in _chain(node) if not isinstance(it.body[-1], ast.Raise)]
    if m.died in bodies or not bodies:
        return statements.DEAD
    if len(bodies) > MAX_BRANCHES:
        return None
    before = m.control
    m.control = (*before, PRESUMED)
    try:
        return _one_of(m, node, bodies)
    finally:
        m.control = before


def _chain(node: ast.If) -> list[ast.If]:
    """An `if` with its `elif`."""
    chain = [node]
    while len(chain[-1].orelse) == 1 and isinstance(following := chain[-1].orelse[0], ast.If):
        chain.append(following)
    return chain


def _one_of(m: Machine, node: ast.If, bodies: Sequence[list[ast.stmt]]) -> Any:
    """One of the branches, it is not known which."""
    if len(bodies) == 1:
        return statements.run(m, bodies[0])
    name = f"branch {len(bodies)} of {m.frames[-1].source.serial(node)}"
    return statements.branch(
        m,
        Unknown("no branch is for the value that was read", uid=name),
        lambda: statements.run(m, bodies[0]),
        lambda: _one_of(m, node, bodies[1:]),
    )


def result(m: Machine, function: Function) -> Abstract | None:
    """The value of a call that ended with an error; None where the program really ends with it."""
    if m.ended != "error" or m.catching:
        return None
    node = function.node
    body = [] if isinstance(node, ast.Lambda) else node.body
    abstract = bool(body) and isinstance(body[-1], ast.Raise) and "NotImplementedError" in ast.dump(body[-1])
    gives = any(isinstance(it, ast.Return) and it.value is not None for it in statements_of(body))
    if not abstract and not gives:
        return None  # a function that is there to end the program
    return Unknown(f"{function.name} ends with an error for what is known here", varies=bool(m.loops))
