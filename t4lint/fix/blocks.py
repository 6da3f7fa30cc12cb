"""Edits of Python that move statements into a block, or find their place by what a loop does."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

import libcst as cst

from t4lint.fix.python import N, PythonFile, Statement
from t4lint.fix.text import NoPlace, Splice
from t4lint.trace import Location

_DOTTED = re.compile(r"[A-Za-z_][\w.]*")
# What a condition may be made of, so that it is the same some statements earlier: nothing that is called but `len`.
_PURE = (
    ast.Expression, ast.Name, ast.Constant, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Attribute, ast.Call,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context,
)  # fmt: skip


# --- a statement under a condition ---------------------------------------------------------------------------------


def put_under(file: PythonFile, location: Location, header: str, module: str) -> list[Splice]:
    """A call that is a statement goes under a line of its own; `{module}` is the name that the file has for a module."""
    node = file.statement(location)
    if not isinstance(node, cst.SimpleStatementLine) or len(node.body) != 1 or not isinstance(node.body[0], cst.Expr):
        raise NoPlace("this is more than a call")
    name, imports = _named(file, module)
    return [*imports, *_indented(file, [node], header.format(module=name), file.tree.default_indent)]


def _named(file: PythonFile, module: str) -> tuple[str, list[Splice]]:
    """What a module is called in a file, with the import that it still needs."""
    bound = [(name, file.written(alias)) for name, alias in _imports(file)]
    package, _, last = module.rpartition(".")
    ways = [module, f"{module} as ", f"{package}:{last}", f"{package}:{last} as "]
    for name, written in bound:
        for way in ways:
            if way.endswith(" as ") and f"{name}{written}".startswith(way):
                return _free(file, f"{name}{written}".rpartition(" as ")[2].strip()), []
            if f"{name}{written}" == way:
                return _free(file, module if name == "" else last), []
    if any(f"{name}{written}" == module.partition(".")[0] for name, written in bound):
        return _free(file, module), []
    return module, file.add_import(module)


def _imports(file: PythonFile) -> Iterator[tuple[str, cst.ImportAlias]]:
    """The names that imports at the top level bind, each with `module:` where it is taken from one."""
    for line in file.tree.body:
        for node in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            if isinstance(node, cst.Import):
                yield from (("", alias) for alias in node.names)
            elif isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar) and node.module:
                yield from ((f"{file.written(node.module)}:", alias) for alias in node.names)


def _free(file: PythonFile, name: str) -> str:
    """The name of a module, if the file gives it to nothing else."""
    first = name.partition(".")[0]
    if first in _stored(file, file.tree.body) or any(it.name.value == first for it in file.of_kind(cst.Param)):
        raise NoPlace(f"{first} is not always the module")
    return name


# --- a block that begins earlier -----------------------------------------------------------------------------------


def start_block_earlier(file: PythonFile, location: Location, method: str) -> list[Splice]:
    """`with x.method():` around a statement begins before the statement that calls `x`.

    Where the block is one side of an `if` whose other side is the same without it, the two become one block, whose context
    is chosen by the test. A block that nothing makes depend on the round stays: with the forward in it, gradients would never
    be exchanged.
    """
    block, receiver = _block_of(file, file.statement(location), method)
    body = block.body
    header = file.lines.line(file.line_of(block))
    if not isinstance(body, cst.IndentedBlock) or file.lines.line_of(file.span(body.body[0])[0]) == file.line_of(block):
        raise NoPlace("the block has no lines of its own")
    if not header.partition("#")[0].rstrip().endswith(":"):
        raise NoPlace("the head of the block has several lines")
    owner = file.parent(file.parent(block)) if isinstance(file.parent(block), cst.IndentedBlock) else None
    unit = _unit(file, block, body)
    moved = _from_call(file, block, receiver)
    if moved:
        if not (isinstance(owner, (cst.If, cst.Else)) or _chosen(block)):
            raise NoPlace("the block is entered in each round")
        _unchanged(file, [item.item for item in block.items], moved)
        start, end = file.lines.start_of(file.line_of(block)), file.lines.end_of(file.line_of(block))
        return [*_indented(file, moved, header.strip(), unit, before=block), Splice(start, end, "")]
    if isinstance(owner, cst.If):
        return _merged(file, owner, block, receiver, method, unit)
    if owner is not None and isinstance(file.parent(owner), cst.If) and isinstance(owner, cst.Else):
        above = file.parent(owner)
        assert isinstance(above, cst.If)
        return _merged(file, above, block, receiver, method, unit)
    raise NoPlace("nothing before the block calls it")


def _chosen(block: cst.With) -> bool:
    """Does its head say when?"""
    return any(True for _ in _within([item.item for item in block.items], cst.IfExp))


def _block_of(file: PythonFile, inside: Statement, method: str) -> tuple[cst.With, str]:
    node: cst.CSTNode = inside
    while (block := file.around(node, cst.With)) is not None:
        for call in _within([item.item for item in block.items], cst.Call):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == method:
                return block, file.written(call.func.value)
        node = file.parent(block)
    raise NoPlace("there is no such block")


def _from_call(file: PythonFile, node: Statement, receiver: str) -> list[Statement]:
    """The statements before one, from the last that calls a name on; empty where none does."""
    siblings = _siblings(file, node)
    before = siblings[: next(number for number, it in enumerate(siblings) if it is node)]
    for number in range(len(before) - 1, -1, -1):
        if any(file.written(call.func) == receiver for call in _within([before[number]], cst.Call)):
            return list(before[number:])
    return []


def _siblings(file: PythonFile, node: Statement) -> Sequence[Statement]:
    above = file.parent(node)
    if not isinstance(above, (cst.IndentedBlock, cst.Module)):
        raise NoPlace("the statement is not in a block")
    return [it for it in above.body if isinstance(it, (cst.SimpleStatementLine, cst.BaseCompoundStatement))]


def _merged(file: PythonFile, test: cst.If, block: cst.With, receiver: str, method: str, unit: str) -> list[Splice]:
    """`if c: with x.method(): body, else: body` becomes one block under `x.method() if c else nullcontext()`."""
    other = test.orelse
    if not isinstance(other, cst.Else) or isinstance(file.parent(test), cst.If):
        raise NoPlace("the other side of the test does something else")
    sides = [_only(test.body), _only(other.body)]
    first = sides[0] is block
    plain = other.body if first else test.body
    if block not in sides or _meaning(file, block.body) != _meaning(file, plain):
        raise NoPlace("the other side of the test does something else")
    item = block.items[0]
    if len(block.items) > 1 or item.asname is not None or file.written(item.item) != f"{receiver}.{method}()":
        raise NoPlace("the block has more than one context")
    moved = _from_call(file, test, receiver)
    if not moved:
        raise NoPlace("nothing before the block calls it")
    _unchanged(file, [test.test], moved)
    _pure(file.written(test.test))
    null, imports = _nullcontext(file)
    chosen = (f"{receiver}.{method}()", null) if first else (null, f"{receiver}.{method}()")
    head = f"with {chosen[0]} if {file.written(test.test)} else {chosen[1]}:"
    kept = _lines_of(file, block.body)
    body = "".join(_dedented(file, number, unit) for number in kept)
    start, end = file.lines.start_of(file.line_of(test)), _end_of(file, test)
    return [*imports, *_indented(file, moved, head, unit, before=test), Splice(start, end, body)]


def _only(body: cst.BaseSuite) -> cst.CSTNode | None:
    return body.body[0] if isinstance(body, cst.IndentedBlock) and len(body.body) == 1 else None


def _meaning(file: PythonFile, body: cst.BaseSuite) -> str:
    """The statements of a block, without what they look like."""
    lines = [file.lines.line(number) for number in _lines_of(file, body)]
    try:
        return ast.dump(ast.parse(textwrap.dedent("\n".join(lines))))
    except (SyntaxError, ValueError) as error:
        raise NoPlace("the block cannot be read by itself") from error


def _lines_of(file: PythonFile, body: cst.BaseSuite) -> range:
    if not isinstance(body, cst.IndentedBlock):
        raise NoPlace("the block has no lines of its own")
    _no_long_strings(file, body.body)
    start, end = file.span(body.body[0])[0], file.span(body.body[-1])[1]
    return range(file.lines.line_of(start), _last_line(file, end) + 1)


def _last_line(file: PythonFile, end: int) -> int:
    """The line that a span ends in: a compound statement's ends with the end of its last line."""
    line = file.lines.line_of(end)
    return line - 1 if line > 1 and end == file.lines.start_of(line) else line


