"""Tensors that outlive their iteration with their graph: seen where a loop asks its loader for the next batch.

What is looked at are the variables of the frame that runs the loop, and the attributes of its `self`: a sum that has grown by two
terms or more, or a list that holds two tensors with a graph or more.
"""

from __future__ import annotations

import sys
from typing import Any

from . import journal
from .frames import below_root, look
from .journal import fact
from .probe import wrap

NODES = 64  # of a graph that are looked at in a backward
MARK = "_t4lint_kept"


def install(torch: Any) -> None:
    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        frame = sys._getframe(1)
        while frame is not None and below_root(frame.f_code.co_filename) is None:
            frame = frame.f_back  # type: ignore[assignment]
        if frame is None:
            return
        for name, value in list(_variables(frame)):
            _look_at(torch, name, value)

    wrap(torch.utils.data.dataloader._BaseDataLoaderIter, "__next__", before)


def note_backward(root: Any) -> None:
    """Does a backward go through something that was kept?"""
    pending = [getattr(root, "grad_fn", None)]
    for _ in range(NODES):
        if not pending:
            return
        node = pending.pop(0)
        if node is None:
            continue
        if MARK in node.metadata:
            fact("kept_backward", None, key=node.metadata[MARK])
        pending.extend(parent for parent, _ in node.next_functions)


def _variables(frame: Any) -> Any:
    for name, value in frame.f_locals.items():
        yield name, value
        if name == "self" and hasattr(value, "__dict__"):
            yield from ((f"self.{key}", held) for key, held in vars(value).items())


def _look_at(torch: Any, name: str, value: Any) -> None:
    try:
        if type(value) is list and len(value) > 1:
            nodes = [item.grad_fn for item in value[-2:] if type(item) is torch.Tensor and item.grad_fn is not None]
            if len(nodes) == 2:
                _say(name, "list", nodes)
        elif type(value) is torch.Tensor and value.grad_fn is not None and not value.dim():
            node = value.grad_fn
            if _is_sum(node) and any(_is_sum(parent) for parent, _ in node.next_functions):
                _say(name, "sum", [node])
    except Exception as error:
        journal.trouble("kept tensors", error)


def _say(name: str, role: str, nodes: list[Any]) -> None:
    site = look()
    key = f"{role} {name} at {site.user[0] if site.user else None}"
    for node in nodes:
        node.metadata[MARK] = key
    fact("keep", site, role=role, name=name, key=key)


def _is_sum(node: Any) -> bool:
    return node is not None and node.name().startswith("Add")
