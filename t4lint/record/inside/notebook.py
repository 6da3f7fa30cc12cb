"""Started as the program in the place of a notebook: runs its module as `__main__`, with what IPython would give it."""

# os.path is loaded anyway; pathlib would cost the start of each run.
# ruff: noqa: PTH103, PTH120, PTH123

from __future__ import annotations

import ast
import builtins
import inspect
import json
import linecache
import os
import sys
import types
from typing import Any


class Shell:
    """What `get_ipython()` gives: whatever is asked of it does nothing, like the magics that it stands for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __getitem__(self, index: Any) -> Any:
        return self

    def __str__(self) -> str:
        return ""


def display(*things: Any, **options: Any) -> None:
    """Without a page to show things on they are printed."""
    for thing in things:
        print(thing)


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)
    path, text = plan["path"], plan["text"]
    for name, content in plan["written"].items():
        _write(name, content)
    sys.argv = [path, *plan["arguments"]]
    sys.path[0] = os.path.dirname(path)
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)  # tracebacks show the cells
    names = _main_module().__dict__
    code = compile(_probed(text, path), path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if code.co_flags & inspect.CO_COROUTINE:
        import asyncio

        asyncio.run(eval(code, names))
    else:
        exec(code, names)


def _probed(text: str, path: str) -> Any:
    """With the probes of statements, where this Python needs them."""
    lines: Any = sys.modules.get("_t4lint_inside.lines")
    if lines is None or sys.version_info >= (3, 12):
        return text
    try:
        return lines.tree_of(text, path) or text
    except Exception:
        return text


def _main_module() -> Any:
    """A fresh `__main__`, without a file as in a notebook: workers that are spawned do not run it again."""
    shell = Shell()
    module = types.ModuleType("__main__")
    module.__dict__.update(get_ipython=lambda: shell, display=display, __builtins__=builtins)
    sys.modules["__main__"] = module
    return module


def _write(name: str, content: str) -> None:
    """`%%writefile`, ahead of the cells; below the notebook's folder only."""
    path = os.path.abspath(name)  # noqa: PTH100
    if path.startswith(os.getcwd() + os.sep):  # noqa: PTH109
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)


if __name__ == "__main__":
    main()