def _end_of(file: PythonFile, node: cst.CSTNode) -> int:
    return file.lines.end_of(_last_line(file, file.span(node)[1]))


def _dedented(file: PythonFile, number: int, unit: str) -> str:
    """A line, with its end, one level further out."""
    text = file.text[file.lines.start_of(number) : file.lines.end_of(number)]
    return text.replace(unit, "", 1) if text.strip() else text


def _nullcontext(file: PythonFile) -> tuple[str, list[Splice]]:
    if any(f"{name}{file.written(alias)}" == "contextlib:nullcontext" for name, alias in _imports(file)):
        return "nullcontext()", []
    name, imports = _named(file, "contextlib")
    return f"{name}.nullcontext()", imports


# --- a line before the forward -------------------------------------------------------------------------------------


def insert_before_use(file: PythonFile, location: Location, made: Location, code: str) -> list[Splice]:
    """A line before the statement that calls what `made` assigns, in the loop whose last round comes to a statement.

    `{name}` is what is assigned, `{when}` the condition on which the statement at `location` is reached in that round.
    """
    step = file.statement(location)
    name = _assigned(file, made, step)
    test = file.around(step, cst.If)
    if test is not None and file.parent(step) is test.body:
        moved = _from_call(file, test, name)
        if not moved or isinstance(file.parent(test), cst.If):
            raise NoPlace("nothing before the test calls it")
        _unchanged(file, [test.test], moved)
        _pure(file.written(test.test))
        return _line_before(file, moved[0], code.format(name=name, when=file.written(test.test)))
    return _in_counted_loop(file, step, name, code)


