"""Which of the statements that findings are about did run.

`sys.monitoring` tells on Python 3.12 and later, at no cost once a line was seen. Before that, a call is put in front of
each of these statements when its file is compiled; line numbers stay. `sys.settrace` is left to debuggers and coverage.
"""

# os.path is loaded anyway; pathlib would cost every process its import.
# ruff: noqa: PTH120, PTH123

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import importlib.util
import json
import os
import sys
from typing import Any

from . import journal
from .frames import below_root

Ranges = list[tuple[int, int]]  # first and last line of statements


class _Wanted:
    def __init__(self) -> None:
        self.files: dict[str, Ranges] = {}  # by path below the project's root
        self.seen: set[tuple[str, int]] = set()


_wanted = _Wanted()


def install(plan: str) -> None:
    """`plan` is a file: JSON, the ranges by path below the root. Nothing is done without any."""
    with open(plan, encoding="utf-8") as file:
        _wanted.files = {path: [(first, last) for first, last in ranges] for path, ranges in json.load(file).items()}
    if not _wanted.files:
        return
    if sys.version_info >= (3, 12):
        _monitor()
    else:
        _probe_when_compiled()


def _ran(path: str, first: int) -> None:
    """A statement is about to run: told once."""
    if (path, first) not in _wanted.seen:
        _wanted.seen.add((path, first))
        journal.emit("line", path=path, line=first)


# --- Python 3.12 and later -----------------------------------------------------------------------------------------


def _monitor() -> None:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    tool = next((number for number in (4, 3) if monitoring.get_tool(number) is None), None)
    if tool is None:
        return
    monitoring.use_tool_id(tool, "t4lint")
    events = monitoring.events

    def starts(code: Any, offset: int) -> Any:
        try:
            if below_root(code.co_filename) in _wanted.files:
                monitoring.set_local_events(tool, code, events.LINE)
        except Exception as error:
            journal.trouble("monitoring", error)
        return monitoring.DISABLE

    def line(code: Any, number: int) -> Any:
        try:
            path = below_root(code.co_filename)
            for first, last in _wanted.files.get(path or "", ()):
                if first <= number <= last:
                    _ran(str(path), first)
        except Exception as error:
            journal.trouble("monitoring", error)
        return monitoring.DISABLE

    monitoring.register_callback(tool, events.PY_START, starts)
    monitoring.register_callback(tool, events.LINE, line)
    monitoring.set_events(tool, events.PY_START)


# --- before ----------------------------------------------------------------------------------------------------------

RAN, MAIN = "__t4lint_ran__", "__t4lint_main__"


def _probe_when_compiled() -> None:
    loader: Any = importlib.machinery.SourceFileLoader
    compile_it, stats = loader.source_to_code, loader.path_stats
    setattr(builtins, RAN, _ran)

    def source_to_code(self: Any, data: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        code = None
        try:
            code = probed(data, str(path))
        except Exception as error:
            journal.trouble("probes of statements", error)
        return code if code is not None else compile_it(self, data, path, *args, **kwargs)

    def path_stats(self: Any, path: Any) -> Any:
        if below_root(str(path)) in _wanted.files:
            raise OSError  # the importer then does not look for bytecode that was compiled without probes
        return stats(self, path)

    loader.source_to_code, loader.path_stats = source_to_code, path_stats
    sys.path_hooks.insert(0, _Script.hook)


def probed(data: Any, filename: str, prelude: str = "") -> Any:
    """Compile with a call in front of each wanted statement; None for a file without any. `prelude` is called first."""
    tree = tree_of(data, filename)
    if tree is None:
        return None
    if prelude:
        tree.body.insert(_after_head(tree.body), _call(prelude, [], 1))
    return compile(tree, filename, "exec", dont_inherit=True)


def tree_of(data: Any, filename: str) -> ast.Module | None:
    """The program with the calls in it; None for a file without any."""
    path = below_root(filename)
    if path is None or path not in _wanted.files:
        return None
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST if filename.endswith(".ipynb") else ast.PyCF_ONLY_AST
    tree: ast.Module = compile(data, filename, "exec", flags, dont_inherit=True)
    _Insert(path, _wanted.files[path]).visit(tree)
    return tree


class _Insert(ast.NodeTransformer):
    def __init__(self, path: str, ranges: Ranges) -> None:
        self.path, self.ranges = path, ranges

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                setattr(node, name, self._block(node, name, block))
        return node

    def _block(self, node: ast.AST, name: str, block: list[ast.stmt]) -> list[ast.stmt]:
        head = _after_head(block) if name == "body" and _may_have_a_head(node) else 0
        made: list[ast.stmt] = []
        for index, statement in enumerate(block):
            if index >= head:
                made += [
                    _call(RAN, [self.path, first], statement.lineno)
                    for first, last in self.ranges
                    if first <= statement.lineno <= last
                ]
            made.append(statement)
        return made


def _may_have_a_head(node: ast.AST) -> bool:
    return isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))


def _after_head(block: list[ast.stmt]) -> int:
    """How many statements have to stay first: a docstring, and imports from `__future__`."""
    count = 0
    for statement in block:
        docstring = (
            count == 0
            and isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str)
        )
        if not docstring and not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        count += 1
    return count


def _call(function: str, values: list[Any], line: int) -> ast.stmt:
    node = ast.Expr(ast.Call(ast.Name(function, ast.Load()), [ast.Constant(value) for value in values], []))
    for part in ast.walk(node):
        if isinstance(part, (ast.expr, ast.stmt)):
            part.lineno = part.end_lineno = line
            part.col_offset = part.end_col_offset = 0
    return node


class _Script:
    """The script of the command line, which Python compiles itself unless a path hook claims it, as one does for a zip
    file. Ours does, and then makes all of `__main__` what it is for a plain script."""

    waiting: _Script | None = None

    def __init__(self, filename: str) -> None:
        self.filename = filename

    @classmethod
    def hook(cls, entry: str) -> _Script:
        """Called by the interpreter with the script's name; any other entry of the path is declined."""
        try:
            wanted = entry.endswith(".py") and below_root(entry) in _wanted.files and "__file__" not in _main()
        except Exception:
            wanted = False
        if not wanted:
            raise ImportError
        cls.waiting = cls(entry)
        return cls.waiting

    def find_spec(self, name: str, target: Any = None) -> Any:
        """As an importer of `sys.path[0]`: it has the one module, once."""
        if name != "__main__" or _Script.waiting is not self:
            return None
        loader: Any = self
        spec = importlib.machinery.ModuleSpec("__main__", loader, origin=self.filename)
        spec.has_location = True
        return spec

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        raise ImportError("run as the program, not imported")

    def get_code(self, name: str) -> Any:
        _Script.waiting = None
        with open(self.filename, "rb") as file:
            data = file.read()
        setattr(builtins, MAIN, self._as_for_a_script)
        try:
            return probed(data, self.filename, MAIN)
        except SyntaxError:
            raise
        except Exception:  # whatever it is, the program runs
            return compile(data, self.filename, "exec", dont_inherit=True)

    def _as_for_a_script(self) -> None:
        names = sys._getframe(1).f_globals
        loader = importlib.machinery.SourceFileLoader("__main__", self.filename)
        names.update(__spec__=None, __package__=None, __cached__=None, __loader__=loader)
        sys.path_importer_cache.pop(self.filename, None)
        if sys.path and sys.path[0] == self.filename:
            if getattr(sys.flags, "safe_path", False):
                del sys.path[0]
            else:
                sys.path[0] = os.path.dirname(os.path.realpath(self.filename))


def _main() -> dict[str, Any]:
    return sys.modules["__main__"].__dict__
