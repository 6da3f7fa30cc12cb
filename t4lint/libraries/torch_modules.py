"""What a module is made of, as far as the project says it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from t4lint.interpret.values import Abstract, DictValue, Instance, ListValue, Object

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
