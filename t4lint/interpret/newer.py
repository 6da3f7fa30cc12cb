"""Syntax that is newer than the running Python: read by libcst, and turned into the nodes of `ast`.

What interpretation has no use for is left out: type parameters, type comments.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import libcst as cst

from t4lint.sources.positions import LINE_END, line_starts
from t4lint.sources.printed import deep_enough, spans

OPERATORS: dict[type[cst.CSTNode], type[ast.AST]] = {
    cst.Add: ast.Add, cst.Subtract: ast.Sub, cst.Multiply: ast.Mult, cst.MatrixMultiply: ast.MatMult,
    cst.Divide: ast.Div, cst.FloorDivide: ast.FloorDiv, cst.Modulo: ast.Mod, cst.Power: ast.Pow,
    cst.BitAnd: ast.BitAnd, cst.BitOr: ast.BitOr, cst.BitXor: ast.BitXor, cst.LeftShift: ast.LShift,
    cst.RightShift: ast.RShift,
    cst.AddAssign: ast.Add, cst.SubtractAssign: ast.Sub, cst.MultiplyAssign: ast.Mult,
    cst.MatrixMultiplyAssign: ast.MatMult, cst.DivideAssign: ast.Div, cst.FloorDivideAssign: ast.FloorDiv,
    cst.ModuloAssign: ast.Mod, cst.PowerAssign: ast.Pow, cst.BitAndAssign: ast.BitAnd, cst.BitOrAssign: ast.BitOr,
    cst.BitXorAssign: ast.BitXor, cst.LeftShiftAssign: ast.LShift, cst.RightShiftAssign: ast.RShift,
    cst.Not: ast.Not, cst.Minus: ast.USub, cst.Plus: ast.UAdd, cst.BitInvert: ast.Invert,
    cst.And: ast.And, cst.Or: ast.Or,
    cst.Equal: ast.Eq, cst.NotEqual: ast.NotEq, cst.LessThan: ast.Lt, cst.LessThanEqual: ast.LtE,
    cst.GreaterThan: ast.Gt, cst.GreaterThanEqual: ast.GtE, cst.Is: ast.Is, cst.IsNot: ast.IsNot, cst.In: ast.In,
    cst.NotIn: ast.NotIn,
}  # fmt: skip
CONSTANTS = {"True": True, "False": False, "None": None}
TEMPLATES: Any = {getattr(cst, "TemplatedString", None)}  # since libcst 1.8.3
LAZY_IMPORTS: Any = {getattr(cst, "LazyImport", None)}  # of Python 3.15, since libcst 1.9
LAZY_IMPORTS_FROM: Any = {getattr(cst, "LazyImportFrom", None)}
LARGEST_NUMBER = 4_300  # digits: `sys.get_int_max_str_digits()` of Python 3.11 and later


class Uninterpreted(ast.expr):
    """An expression that the running Python has no node for, or that it refuses."""

    _fields = ()


def parse(text: str) -> ast.Module:
    """The tree of a text; SyntaxError where libcst refuses it too."""
    try:
        with unvalidated():
            tree = cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        reason = error.message.removeprefix("parser error: ").strip() or "syntax error"
        raise SyntaxError(reason, ("", error.raw_line, error.raw_column + 1, None)) from None
    with deep_enough():
        return _Converter(tree, text).module(tree)


_VALIDATE = cst.CSTNode.__post_init__


@contextmanager
def unvalidated() -> Iterator[None]:
    """Without libcst's checks of each node, a quarter of its time: those are for trees that are built by hand."""
    cst.CSTNode.__post_init__ = _nothing  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        cst.CSTNode.__post_init__ = _VALIDATE  # type: ignore[method-assign]


def _nothing(node: cst.CSTNode) -> None:
    pass