def _in_counted_loop(file: PythonFile, step: Statement, name: str, code: str) -> list[Splice]:
    """The statement comes after `for i in range(n)`: its condition is that this is the last round."""
    siblings = _siblings(file, step)
    before = siblings[: next(number for number, it in enumerate(siblings) if it is step)]
    loop = next((it for it in reversed(before) if isinstance(it, cst.For)), None)
    if loop is None or not isinstance(loop.body, cst.IndentedBlock) or not isinstance(loop.target, cst.Name):
        raise NoPlace("the statement is reached in each round")
    count = loop.iter.args if isinstance(loop.iter, cst.Call) and file.written(loop.iter.func) == "range" else ()
    if len(count) != 1 or not isinstance(count[0].value, (cst.Integer, cst.Name, cst.Attribute)):
        raise NoPlace("it is not clear how often the loop runs")
    inside = [it for it in loop.body.body if isinstance(it, (cst.SimpleStatementLine, cst.BaseCompoundStatement))]
    calls = [it for it in inside if any(file.written(call.func) == name for call in _within([it], cst.Call))]
    if len(calls) != 1:
        raise NoPlace("it is not clear which statement is the forward")
    many = count[0].value
    last = str(int(many.value, 0) - 1) if isinstance(many, cst.Integer) else f"{file.written(many)} - 1"
    _unchanged(file, [loop.target, many], inside[: inside.index(calls[0]) + 1])
    when = f"{loop.target.value} == {last}"
    return _line_before(file, calls[0], code.format(name=name, when=when))


def _line_before(file: PythonFile, node: Statement, line: str) -> list[Splice]:
    start = file.lines.start_of(file.line_of(node))
    return [Splice(start, start, f"{file.lines.indent(file.line_of(node))}{line}\n")]


def _assigned(file: PythonFile, made: Location, user: Statement) -> str:
    """What an assignment gives a name to, which must mean the same at another statement."""
    node = file.statement(made)
    assigned = node.body[0] if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1 else None
    if not isinstance(assigned, cst.Assign) or len(assigned.targets) != 1:
        raise NoPlace("what is made has no name")
    target = assigned.targets[0].target
    name = file.written(target)
    home: type[cst.FunctionDef] | type[cst.ClassDef] = cst.ClassDef if name.startswith("self.") else cst.FunctionDef
    if not _DOTTED.fullmatch(name) or file.around(node, home) is not file.around(user, home):
        raise NoPlace("the name stands in another function")
    return name


