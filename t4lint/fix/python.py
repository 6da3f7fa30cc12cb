"""Edits of Python source: found in the syntax tree, made in the text, so that every other byte stays."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import TypeVar

import libcst as cst

from t4lint.fix.shell import called
from t4lint.fix.text import Lines, NoPlace, Splice
from t4lint.rule import Written
from t4lint.sources.printed import spans
from t4lint.trace import Location

N = TypeVar("N", bound=cst.CSTNode)
Item = cst.Arg | cst.DictElement
Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement
_ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.BaseString, cst.BaseNumber, cst.List, cst.Dict, cst.Set)
_STRINGS = re.compile(r'"[^"\'\\]*"(, "[^"\'\\]*")*')  # one or several, which any quotes can hold
# Around these a comparison needs no brackets.
_LOOSE = (
    cst.Arg, cst.Assign, cst.AnnAssign, cst.DictElement, cst.BooleanOperation, cst.If, cst.IfExp, cst.While, cst.Return,
    cst.Param, cst.Expr, cst.Element, cst.Assert, cst.NamedExpr,
)  # fmt: skip


class PythonFile:
    """A module with the positions of its nodes."""

    def __init__(self, text: str) -> None:
        try:
            self.tree = cst.parse_module(text)
        except (cst.ParserSyntaxError, RecursionError, ValueError) as error:
            raise NoPlace("the file cannot be parsed") from error
        self.text = text
        self.lines = Lines(text)
        self._spans = spans(self.tree, text)
        self.parents: dict[int, cst.CSTNode] = {}
        self.nodes: list[cst.CSTNode] = []
        self._walk()

    def _walk(self) -> None:
        stack: list[cst.CSTNode] = [self.tree]
        while stack:
            node = stack.pop()
            self.nodes.append(node)
            for child in node.children:
                self.parents[id(child)] = node
                stack.append(child)
        self.nodes.sort(key=lambda it: self._spans.get(id(it), (0, 0))[0])

    # --- finding things ---

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        return self._spans[id(node)]

    def written(self, node: cst.CSTNode) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def parent(self, node: cst.CSTNode) -> cst.CSTNode:
        return self.parents[id(node)]

    def around(self, node: cst.CSTNode, kind: type[N]) -> N | None:
        """The nearest node of a kind around a node."""
        current: cst.CSTNode | None = node
        while current is not None:
            if isinstance(current, kind):
                return current
            current = self.parents.get(id(current))
        return None

    def of_kind(self, kind: type[N]) -> Iterator[N]:
        return (node for node in self.nodes if isinstance(node, kind))

    def expression(self, location: Location) -> cst.BaseExpression:
        """The expression that a location spans."""
        span = self._offsets(location)
        for node in self.nodes:
            if isinstance(node, cst.BaseExpression) and self.span(node) == span:
                return node
        raise NoPlace("there is no expression")

    def _offsets(self, location: Location) -> tuple[int, int]:
        lines = self.lines
        return lines.offset(location.line, location.column), lines.offset(location.end_line, location.end_column)

    def call(self, location: Location, callee: str) -> cst.Call:
        """The call that a location spans, or the only one of that name in its lines."""
        span = self._offsets(location)
        calls = list(self.of_kind(cst.Call))
        if not callee:
            calls = [call for call in calls if self.span(call) == span]
        else:
            first, last = location.line, location.end_line
            aliases = self._aliases()
            calls = [
                call for call in calls
                if first <= self.line_of(call) <= last and callee in ((name := self._name(call)), aliases.get(name))
            ]  # fmt: skip
        if len(calls) != 1:
            raise NoPlace("it is not clear which call is meant")
        return calls[0]

    def line_of(self, node: cst.CSTNode) -> int:
        return self.lines.line_of(self.span(node)[0])

    def _aliases(self) -> dict[str, str]:
        """What names stand for that are imported under others: `import DistributedDataParallel as DDP`."""
        names = [
            name
            for node in self.of_kind(cst.ImportFrom)
            if not isinstance(node.names, cst.ImportStar)
            for name in node.names
        ]
        return {
            name.asname.name.value: name.name.value
            for name in names
            if name.asname is not None and isinstance(name.asname.name, cst.Name) and isinstance(name.name, cst.Name)
        }

    def _name(self, call: cst.Call) -> str:
        function = call.func
        return function.attr.value if isinstance(function, cst.Attribute) else getattr(function, "value", "")

    def statement(self, location: Location) -> Statement:
        """The statement that starts on a location's first line."""
        for node in self.nodes:
            if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
                if self.line_of(node) == location.line and self._starts_at(node, location):
                    return node
        raise NoPlace("no statement starts here")

    def _starts_at(self, node: Statement, location: Location) -> bool:
        """A location may start with the line; a statement on the line of an `if` is not the one that starts it."""
        if isinstance(node, cst.BaseCompoundStatement) and isinstance(node.body, cst.SimpleStatementSuite):
            return False
        start = self._offsets(location)[0]
        return start <= self.span(node)[0] and not self.text[start : self.span(node)[0]].strip()

    # --- edits ---

    def set_value(self, location: Location, text: str) -> list[Splice]:
        return [self._replaced(self.expression(location), text)]

    def _replaced(self, node: cst.BaseExpression, text: str) -> Splice:
        old = self.written(node)
        plain = isinstance(node, cst.SimpleString) and old[:1] in "'\"" and old[:3] not in ("'''", '"""')
        if plain and _STRINGS.fullmatch(text):
            text = text.replace('"', old[0])
        elif self._needs_brackets(node, text):
            text = f"({text})"
        return Splice(*self.span(node), text)

    def _needs_brackets(self, node: cst.BaseExpression, text: str) -> bool:
        if isinstance(cst.parse_expression(text), _ATOMS) or node.lpar:
            return False
        parent = self.parent(node)
        return not (isinstance(parent, _LOOSE) or (isinstance(parent, cst.UnaryOperation) and self._is_not(parent)))

    def _is_not(self, node: cst.UnaryOperation) -> bool:
        return isinstance(node.operator, cst.Not)

    def set_argument(
        self, location: Location, callee: str, name: str, text: str, *, replace: bool, position: int | None = None
    ) -> list[Splice]:
        call = self.call(location, callee)
        for argument in call.args:
            if argument.keyword is not None and argument.keyword.value == name:
                if not replace:
                    raise NoPlace(f"{name} is there already")
                return [self._replaced(argument.value, text)]
        plain = [argument for argument in call.args if argument.keyword is None and not argument.star]
        if position is not None and position < len(plain):
            return [self._replaced(plain[position].value, text)]
        return self._added(call, f"{name}={text}")

    def _added(self, call: cst.Call, text: str) -> list[Splice]:
        """A keyword argument after the last one, on a line of its own where the last one has one."""
        close = self.span(call)[1] - 1
        if not call.args:
            return [Splice(close, close, text)]
        last = call.args[-1]
        start, end = self.span(last)
        comma = self._comma(last)
        line = self.lines.line_of(start)
        if self.text[self.lines.start_of(line) : start].strip():
            return [Splice(comma or end, comma or end, f" {text}" if comma else f", {text}")]
        indent = self.lines.indent(line)
        stop = self.lines.stop_of(self.lines.line_of(comma or end))
        if end == stop:
            return [Splice(end, end, f",\n{indent}{text}")]
        if close <= stop:  # the bracket stands on the last argument's line
            return [Splice(comma or end, comma or end, f"\n{indent}{text}" if comma else f",\n{indent}{text}")]
        added = Splice(stop, stop, f"\n{indent}{text}{',' if comma else ''}")
        return [added] if comma else [Splice(end, end, ","), added]

    def _comma(self, item: Item | cst.CSTNode) -> int:
        """The index after an item's comma; 0 where it has none."""
        comma = getattr(item, "comma", None)
        return self.span(comma)[1] if isinstance(comma, cst.Comma) else 0

    def drop_argument(self, location: Location, name: str, otherwise: str) -> list[Splice]:
        node = self.expression(location)
        parent = self.parent(node)
        if isinstance(parent, (cst.Arg, cst.DictElement)) and called(self._item_name(parent), name):
            return self._dropped(parent, self._siblings(parent))
        if isinstance(parent, cst.Assign) and called(self._key_set(parent), name):
            return self.drop_statement(location)
        if otherwise:
            return [self._replaced(node, otherwise)]
        raise NoPlace(f"{name} is not given by an argument here")

    def _item_name(self, item: Item) -> str:
        if isinstance(item, cst.Arg):
            return item.keyword.value if item.keyword else ""
        return _string(item.key)

    def _key_set(self, node: cst.Assign) -> str:
        """`options["name"] = ...` gives `name`."""
        target = node.targets[0].target
        if len(node.targets) > 1 or not isinstance(target, cst.Subscript) or len(target.slice) != 1:
            return ""
        index = target.slice[0].slice
        return _string(index.value) if isinstance(index, cst.Index) else ""

    def _siblings(self, item: Item) -> Sequence[cst.CSTNode]:
        owner = self.parent(item)
        if isinstance(owner, cst.Call):
            return owner.args
        if isinstance(owner, cst.Dict):
            return owner.elements
        raise NoPlace("this is neither a call nor a dict")

    def _dropped(self, item: Item, items: Sequence[cst.CSTNode]) -> list[Splice]:
        """An item that has its lines for itself goes with them, the comment behind it too."""
        index = next(number for number, other in enumerate(items) if other is item)
        start, end = self.span(item)
        comma = self._comma(item)
        first, last = self.lines.line_of(start), self.lines.line_of(comma or end)
        before = self.text[self.lines.start_of(first) : start]
        after = self.text[comma or end : self.lines.stop_of(last)].strip()
        if not before.strip() and (not after or after.startswith("#")):
            lines = [Splice(self.lines.start_of(first), self.lines.end_of(last), "")]
            return lines + (self._comma_before(items, index) if not comma else [])
        return [self._inline(items, index, start, comma or end, end)]

    def _comma_before(self, items: Sequence[cst.CSTNode], index: int) -> list[Splice]:
        """The last item had no comma, so the one before it gets none either."""
        if index == 0:
            return []
        end, comma = self.span(items[index - 1])[1], self._comma(items[index - 1])
        return [Splice(end, comma, "")] if not self.text[end : comma - 1].strip() else []

    def _inline(self, items: Sequence[cst.CSTNode], index: int, start: int, stop: int, end: int) -> Splice:
        if index > 0:
            previous = self.span(items[index - 1])[1]
            near = self._line_at(previous) == self._line_at(start) or index + 1 == len(items)
            if near and "#" not in self.text[previous:start]:
                return Splice(previous, end, "")
        if index + 1 < len(items):
            following = self.span(items[index + 1])[0]
            if self._line_at(following) == self._line_at(stop):
                return Splice(start, following, "")
        blanks = len(self.text) - len(self.text[stop:].lstrip(" \t")) - stop
        return Splice(start, stop + blanks, "")

    def _line_at(self, offset: int) -> int:
        return self.lines.line_of(offset)

    def rename_argument(self, location: Location, name: str, to: str) -> list[Splice]:
        value = self.expression(location)
        item = self.parent(value)
        if (key := self._key_beside(item, value)) is not None and _string(key) == name:
            if f'"{to}"' in self.text or f"'{to}'" in self.text:
                raise NoPlace(f"{to} is there already")
            return [self._replaced(key, f'"{to}"')]
        if not isinstance(item, (cst.Arg, cst.DictElement)) or self._item_name(item) != name:
            raise NoPlace(f"{name} is not given by an argument here")
        items = self._siblings(item)
        for other in items:
            if isinstance(other, (cst.Arg, cst.DictElement)) and self._item_name(other) == to:
                moved = Splice(*self.span(other.value), self.written(item.value))
                return [*self._dropped(item, items), moved]
        key = item.keyword if isinstance(item, cst.Arg) else item.key
        assert key is not None
        return [self._replaced(key, to if isinstance(item, cst.Arg) else f'"{to}"')]

    def _key_beside(self, item: cst.CSTNode, value: cst.BaseExpression) -> cst.BaseExpression | None:
        """The key of `options["name"] = value`, the name in `environ.setdefault("name", value)`."""
        if isinstance(item, cst.Assign) and len(item.targets) == 1:
            target = item.targets[0].target
            index = target.slice[0].slice if isinstance(target, cst.Subscript) and len(target.slice) == 1 else None
            return index.value if isinstance(index, cst.Index) else None
        call = self.parent(item) if isinstance(item, cst.Arg) else None
        if not isinstance(call, cst.Call) or self._name(call) not in ("setdefault", "putenv", "setenv"):
            return None
        return call.args[0].value if len(call.args) == 2 and call.args[1].value is value else None

    def drop_statement(self, location: Location) -> list[Splice]:
        node = self.around(self._anything(location), cst.SimpleStatementLine)
        if node is None or len(node.body) != 1:
            raise NoPlace("this statement does not have its line for itself")
        start, end = self.span(node)
        block = self.parent(node)
        if isinstance(block, cst.IndentedBlock) and len(block.body) == 1:
            return [Splice(start, end, "pass")]
        return [Splice(self.lines.start_of(self._line_at(start)), self.lines.end_of(self._line_at(end)), "")]

    def _anything(self, location: Location) -> cst.CSTNode:
        span = self._offsets(location)
        found = [node for node in self.nodes if self._spans.get(id(node)) == span]
        return found[0] if found else self.statement(location)

    def insert(self, location: Location, code: str, words: dict[str, str], *, after: bool) -> list[Splice]:
        node = self.statement(location)
        line = self.line_of(node)
        indent = self.lines.indent(line)
        start = self.lines.start_of(line)
        if self.text[start : self.span(node)[0]].strip():
            raise NoPlace("the statement does not start its line")
        lines = "".join(f"{indent}{part}\n" for part in code.format(**words).split("\n"))
        if not after:
            return [Splice(start, start, lines)]
        last = self._line_at(self.span(node)[1])
        stop = self.lines.stop_of(last)
        return [Splice(stop, stop, "\n" + lines.removesuffix("\n"))]

    def words(self, location: Location, given: dict[str, tuple[Location, Written]]) -> dict[str, str]:
        """What `Written`s stand for. Names mean the same only inside one function."""
        home = self.around(self.statement(location), cst.FunctionDef)
        found: dict[str, str] = {}
        for name, (place, word) in given.items():
            call = self.call(place, word.callee)
            if self.around(call, cst.FunctionDef) is not home:
                raise NoPlace("the names stand in another function")
            found[name] = self._word(call, word.part)
        return found

    def _word(self, call: cst.Call, part: str | int) -> str:
        node: cst.BaseExpression
        if isinstance(part, int):
            plain = [argument for argument in call.args if argument.keyword is None and not argument.star]
            if len(plain) <= part:
                raise NoPlace("the call has no such argument")
            node = plain[part].value
        elif isinstance(call.func, cst.Attribute):
            node = call.func.value
        else:
            raise NoPlace("the call is no method's")
        text = self.written(node)
        if not re.fullmatch(r"[\w.]+", text):
            raise NoPlace("this is more than a name")
        return text

    def pass_function(self, location: Location, callee: str) -> list[Splice]:
        call = self.call(location, callee)
        given = next((it.value for it in call.args if it.keyword is None or it.keyword.value == "function"), None)
        if not isinstance(given, cst.Call) or given.args or given.lpar:
            raise NoPlace("the function needs its arguments")
        return [Splice(*self.span(given), self.written(given.func))]

    def insert_in_range(self, location: Location, code: str) -> list[Splice]:
        node = self.statement(location)
        assigned = node.body[0] if isinstance(node, cst.SimpleStatementLine) else None
        target = assigned.targets[0].target if isinstance(assigned, cst.Assign) else None
        home, start = self.around(node, cst.FunctionDef), self.span(node)[1]
        loops = [
            loop for loop in self.of_kind(cst.For)
            if self.span(loop)[0] > start and self._over_range(loop) and self.around(loop, cst.FunctionDef) is home
        ]  # fmt: skip
        outer = [loop for loop in loops if not any(self._holds(other, loop) for other in loops)]
        if len(outer) != 1 or not isinstance(target, cst.Name) or not isinstance(outer[0].body, cst.IndentedBlock):
            raise NoPlace("it is not clear which loop is meant")
        loop = outer[0]
        first = self.line_of(loop.body.body[0])
        while first > 1 and self.lines.line(first - 1).lstrip().startswith("#"):
            first -= 1
        start = self.lines.start_of(first)
        line = code.format(name=target.value, count=self.written(loop.target))
        return [Splice(start, start, f"{self.lines.indent(self.line_of(loop.body.body[0]))}{line}\n")]

    def _over_range(self, loop: cst.For) -> bool:
        over_range = isinstance(loop.iter, cst.Call) and self._name(loop.iter) in ("range", "trange")
        return over_range and isinstance(loop.target, cst.Name)

    def _holds(self, outer: cst.For, inner: cst.For) -> bool:
        return outer is not inner and self.span(outer)[0] < self.span(inner)[0] < self.span(outer)[1]

    # --- imports ---

    def add_import(self, module: str) -> list[Splice]:
        """`import module`: before the other imports of its group that it sorts before, else after them."""
        groups = self._import_groups()
        if any(self._binds(line, module) for group in groups for line in group):
            return []
        if not groups:
            line = self._first_line()
            return [Splice(self.lines.start_of(line), self.lines.start_of(line), f"import {module}\n\n")]
        group = next((it for it in groups if self._is_third_party(it)), groups[-1])
        text = f"import {module}"
        for statement in group:
            if isinstance(statement.body[0], cst.ImportFrom) or self.written(statement) > text:
                start = self.lines.start_of(self.line_of(statement))
                return [Splice(start, start, f"{text}\n")]
        stop = self.lines.stop_of(self._line_at(self.span(group[-1])[1]))
        return [Splice(stop, stop, f"\n{text}")]

    def _import_groups(self) -> list[list[cst.SimpleStatementLine]]:
        """The imports at the top level, in groups that blank lines separate; `__future__` apart from them."""
        groups: list[list[cst.SimpleStatementLine]] = []
        last = 0
        for node in self.tree.body:
            if not isinstance(node, cst.SimpleStatementLine) or not isinstance(
                node.body[0], (cst.Import, cst.ImportFrom)
            ):
                continue
            if isinstance(node.body[0], cst.ImportFrom) and self._module(node.body[0]) == "__future__":
                continue
            if not groups or self.line_of(node) != last + 1:
                groups.append([])
            groups[-1].append(node)
            last = self._line_at(self.span(node)[1])
        return groups

    def _module(self, node: cst.ImportFrom) -> str:
        return "." * len(node.relative) + (self.tree.code_for_node(node.module) if node.module else "")

    def _binds(self, line: cst.SimpleStatementLine, module: str) -> bool:
        names = [alias for node in line.body if isinstance(node, cst.Import) for alias in node.names]
        return any(self.tree.code_for_node(alias.name) == module and alias.asname is None for alias in names)

    def _is_third_party(self, group: list[cst.SimpleStatementLine]) -> bool:
        node = group[0].body[0]
        name = self._module(node) if isinstance(node, cst.ImportFrom) else ""
        if isinstance(node, cst.Import):
            name = self.tree.code_for_node(node.names[0].name)
        return not name.startswith(".") and name.partition(".")[0] not in sys.stdlib_module_names

    def _first_line(self) -> int:
        """The first line after the docstring and the `__future__` imports."""
        for node in self.tree.body:
            small = node.body[0] if isinstance(node, cst.SimpleStatementLine) else None
            if isinstance(small, cst.Expr) and isinstance(small.value, cst.BaseString):
                continue
            if isinstance(small, cst.ImportFrom) and self._module(small) == "__future__":
                continue
            return self.line_of(node)
        raise NoPlace("the file is empty")

    def uses(self, name: str) -> bool:
        """Is a name used outside imports? Text that spells it in quotes counts as a use."""
        names = (node for node in self.of_kind(cst.Name) if node.value == name)
        quoted = f'"{name}"' in self.text or f"'{name}'" in self.text
        return quoted or any(self.around(node, cst.ImportAlias) is None for node in names)

    def drop_import(self, name: str) -> list[Splice]:
        """Drop `from ... import name`; nothing where it is imported otherwise."""
        for node in self.of_kind(cst.ImportFrom):
            if isinstance(node.names, cst.ImportStar):
                continue
            for alias in node.names:
                if alias.asname is None and self.written(alias.name) == name:
                    if len(node.names) == 1:
                        return self.drop_statement(self.location(*self.span(node)))
                    return self._dropped_alias(alias, node.names)
        return []

    def _dropped_alias(self, alias: cst.ImportAlias, names: Sequence[cst.ImportAlias]) -> list[Splice]:
        index = next(number for number, other in enumerate(names) if other is alias)
        start, end = self.span(alias.name)
        comma = self._comma(alias)
        line = self._line_at(start)
        before = self.text[self.lines.start_of(line) : start]
        if not before.strip() and not self.text[comma or end : self.lines.stop_of(line)].strip():
            return [Splice(self.lines.start_of(line), self.lines.end_of(line), "")]
        if index > 0:
            return [Splice(self.span(names[index - 1].name)[1], end, "")] if names[index - 1].asname is None else []
        return [Splice(start, self.span(names[1])[0], "")]

    def location(self, start: int, end: int) -> Location:
        return Location("", *self.lines.place(start), *self.lines.place(end))


def _string(node: cst.BaseExpression) -> str:
    if not isinstance(node, cst.SimpleString):
        return ""
    value = node.evaluated_value
    return value if isinstance(value, str) else ""
