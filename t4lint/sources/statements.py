"""From a line to the statement that it belongs to: both witnesses name events by the lines of the person's statement."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from t4lint.sources.thin import with_lines

_COMPOUND = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.For, ast.AsyncFor, ast.While, ast.With,
    ast.AsyncWith, ast.Try, ast.Match, ast.ExceptHandler, *((ast.TryStar,) if hasattr(ast, "TryStar") else ()),
)  # fmt: skip
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_LOCATED = (ast.expr, ast.arg, ast.keyword, ast.pattern, ast.alias)

Span = tuple[int, int]


def statement_span(text: str, line: int) -> Span:
    """First and last line of the innermost statement at `line`.

    Of a compound statement only the header counts, up to the line of its colon; decorators are statements of their own.
    Lines outside any statement, and files that `ast` refuses, give `(line, line)`.
    """
    return spans_in(text).get(line, (line, line))


def enclosing_loops(text: str, line: int) -> tuple[int, ...]:
    """Header lines of the `for` and `while` loops around `line` in the same function, the outermost first."""
    return _loops(text).get(line, ())


@lru_cache(maxsize=1024)
def spelled_out(text: str, line: int, function: str, argument: str, index: int) -> bool | None:
    """Does the statement at `line` say this argument of `function` outright: a constant, or left out for its default?

    False for an argument that is computed, None where the statement holds no such call. `index` is the argument's
    position; `function` is the last part of the name that is called.
    """
    first, last = statement_span(text, line)
    for call in _calls(text):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name == function and first <= call.lineno <= last:
            return _says(call, argument, index)
    return None


@lru_cache(maxsize=1024)
def keeps(text: str, header: int, name: str, role: str) -> int | None:
    """The line in the loop at `header` that keeps something in `name`: `name += x` or `name = name + x` for the role "sum",
    `name.append(x)` for "list". None where there is none, or where the loop also gives `name` a new value."""
    for loop in _tree(text):
        if isinstance(loop, _LOOPS) and loop.lineno == header:
            found = [it for it in (_keeping(node, name, role) for node in ast.walk(loop)) if it]
            fresh = any(
                isinstance(node, ast.Assign) and node.lineno not in found and name in map(ast.unparse, node.targets)
                for node in ast.walk(loop)
            )
            return found[0] if found and not (fresh and role == "sum") else None
    return None


def _keeping(node: ast.AST, name: str, role: str) -> int | None:
    if role == "list":
        is_append = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append"
        return node.lineno if is_append and ast.unparse(node.func.value) == name else None  # type: ignore[attr-defined]
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        return node.lineno if ast.unparse(node.target) == name else None
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add):
        return node.lineno if ast.unparse(node.targets[0]) == name == ast.unparse(node.value.left) else None
    return None


@lru_cache(maxsize=8)
def _tree(text: str) -> tuple[ast.AST, ...]:
    try:
        return tuple(ast.walk(ast.parse(with_lines(text))))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


@lru_cache(maxsize=32)
def _calls(text: str) -> tuple[ast.Call, ...]:
    return tuple(node for node in _tree(text) if isinstance(node, ast.Call))


def _says(call: ast.Call, argument: str, index: int) -> bool:
    for keyword in call.keywords:
        if keyword.arg == argument:
            return _constant(keyword.value)
    if len(call.args) > index:
        return _constant(call.args[index])
    unpacked = any(keyword.arg is None for keyword in call.keywords)
    return not unpacked and not any(isinstance(value, ast.Starred) for value in call.args)


def _constant(node: ast.expr) -> bool:
    """`True`, `-1`, `torch.float16`."""
    if isinstance(node, ast.UnaryOp):
        return _constant(node.operand)
    while isinstance(node, ast.Attribute):
        node = node.value
        if isinstance(node, ast.Name):
            return node.id == "torch"
    return isinstance(node, ast.Constant)


@lru_cache(maxsize=128)
def spans_in(text: str) -> dict[int, Span]:
    """First and last line of the innermost statement at each line of a text; nothing for one that `ast` refuses."""
    try:
        text = with_lines(text)
        return spans_of(ast.parse(text), text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}


def spans_of(tree: ast.Module, text: str) -> dict[int, Span]:
    """First and last line of the innermost statement at each line of the text that a tree was made from."""
    spans: dict[int, Span] = {}
    _fill(tree, text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), spans)
    return spans


@lru_cache(maxsize=128)
def _loops(text: str) -> dict[int, tuple[int, ...]]:
    loops: dict[int, tuple[int, ...]] = {}
    try:
        _fill_loops(ast.parse(with_lines(text)), (), loops)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    return loops


def _fill(tree: ast.AST, lines: list[str], spans: dict[int, Span]) -> None:
    """Parents before children, so that the innermost stays; of simple statements on one line the first, then the longest."""
    simple: dict[int, Span] = {}
    for node in _walk(tree):
        if isinstance(node, _COMPOUND):
            for decorator in getattr(node, "decorator_list", ()):
                _put(spans, (decorator.lineno, decorator.end_lineno or decorator.lineno))
            _put(spans, (node.lineno, _header_end(node, lines)))
        elif isinstance(node, ast.match_case):
            _put(spans, (node.pattern.lineno, _colon_line(_end(node.guard or node.pattern), lines)))
        elif isinstance(node, ast.stmt):
            span = (node.lineno, node.end_lineno or node.lineno)
            for line in range(span[0], span[1] + 1):
                best = simple.get(line)
                if best is None or (span[0] == best[0] and span[1] > best[1]):
                    simple[line] = span
    spans.update(simple)


def _put(spans: dict[int, Span], span: Span) -> None:
    for line in range(span[0], span[1] + 1):
        spans[line] = span


def _walk(tree: ast.AST) -> Iterator[ast.AST]:
    """Statements, handlers and cases in source order, without a recursion that deep code could exhaust."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        yield node
        inner = (
            child
            for name in ("body", "handlers", "cases", "orelse", "finalbody")
            for child in _list(getattr(node, name, None))
        )
        stack.extend(reversed(list(inner)))


