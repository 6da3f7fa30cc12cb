"""What a module is made of, as far as the project says it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from t4lint.interpret.values import Abstract, DictValue, Instance, ListValue, Object, leaves

MAX_DEPTH = 5  # of modules inside modules


def child_modules(module: Any) -> list[Abstract]:
    """The modules of a container."""
    parts: list[Abstract] = []
    children = module.attributes.get("$children") if isinstance(module, (Object, Instance)) else None
    for child in children.items if isinstance(children, ListValue) else ():
        if isinstance(child, ListValue):
            parts.extend(child.items)
        elif isinstance(child, DictValue):
            parts.extend(child.items.values())
        else:
            parts.append(child)
    return parts


MOST_PARTS = 500  # of a model that are moved or cast with it


def whole(module: Any) -> list[Instance | Object]:
    """A module and the modules that are registered in it, each once: what `.to()`, `.half()` and `.eval()` reach."""
    found: dict[int, Instance | Object] = {}
    pending: list[Any] = [module]
    while pending and len(found) < MOST_PARTS:
        part = pending.pop()
        network = isinstance(part, Instance) and "$dtype" in part.attributes
        if id(part) in found or not (network or (isinstance(part, Object) and part.kind in ("module", "model"))):
            continue
        found[id(part)] = part
        pending.extend(child_modules(part))
        pending.extend(
            leaf
            for name, value in part.attributes.items()
            if isinstance(value, Abstract) and (name == "module" or (network and not name.startswith("$")))
            for leaf in leaves(value)
        )
    return list(found.values())


def holds(module: Abstract, test: Callable[[Object], bool], depth: int = 0) -> bool:
    """Is a library module in it that passes the test? False where none was found, which does not say that there is none."""
    if isinstance(module, Object) and test(module):
        return True
    if depth >= MAX_DEPTH:
        return False
    parts: list[Any] = []
    if isinstance(module, Object):
        parts = child_modules(module)
    elif isinstance(module, ListValue):
        parts = list(module.items)
    elif isinstance(module, Instance):
        parts = [value for key, value in module.attributes.items() if not key.startswith("$")]
    return any(holds(part, test, depth + 1) for part in parts if isinstance(part, Abstract))