class _Converter:
    """Makes the nodes of one module. Each has the place that `ast.parse` would give it."""

    def __init__(self, tree: cst.Module, text: str) -> None:
        self.text = text
        self.spans = spans(tree, text)
        self.starts = line_starts(text)

    # --- places ---

    def at(self, made: Any, start: int, end: int) -> Any:
        """A node that stands in a range of the text."""
        made.lineno, made.col_offset = self.place(start)
        made.end_lineno, made.end_col_offset = self.place(end)
        return made

    def place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self.starts, offset)
        return line, len(self.text[self.starts[line - 1] : offset].encode("utf-8", "replace"))

    def like(self, made: Any, node: cst.CSTNode) -> Any:
        return self.at(made, *self.spans[id(node)])

    def ending(self, made: Any, node: cst.CSTNode, *blocks: Sequence[ast.AST]) -> Any:
        """A compound statement: it ends with the last statement in it."""
        last: Any = next(block[-1] for block in reversed(blocks) if block)
        self.like(made, node)
        made.end_lineno, made.end_col_offset = last.end_lineno, last.end_col_offset
        return made

    def bracketed(self, made: Any, node: cst.Tuple | cst.GeneratorExp | cst.MatchTuple) -> Any:
        """What has brackets of its own stands where these do; further ones around them are no part of it."""
        if not node.lpar:
            return self.like(made, node)
        return self.at(made, self.spans[id(node.lpar[-1])][0], self.spans[id(node.rpar[0])][1])

    # --- statements ---

    def module(self, tree: cst.Module) -> ast.Module:
        return ast.Module(self.statements(tree.body), [])

    def statements(self, body: Iterable[cst.CSTNode]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for node in body:
            if isinstance(node, cst.SimpleStatementLine):
                made.extend(self.statement(small) for small in node.body)
            else:
                made.append(self.statement(node))
        return made

    def block(self, suite: cst.CSTNode | None) -> list[ast.stmt]:
        """The statements of a suite, of an `else` or `finally`, or an `elif`."""
        if suite is None:
            return []
        if isinstance(suite, (cst.Else, cst.Finally)):
            return self.block(suite.body)
        return [self.statement(suite)] if isinstance(suite, cst.If) else self.statements(suite.body)  # type: ignore[attr-defined]

    def statement(self, node: cst.CSTNode) -> Any:
        return STATEMENTS.get(type(node), _Converter.passed)(self, node)

    def passed(self, node: cst.CSTNode) -> ast.stmt:
        """A statement of a Python that is newer than this module."""
        return self.like(ast.Pass(), node)  # type: ignore[no-any-return]

    def expr_statement(self, node: cst.Expr) -> ast.stmt:
        value = self.expression(node.value)
        start, end = self.around(node.value)
        return self.at(ast.Expr(value), start, end)  # type: ignore[no-any-return]

    def around(self, node: Any) -> tuple[int, int]:
        """The range of an expression with all brackets around it."""
        start, end = self.spans[id(node)]
        if node.lpar:
            start, end = self.spans[id(node.lpar[0])][0], self.spans[id(node.rpar[-1])][1]
        return start, end

    def assign(self, node: cst.Assign) -> ast.stmt:
        targets = [self.target(item.target) for item in node.targets]
        return self.like(ast.Assign(targets, self.expression(node.value)), node)  # type: ignore[no-any-return]

    def ann_assign(self, node: cst.AnnAssign) -> ast.stmt:
        simple = int(isinstance(node.target, cst.Name) and not node.target.lpar)
        made = ast.AnnAssign(
            self.target(node.target), self.expression(node.annotation.annotation), self.maybe(node.value), simple
        )
        return self.like(made, node)  # type: ignore[no-any-return]

    def aug_assign(self, node: cst.AugAssign) -> ast.stmt:
        made = ast.AugAssign(self.target(node.target), self.operator(node.operator), self.expression(node.value))
        return self.like(made, node)  # type: ignore[no-any-return]

    def delete(self, node: cst.Del) -> ast.stmt:
        inside = isinstance(node.target, cst.Tuple) and not node.target.lpar
        targets = [item.value for item in node.target.elements] if inside else [node.target]  # type: ignore[attr-defined]
        return self.like(ast.Delete([self.target(it, ast.Del) for it in targets]), node)  # type: ignore[no-any-return]

    def raising(self, node: cst.Raise) -> ast.stmt:
        cause = node.cause.item if isinstance(node.cause, cst.From) else None
        return self.like(ast.Raise(self.maybe(node.exc), self.maybe(cause)), node)  # type: ignore[no-any-return]

    def names(self, node: cst.Global | cst.Nonlocal) -> ast.stmt:
        kind = ast.Global if isinstance(node, cst.Global) else ast.Nonlocal
        return self.like(kind([item.name.value for item in node.names]), node)  # type: ignore[no-any-return]

    def importing(self, node: cst.Import) -> ast.stmt:
        return self.like(ast.Import([self.alias(alias) for alias in node.names]), node)  # type: ignore[no-any-return]

    def importing_from(self, node: cst.ImportFrom) -> ast.stmt:
        if isinstance(node.names, cst.ImportStar):
            names = [self.like(ast.alias("*"), node.names)]
        else:
            names = [self.alias(alias) for alias in node.names]
        module = dotted(node.module) if node.module is not None else None
        return self.like(ast.ImportFrom(module, names, len(node.relative)), node)  # type: ignore[no-any-return]

    def alias(self, node: cst.ImportAlias) -> Any:
        start, end = self.spans[id(node.name)]
        name = None
        if node.asname is not None:
            name = node.asname.name.value  # type: ignore[union-attr]
            end = self.spans[id(node.asname.name)][1]
        return self.at(ast.alias(dotted(node.name), name), start, end)

    def condition(self, node: cst.If) -> ast.stmt:
        body, orelse = self.block(node.body), self.block(node.orelse)
        return self.ending(ast.If(self.expression(node.test), body, orelse), node, body, orelse)  # type: ignore[no-any-return]

    def loop(self, node: cst.For) -> ast.stmt:
        body, orelse = self.block(node.body), self.block(node.orelse)
        kind = ast.For if node.asynchronous is None else ast.AsyncFor
        made = kind(self.target(node.target), self.expression(node.iter), body, orelse)
        return self.ending(made, node, body, orelse)  # type: ignore[no-any-return]

    def loop_while(self, node: cst.While) -> ast.stmt:
        body, orelse = self.block(node.body), self.block(node.orelse)
        return self.ending(ast.While(self.expression(node.test), body, orelse), node, body, orelse)  # type: ignore[no-any-return]

    def region(self, node: cst.With) -> ast.stmt:
        body = self.block(node.body)
        items = [
            ast.withitem(self.expression(item.item), self.target(item.asname.name) if item.asname is not None else None)
            for item in node.items
        ]
        kind = ast.With if node.asynchronous is None else ast.AsyncWith
        return self.ending(kind(items, body), node, body)  # type: ignore[no-any-return]

    def guarded(self, node: cst.Try | cst.TryStar) -> ast.stmt:
        handlers = [self.handler(handler) for handler in node.handlers]
        blocks = [self.block(node.body), handlers, self.block(node.orelse), self.block(node.finalbody)]
        kind: Any = getattr(ast, "TryStar", ast.Try) if isinstance(node, cst.TryStar) else ast.Try
        return self.ending(kind(*blocks), node, *blocks)  # type: ignore[no-any-return]

    def handler(self, node: cst.ExceptHandler | cst.ExceptStarHandler) -> Any:
        name = node.name.name.value if node.name is not None else None  # type: ignore[union-attr]
        body = self.block(node.body)
        return self.ending(ast.ExceptHandler(self.maybe(node.type), name, body), node, body)

    def function(self, node: cst.FunctionDef) -> ast.stmt:
        body = self.block(node.body)
        kind: Any = ast.FunctionDef if node.asynchronous is None else ast.AsyncFunctionDef
        made = kind(
            name=node.name.value,
            args=self.parameters(node.params),
            body=body,
            decorator_list=[self.expression(it.decorator) for it in node.decorators],
            returns=self.maybe(node.returns.annotation if node.returns is not None else None),
        )
        return self.ending(without_types(made), node, body)  # type: ignore[no-any-return]

    def class_(self, node: cst.ClassDef) -> ast.stmt:
        body = self.block(node.body)
        positional, keywords = self.arguments([*node.bases, *node.keywords])
        made: Any = ast.ClassDef(
            name=node.name.value,
            bases=positional,
            keywords=keywords,
            body=body,
            decorator_list=[self.expression(it.decorator) for it in node.decorators],
        )
        return self.ending(without_types(made), node, body)  # type: ignore[no-any-return]

    def type_alias(self, node: cst.TypeAlias) -> ast.stmt:
        """An alias is nothing to the run."""
        return self.like(ast.Pass(), node)  # type: ignore[no-any-return]

    def matching(self, node: cst.Match) -> ast.stmt:
        cases = [
            ast.match_case(self.pattern(case.pattern), self.maybe(case.guard), self.block(case.body))
            for case in node.cases
        ]
        return self.ending(ast.Match(self.expression(node.subject), cases), node, cases[-1].body)  # type: ignore[no-any-return]

    # --- patterns ---

    def pattern(self, node: Any) -> Any:
        made: Any
        if isinstance(node, cst.MatchAs):
            inner = self.pattern(node.pattern) if node.pattern is not None else None
            made = ast.MatchAs(inner, node.name.value if node.name is not None else None)
        elif isinstance(node, cst.MatchSingleton):
            made = ast.MatchSingleton(CONSTANTS[node.value.value])
        elif isinstance(node, cst.MatchClass):
            made = ast.MatchClass(
                self.expression(node.cls),
                [self.pattern(item.value) for item in node.patterns],
                [item.key.value for item in node.kwds],
                [self.pattern(item.pattern) for item in node.kwds],
            )
        elif isinstance(node, cst.MatchMapping):
            made = ast.MatchMapping(
                [self.expression(item.key) for item in node.elements],
                [self.pattern(item.pattern) for item in node.elements],
                node.rest.value if node.rest is not None else None,
            )
        elif isinstance(node, (cst.MatchList, cst.MatchTuple)):
            made = ast.MatchSequence([self.pattern(getattr(item, "value", item)) for item in node.patterns])
            return self.bracketed(made, node) if isinstance(node, cst.MatchTuple) else self.like(made, node)
        elif isinstance(node, cst.MatchStar):
            made = ast.MatchStar(node.name.value if node.name is not None else None)
        elif isinstance(node, cst.MatchOr):
            made = ast.MatchOr([self.pattern(item.pattern) for item in node.patterns])
        else:
            return self.like(ast.MatchValue(self.expression(node.value)), node.value)
        return self.like(made, node)

    # --- expressions ---

    def expression(self, node: Any) -> Any:
        make: Make = EXPRESSIONS.get(type(node), _Converter.uninterpreted)
        return make(self, node)

    def maybe(self, node: Any) -> Any:
        return self.expression(node) if node is not None else None

    def target(self, node: Any, context: type[ast.expr_context] = ast.Store) -> Any:
        return self.in_context(self.expression(node), context)

    def in_context(self, made: Any, context: type[ast.expr_context]) -> Any:
        made.ctx = context()
        for part in getattr(made, "elts", ()):
            self.in_context(part, context)
        if isinstance(made, ast.Starred):
            self.in_context(made.value, context)
        return made

    def operator(self, node: cst.CSTNode) -> Any:
        return OPERATORS[type(node)]()

    def name(self, node: cst.Name) -> Any:
        if node.value in CONSTANTS:
            return self.like(ast.Constant(CONSTANTS[node.value]), node)
        return self.like(ast.Name(node.value, ast.Load()), node)

    def attribute(self, node: cst.Attribute) -> Any:
        return self.like(ast.Attribute(self.expression(node.value), node.attr.value, ast.Load()), node)

    def number(self, node: cst.Integer | cst.Float | cst.Imaginary) -> Any:
        if isinstance(node, cst.Integer) and len(node.value) > LARGEST_NUMBER:
            return self.like(Uninterpreted(), node)
        return self.like(ast.Constant(ast.literal_eval(node.value)), node)

    def ellipsis(self, node: cst.Ellipsis) -> Any:
        return self.like(ast.Constant(...), node)

    def string(self, node: cst.SimpleString | cst.ConcatenatedString | cst.FormattedString) -> Any:
        """Strings that stand side by side are one: a constant, or parts where one of them is formatted."""
        pieces = list(side_by_side(node))
        if any(type(piece) in TEMPLATES for piece in pieces):
            return self.like(Uninterpreted(), node)
        first = pieces[0]
        kind = "u" if isinstance(first, cst.SimpleString) and first.value[0] in "uU" else None
        parts: list[Any] = []
        for piece in pieces:
            parts.extend(self.parts(piece))
        values: list[Any] = []
        for part in parts:
            last = values[-1] if values else None
            if isinstance(part, (str, bytes)) and type(last) is type(part):
                values[-1] = last + part  # type: ignore[operator]
            else:
                values.append(part)
        if not any(isinstance(piece, cst.FormattedString) for piece in pieces):
            value = values[0] if values else ast.literal_eval(first.value)
            return self.like(ast.Constant(value, kind), node)
        made = [
            self.like(ast.Constant(part, kind if number == 0 else None), node) if isinstance(part, str) else part
            for number, part in enumerate(values) if part != ""
        ]  # fmt: skip
        return self.like(ast.JoinedStr(made), node)

    def parts(self, piece: Any) -> Iterator[Any]:
        """Text and `FormattedValue`s."""
        if isinstance(piece, cst.SimpleString):
            yield ast.literal_eval(piece.value)
            return
        raw = "r" in piece.start.lower()
        for part in piece.parts:
            if isinstance(part, cst.FormattedStringText):
                yield literal_text(part.value, raw)
            else:
                yield from self.formatted(part, raw)

    def formatted(self, node: cst.FormattedStringExpression, raw: bool) -> Iterator[Any]:
        conversion = ord(node.conversion) if node.conversion else -1
        if node.equal is not None:  # `{x = }` writes itself
            start, end = self.spans[id(node)][0], self.spans[id(node.equal)][1]
            blanks = len(self.text) - end - len(self.text[end:].lstrip())
            yield self.text[start + 1 : end + blanks]
            conversion = ord("r") if conversion == -1 and node.format_spec is None else conversion
        spec = None
        if node.format_spec is not None:
            parts: list[Any] = []
            part: Any
            for part in node.format_spec:
                if isinstance(part, cst.FormattedStringText):
                    parts.append(self.like(ast.Constant(literal_text(part.value, raw)), part))
                else:
                    parts.extend(self.formatted(part, raw))
            spec = self.like(ast.JoinedStr(parts), node)
        yield self.like(ast.FormattedValue(self.expression(node.expression), conversion, spec), node)

    def elements(self, node: cst.List | cst.Tuple | cst.Set) -> list[Any]:
        return [
            self.like(ast.Starred(self.expression(item.value), ast.Load()), item)
            if isinstance(item, cst.StarredElement)
            else self.expression(item.value)
            for item in node.elements
        ]

    def list_(self, node: cst.List) -> Any:
        return self.like(ast.List(self.elements(node), ast.Load()), node)

    def tuple_(self, node: cst.Tuple) -> Any:
        return self.bracketed(ast.Tuple(self.elements(node), ast.Load()), node)

    def set_(self, node: cst.Set) -> Any:
        return self.like(ast.Set(self.elements(node)), node)

    def dict_(self, node: cst.Dict) -> Any:
        keys = [self.expression(item.key) if isinstance(item, cst.DictElement) else None for item in node.elements]
        return self.like(ast.Dict(keys, [self.expression(item.value) for item in node.elements]), node)

    def subscript(self, node: cst.Subscript) -> Any:
        parts = [self.index(element) for element in node.slice]
        only = parts[0]
        if len(parts) > 1 or isinstance(node.slice[0].comma, cst.Comma) or isinstance(only, ast.Starred):
            first, last = node.slice[0], node.slice[-1]
            start, end = self.spans[id(first)][0], self.spans[id(last)][1]
            if isinstance(last.comma, cst.Comma):
                end = self.spans[id(last.comma)][1]
            end = start + len(self.text[start:end].rstrip())
            only = self.at(ast.Tuple(parts, ast.Load()), start, end)
        return self.like(ast.Subscript(self.expression(node.value), only, ast.Load()), node)

    def index(self, element: cst.SubscriptElement) -> Any:
        part: Any = element.slice
        if isinstance(part, cst.Index):
            value = self.expression(part.value)
            return self.like(ast.Starred(value, ast.Load()), part) if part.star else value
        start, end = self.spans[id(part)]
        end = start + len(self.text[start:end].rstrip())  # blanks after a colon are the colon's
        return self.at(ast.Slice(self.maybe(part.lower), self.maybe(part.upper), self.maybe(part.step)), start, end)

    def binary(self, node: cst.BinaryOperation) -> Any:
        left, right = self.expression(node.left), self.expression(node.right)
        return self.like(ast.BinOp(left, self.operator(node.operator), right), node)

    def unary(self, node: cst.UnaryOperation) -> Any:
        return self.like(ast.UnaryOp(self.operator(node.operator), self.expression(node.expression)), node)

    def boolean(self, node: cst.BooleanOperation) -> Any:
        kind = type(node.operator)
        values = [node.right]
        left = node.left
        while isinstance(left, cst.BooleanOperation) and type(left.operator) is kind and not left.lpar:
            values.append(left.right)
            left = left.left
        parts = [self.expression(it) for it in (left, *reversed(values))]
        return self.like(ast.BoolOp(self.operator(node.operator), parts), node)

    def comparison(self, node: cst.Comparison) -> Any:
        operators = [self.operator(item.operator) for item in node.comparisons]
        others = [self.expression(item.comparator) for item in node.comparisons]
        return self.like(ast.Compare(self.expression(node.left), operators, others), node)

    def conditional(self, node: cst.IfExp) -> Any:
        made = ast.IfExp(self.expression(node.test), self.expression(node.body), self.expression(node.orelse))
        return self.like(made, node)

    def walrus(self, node: cst.NamedExpr) -> Any:
        return self.like(ast.NamedExpr(self.target(node.target), self.expression(node.value)), node)

    def call(self, node: cst.Call) -> Any:
        positional, keywords = self.arguments(node.args)
        if len(node.args) == 1 and isinstance(node.args[0].value, cst.GeneratorExp) and not node.args[0].value.lpar:
            # `f(x for x in y)`: the brackets are the call's and the generator's
            self.at(positional[0], self.spans[id(node.whitespace_before_args)][0] - 1, self.spans[id(node)][1])
        return self.like(ast.Call(self.expression(node.func), positional, keywords), node)

    def arguments(self, given: Iterable[cst.Arg]) -> tuple[list[Any], list[ast.keyword]]:
        positional: list[Any] = []
        keywords: list[ast.keyword] = []
        for item in given:
            value = self.expression(item.value)
            if item.star == "*":
                positional.append(self.like(ast.Starred(value, ast.Load()), item))
            elif item.star == "**" or item.keyword is not None:
                name = item.keyword.value if item.keyword is not None else None
                keywords.append(self.like(ast.keyword(name, value), item))
            else:
                positional.append(value)
        return positional, keywords

    def parameters(self, node: cst.Parameters) -> ast.arguments:
        plain = [*node.posonly_params, *node.params]
        star = node.star_arg if isinstance(node.star_arg, cst.Param) else None
        return ast.arguments(
            posonlyargs=[self.parameter(it) for it in node.posonly_params],
            args=[self.parameter(it) for it in node.params],
            vararg=self.parameter(star) if star is not None else None,
            kwonlyargs=[self.parameter(it) for it in node.kwonly_params],
            kw_defaults=[self.maybe(it.default) for it in node.kwonly_params],
            kwarg=self.parameter(node.star_kwarg) if node.star_kwarg is not None else None,
            defaults=[self.expression(it.default) for it in plain if it.default is not None],
        )

    def parameter(self, node: cst.Param) -> Any:
        start, end = self.spans[id(node.name)]
        annotation = None
        if node.annotation is not None:
            annotation = self.expression(node.annotation.annotation)
            end = self.around(node.annotation.annotation)[1]
        return self.at(ast.arg(node.name.value, annotation), start, end)

    def lambda_(self, node: cst.Lambda) -> Any:
        return self.like(ast.Lambda(self.parameters(node.params), self.expression(node.body)), node)

    def await_(self, node: cst.Await) -> Any:
        return self.like(ast.Await(self.expression(node.expression)), node)

    def yield_(self, node: cst.Yield) -> Any:
        if isinstance(node.value, cst.From):
            return self.like(ast.YieldFrom(self.expression(node.value.item)), node)
        return self.like(ast.Yield(self.maybe(node.value)), node)

    def comprehension(self, node: cst.ListComp | cst.SetComp | cst.GeneratorExp) -> Any:
        kinds = {cst.ListComp: ast.ListComp, cst.SetComp: ast.SetComp, cst.GeneratorExp: ast.GeneratorExp}
        made = kinds[type(node)](self.expression(node.elt), self.clauses(node.for_in))
        return self.bracketed(made, node) if isinstance(node, cst.GeneratorExp) else self.like(made, node)

    def dict_comprehension(self, node: cst.DictComp) -> Any:
        made = ast.DictComp(self.expression(node.key), self.expression(node.value), self.clauses(node.for_in))
        return self.like(made, node)

    def clauses(self, clause: cst.CompFor | None) -> list[ast.comprehension]:
        made = []
        while clause is not None:
            tests = [self.expression(condition.test) for condition in clause.ifs]
            is_async = int(clause.asynchronous is not None)
            made.append(ast.comprehension(self.target(clause.target), self.expression(clause.iter), tests, is_async))
            clause = clause.inner_for_in
        return made

    def uninterpreted(self, node: cst.CSTNode) -> Any:
        return self.like(Uninterpreted(), node)


def without_types(made: Any) -> Any:
    if "type_params" in made._fields:
        made.type_params = []
    return made


def dotted(node: Any) -> str:
    return f"{dotted(node.value)}.{node.attr.value}" if isinstance(node, cst.Attribute) else str(node.value)


def side_by_side(node: Any) -> Iterator[Any]:
    while isinstance(node, cst.ConcatenatedString):
        yield node.left
        node = node.right
    yield node


def literal_text(text: str, raw: bool) -> str:
    """What the text of an f-string stands for."""
    text = LINE_END.sub("\n", text)
    if not raw and "\\" in text:
        quoted = re.sub(r'(\\.)|"', lambda match: match[1] or r"\"", text, flags=re.DOTALL)
        text = ast.literal_eval(f'"""{quoted}"""')
    return text.replace("{{", "{").replace("}}", "}")


Make = Callable[[_Converter, Any], Any]

STATEMENTS: dict[type[cst.CSTNode], Make] = {
    cst.Expr: _Converter.expr_statement,
    cst.Assign: _Converter.assign,
    cst.AnnAssign: _Converter.ann_assign,
    cst.AugAssign: _Converter.aug_assign,
    cst.Return: lambda c, node: c.like(ast.Return(c.maybe(node.value)), node),
    cst.Raise: _Converter.raising,
    cst.Del: _Converter.delete,
    cst.Assert: lambda c, node: c.like(ast.Assert(c.expression(node.test), c.maybe(node.msg)), node),
    cst.Global: _Converter.names,
    cst.Nonlocal: _Converter.names,
    cst.Break: lambda c, node: c.like(ast.Break(), node),
    cst.Continue: lambda c, node: c.like(ast.Continue(), node),
    cst.Pass: lambda c, node: c.like(ast.Pass(), node),
    cst.If: _Converter.condition,
    cst.Match: _Converter.matching,
    cst.For: _Converter.loop,
    cst.While: _Converter.loop_while,
    cst.With: _Converter.region,
    cst.Try: _Converter.guarded,
    cst.TryStar: _Converter.guarded,
    cst.FunctionDef: _Converter.function,
    cst.ClassDef: _Converter.class_,
    cst.Import: _Converter.importing,
    cst.ImportFrom: _Converter.importing_from,
    **dict.fromkeys(LAZY_IMPORTS - {None}, _Converter.importing),
    **dict.fromkeys(LAZY_IMPORTS_FROM - {None}, _Converter.importing_from),
    cst.TypeAlias: _Converter.type_alias,
}

EXPRESSIONS: dict[type[cst.CSTNode], Make] = {
    cst.Name: _Converter.name,
    cst.Attribute: _Converter.attribute,
    cst.Integer: _Converter.number,
    cst.Float: _Converter.number,
    cst.Imaginary: _Converter.number,
    cst.Ellipsis: _Converter.ellipsis,
    cst.SimpleString: _Converter.string,
    cst.ConcatenatedString: _Converter.string,
    cst.FormattedString: _Converter.string,
    **dict.fromkeys(TEMPLATES - {None}, _Converter.uninterpreted),
    cst.List: _Converter.list_,
    cst.Tuple: _Converter.tuple_,
    cst.Set: _Converter.set_,
    cst.Dict: _Converter.dict_,
    cst.Subscript: _Converter.subscript,
    cst.BinaryOperation: _Converter.binary,
    cst.UnaryOperation: _Converter.unary,
    cst.BooleanOperation: _Converter.boolean,
    cst.Comparison: _Converter.comparison,
    cst.IfExp: _Converter.conditional,
    cst.NamedExpr: _Converter.walrus,
    cst.Call: _Converter.call,
    cst.Lambda: _Converter.lambda_,
    cst.Await: _Converter.await_,
    cst.Yield: _Converter.yield_,
    cst.ListComp: _Converter.comprehension,
    cst.SetComp: _Converter.comprehension,
    cst.GeneratorExp: _Converter.comprehension,
    cst.DictComp: _Converter.dict_comprehension,
}
