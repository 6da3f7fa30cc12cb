"""What a program does where it is out of GPU memory.

A handler is no part of an ordinary run, so it is looked at apart: what it does is told as one event, and leaves no trace else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from t4lint.interpret import expressions, statements
from t4lint.interpret.values import Const, ListValue, Symbol, Unknown
from t4lint.trace import Backward, Call, Forward
from t4lint.trace import Step as OptimizerStep

if TYPE_CHECKING:
    from t4lint.interpret.machine import Machine

# torch 1.13 to 2.15; before, it was a RuntimeError whose text says so
OUT_OF_MEMORY = frozenset({"torch.cuda.OutOfMemoryError", "torch.OutOfMemoryError"})
TOLD_BY_TEXT = frozenset({"builtins.RuntimeError", "builtins.Exception", "builtins.BaseException"})
TEXTS = ("out of memory", "should_reduce_batch_size")
# ways to let go of the frames that an exception holds
RELEASES = ("clear_frames", "__traceback__", "with_traceback(None)")
MAX_DEPTH = 5  # nested tests in a handler


def look(m: Machine, node: ast.Try) -> None:
    """Say what the handlers of a `try` do on the GPU when memory has run out; once for each of them."""
    done: set[int] = m.globals.setdefault("$handlers", set())
    for handler in node.handlers:
        if id(handler) in done:
            continue
        done.add(id(handler))
        if catches(m, handler) and not any(word in m.frames[-1].source.code(handler) for word in RELEASES):
            _say(m, handler)


def catches(m: Machine, handler: ast.ExceptHandler) -> bool:
    """Is it for an error of too little GPU memory, and does it know so?"""
    if handler.type is None:
        names = {"builtins.BaseException"}
    else:
        kinds = expressions.evaluate(m, handler.type)
        parts = kinds.items if isinstance(kinds, ListValue) else (kinds,)
        names = {part.name for part in parts if isinstance(part, Symbol)}
    if names & OUT_OF_MEMORY:
        return True
    return bool(names & TOLD_BY_TEXT) and any(text in m.frames[-1].source.code(handler) for text in TEXTS)


def _say(m: Machine, handler: ast.ExceptHandler) -> None:
    drafts, gaps, entered, entries = len(m.drafts), len(m.gaps), set(m.entered), dict(m.entries)
    seen = set(m.backward_in), set(m.stepped_in), set(m.surely_stepped_in)
    test = f"out of memory {m.frames[-1].source.serial(handler)}"

    def run() -> ast.stmt | None:
        if handler.name is not None:
            statements.bind(m, handler.name, Unknown("an exception"))
        return _trains(m, handler.body, 0)

    with m.assuming(test, True):
        found, _ = m.captured(run)
    del m.drafts[drafts:]
    del m.gaps[gaps:]
    m.entered, m.entries = entered, entries
    m.backward_in, m.stepped_in, m.surely_stepped_in = seen
    if found is not None:
        with m.at(m.frames[-1].source, found):
            m.emit(Call, "out of memory", function="except OutOfMemoryError", arguments={"computes": Const(True)})


def _trains(m: Machine, body: Sequence[ast.stmt], depth: int) -> ast.stmt | None:
    """The first statement that computes with a model on the GPU; both sides of a test are looked at."""
    for statement in body:
        if isinstance(statement, ast.If) and depth < MAX_DEPTH:
            for branch in _branches(statement):
                found = _trains(m, branch, depth + 1)
                if found is not None:
                    return found
            continue
        before = len(m.drafts)
        ending = statements.execute(m, statement)
        if any(_computes(draft.kind, draft.fields.get("device")) for draft in m.drafts[before:]):
            return statement
        if ending is not None:
            return None
    return None


def _branches(node: ast.If) -> Iterator[Sequence[ast.stmt]]:
    yield node.body
    if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        yield from _branches(node.orelse[0])
    elif node.orelse:
        yield node.orelse


def _computes(kind: type, device: object) -> bool:
    on_cpu = isinstance(device, Const) and device.value == "cpu"
    return kind in (Forward, Backward, OptimizerStep) and not on_cpu
