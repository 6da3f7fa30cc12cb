"""Run a hook right after a module of a library has been imported, and import nothing ourselves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from typing import Any

from . import journal

Hook = Callable[[Any], None]


def together(*tables: Mapping[str, Hook]) -> dict[str, Hook]:
    """Hooks by module; several for one module run one after the other, and one that fails leaves the others."""
    found: dict[str, list[Hook]] = {}
    for table in tables:
        for name, hook in table.items():
            found.setdefault(name, []).append(hook)
    return {name: hooks[0] if len(hooks) == 1 else _each(name, hooks) for name, hooks in found.items()}


def _each(name: str, hooks: list[Hook]) -> Hook:
    def hook(module: Any) -> None:
        for one in hooks:
            try:
                one(module)
            except Exception as error:
                journal.trouble(f"hook of {name}", error)

    return hook


class Finder:
    """First on `sys.meta_path`: asks the others, and lets the loader call our hook when the module is done."""

    def __init__(self, hooks: dict[str, Hook]) -> None:
        self.hooks = hooks

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        hook = self.hooks.get(name)
        if hook is None:
            return None
        try:
            spec = self._ask(name, path, target)
        except Exception:  # another finder fails: it will fail again, where it should
            return None
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        try:
            self._follow(spec, name, hook)
        except Exception as error:
            journal.trouble(f"import of {name}", error)
            return None
        return spec

    def _ask(self, name: str, path: Any, target: Any) -> ModuleSpec | None:
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None

    def _follow(self, spec: ModuleSpec, name: str, hook: Hook) -> None:
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            try:
                hook(module)
            except Exception as error:
                journal.trouble(f"hook of {name}", error)

        loader.exec_module = exec_module
