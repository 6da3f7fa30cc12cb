"""Tensors that outlive their iteration: summed up or collected over a loop, with the graph that made them or without."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from t4lint.interpret.source import statements_of
from t4lint.interpret.values import Abstract, Const, ListValue, Step, Tensor, Unknown
from t4lint.trace import Keep

if TYPE_CHECKING:
    from t4lint.interpret.machine import Loop, Machine


def summed(
    m: Machine,
    node: ast.AST,
    target: ast.expr,
    term: ast.expr,
    added: Abstract,
    result: Abstract,
) -> Abstract:
    """`target += term`: the sum, which remembers the place when it carries a graph from one iteration to the next."""
    if not m.loops or m.in_forward or not isinstance(result, Tensor) or not has_graph(added):
        return result
    loop = m.loops[-1]
    own = loop.frame is m.frames[-1]
    if isinstance(target, ast.Name) and not own:
        return result  # a local of a function that the loop calls
    body = loop.node.body if own else getattr(getattr(m.frames[-1].function, "node", None), "body", None)
    source = m.frames[-1].source
    if not isinstance(body, list) or source.code(target) in assigned_in(source, body, node):
        return result
    place = say(m, node, "sum", term, (loop,))
    return Tensor(result.facts.but(kept=result.facts.kept | {place}), result.origins)


def grows(m: Machine, sequence: ListValue) -> None:
    """Something is appended: a loop around it may do so more often than it is followed."""
    for loop in m.loops:
        loop.grown.append(sequence)


def appended(m: Machine, receiver: ListValue, value: Abstract) -> Abstract:
    """`receiver.append(value)`: the value as it stands in the list."""
    grows(m, receiver)
    if not m.loops or m.in_forward or not (has_graph(value) or on_gpu(value)):
        return value
    around = [loop.identity for loop in m.loops]
    born = receiver.state.get("loop", "")
    outlived = tuple(m.loops[around.index(born) + 1 :]) if born in around else tuple(m.loops)
    node: Any = m.sites[-1][1]
    if not outlived or not isinstance(node, ast.Call) or not node.args:
        return value  # a list of this iteration
    assert isinstance(value, Tensor)
    place = say(m, node, "list", node.args[0], outlived, graph=value.facts.graph)
    if not value.facts.graph:
        return value
    return Tensor(value.facts.but(kept=value.facts.kept | {place}), value.origins)


def has_graph(value: Abstract) -> bool:
    """Did it come out of a model with gradients on?"""
    return isinstance(value, Tensor) and value.facts.graph and bool(value.facts.models)


def on_gpu(value: Abstract) -> bool:
    """Did it come out of a model, more than one number of each batch, and stay on the GPU?"""
    return (
        isinstance(value, Tensor)
        and bool(value.facts.models)
        and value.facts.device == "cuda"
        and not value.facts.reduced
    )


def say(m: Machine, node: ast.AST, role: str, kept: ast.expr, outlived: tuple[Loop, ...], *, graph: bool = True) -> str:
    source = m.frames[-1].source
    place, text = source.serial(node), source.code(kept)
    with m.at(source, node):
        m.emit(
            Keep,
            role,
            graph=Const(graph),
            value=Const(text, (Step("derived", text, source, kept),)),
            batches=Const(any(loop.batches for loop in outlived)),
        )
    m.globals.setdefault("$kept", {}).setdefault(place, []).append(m.drafts[-1])
    return place


def assigned_in(source: Any, body: list[ast.stmt], besides: ast.AST) -> set[str]:
    """What the statements of a body assign anew, as text; `besides` is a statement that does not count."""
    found: set[str] = set()
    for statement in statements_of(body):
        if not isinstance(statement, ast.Assign) or statement is besides:
            continue
        for target in statement.targets:
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            found.update(source.code(part) for part in parts)
    return found


def finish(m: Machine, uncalled: bool) -> None:
    """What is known at the end: does something go backward through what was kept?"""
    gone: set[str] = m.globals.get("$carried", set())
    handed: set[str] = m.globals.get("$handed", set())
    for place, made in m.globals.get("$kept", {}).items():
        for draft in made:
            open_ = Unknown("it goes into a call that is not known") if place in handed else None
            if uncalled and open_ is None:
                open_ = Unknown("nothing in the project calls this function")
            draft.fields["backward"] = Const(True) if place in gone else open_ or Const(False)
    m.globals.pop("$kept", None)