def _list(value: object) -> list[ast.AST]:
    return value if isinstance(value, list) else []


def _header_end(node: ast.AST, lines: list[str]) -> int:
    """The line of the colon: the first one after the last expression of the header."""
    last = (getattr(node, "lineno", 1), getattr(node, "col_offset", 0))
    for name, value in ast.iter_fields(node):
        if name in ("body", "handlers", "cases", "orelse", "finalbody", "decorator_list"):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST):
                last = max(last, *(_end(inner) for inner in ast.walk(part) if isinstance(inner, _LOCATED)), last)
                last = max(last, _end(part))
    return _colon_line(last, lines)


def _end(node: ast.AST) -> tuple[int, int]:
    """Where a node ends; (0, 0) for one without a place of its own, such as `ast.arguments`."""
    return (getattr(node, "end_lineno", None) or 0, getattr(node, "end_col_offset", None) or 0)


def _colon_line(start: tuple[int, int], lines: list[str]) -> int:
    """Between the end of the last expression and the colon stand only brackets, commas, names, comments."""
    line, column = start
    rest = lines[line - 1].encode()[column:]
    while b":" not in rest.split(b"#", 1)[0]:
        if line >= len(lines):
            return start[0]
        line += 1
        rest = lines[line - 1].encode()
    return line


def _fill_loops(node: ast.AST, around: tuple[int, ...], loops: dict[int, tuple[int, ...]]) -> None:
    stack: list[tuple[ast.AST, tuple[int, ...]]] = [(node, around)]
    while stack:
        current, nest = stack.pop()
        if isinstance(current, _SCOPES):
            nest = ()
            _nest(loops, current.lineno, current.end_lineno or current.lineno, ())
        for name in ("body", "handlers", "cases", "orelse", "finalbody"):
            children = _list(getattr(current, name, None))
            inner = (*nest, current.lineno) if isinstance(current, _LOOPS) and name == "body" else nest
            if isinstance(current, _LOOPS) and name == "body":
                first, last = children[0], children[-1]
                _nest(loops, getattr(first, "lineno", 0), getattr(last, "end_lineno", None) or 0, inner)
            stack.extend((child, inner) for child in children)


def _nest(loops: dict[int, tuple[int, ...]], first: int, last: int, nest: tuple[int, ...]) -> None:
    for line in range(first, last + 1):
        loops[line] = nest