# --- before everything else ----------------------------------------------------------------------------------------


def insert_first(file: PythonFile, module: str, code: str) -> list[Splice]:
    """`import module` and a line that needs it, before the first import of the file."""
    lines = [
        line for line in file.tree.body
        if isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], (cst.Import, cst.ImportFrom))
    ]  # fmt: skip
    lines = [line for line in lines if not file.written(line).startswith("from __future__")]
    if not lines:
        raise NoPlace("the file imports nothing")
    if file.written(lines[0]) == f"import {module}":
        end = file.lines.end_of(file.line_of(lines[0]))
        return [Splice(end, end, f"\n{code}\n\n")]
    start = file.lines.start_of(file.line_of(lines[0]))
    found = [Splice(start, start, f"import {module}\n\n{code}\n\n")]
    for line in lines[1:]:
        if file.written(line) == f"import {module}":
            found += file.drop_statement(file.location(*file.span(line)))
    return found


# --- what the edits rest on ----------------------------------------------------------------------------------------


def _indented(
    file: PythonFile, nodes: Sequence[Statement], header: str, unit: str, before: Statement | None = None
) -> list[Splice]:
    """Statements that follow each other, under a line before them; with the comments after them, up to another."""
    _no_long_strings(file, nodes)
    first = file.line_of(nodes[0])
    last = file.line_of(before) - 1 if before is not None else _last_line(file, file.span(nodes[-1])[1])
    start = file.lines.start_of(first)
    if file.text[start : file.span(nodes[0])[0]].strip():
        raise NoPlace("the statement does not start its line")
    indent = file.lines.indent(first)
    found = [Splice(start, start, f"{indent}{header}\n{unit}")]
    starts = (file.lines.start_of(number) for number in range(first + 1, last + 1) if file.lines.line(number).strip())
    return found + [Splice(start, start, unit) for start in starts]


def _unit(file: PythonFile, block: cst.With, body: cst.IndentedBlock) -> str:
    """What the lines of a block are further in than its head."""
    inner = file.lines.indent(file.lines.line_of(file.span(body.body[0])[0]))
    return inner.removeprefix(file.lines.indent(file.line_of(block)))


def _no_long_strings(file: PythonFile, nodes: Iterable[cst.CSTNode]) -> None:
    for kind in (cst.SimpleString, cst.FormattedString):
        if any("\n" in file.written(text) for text in _within(nodes, kind)):
            raise NoPlace("a string goes over several lines")


def _within(nodes: Iterable[cst.CSTNode], kind: type[N]) -> Iterator[N]:
    return (node for node in _all(nodes) if isinstance(node, kind))


def _all(nodes: Iterable[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """Nodes and all that is in them, in no order."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.children)


def _unchanged(file: PythonFile, tests: Sequence[cst.CSTNode], moved: Sequence[Statement]) -> None:
    """A test may move before statements that give its names no other value."""
    stored = _stored(file, moved)
    named = {it.value for it in _within(tests, cst.Name)}
    written = {file.written(it) for it in _within(tests, cst.Attribute)}
    if stored & (named | written):
        raise NoPlace("the test rests on what comes before it")


def _pure(test: str) -> None:
    """A test that only compares, so that nothing happens where it is asked once more or earlier."""
    for node in ast.walk(ast.parse(test.strip(), mode="eval")):
        if not isinstance(node, _PURE) or (isinstance(node, ast.Call) and ast.unparse(node.func) != "len"):
            raise NoPlace("the test does more than compare")


def _stored(file: PythonFile, nodes: Iterable[cst.CSTNode]) -> set[str]:
    """Names and attributes that statements give a value."""
    found: set[str] = set()
    for node in _all(nodes):
        targets: list[cst.CSTNode] = []
        if isinstance(node, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.For, cst.CompFor, cst.NamedExpr)):
            targets = [node.target]
        elif isinstance(node, cst.AsName) and not isinstance(file.parent(node), cst.ImportAlias):
            targets = [node.name]
        for target in targets:
            found |= {it.value for it in _within([target], cst.Name)}
            found |= {file.written(it) for it in _within([target], cst.Attribute)}
    return found
