"""What expressions evaluate to."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from t4lint.interpret import ranks
from t4lint.interpret.operators import COMPARISON, NAMES, binary, negative, origins_of, tensor_of, unknown_from
from t4lint.interpret.values import (
    NONE,
    Abstract,
    Choice,
    Class,
    Const,
    DictValue,
    Function,
    Instance,
    ListValue,
    Object,
    Partial,
    ProjectModule,
    Scope,
    Step,
    Symbol,
    Tensor,
    Unknown,
    by_iteration,
    replace_origins,
    with_origin,
)
from t4lint.libraries.api import Arguments
from t4lint.trace import HostSync

if TYPE_CHECKING:
    from t4lint.interpret.machine import Machine

NEVER = Unknown("the program has ended here")  # the value of a call that does not return
MAX_LITERAL = 10_000  # characters of a string literal that is kept
MAX_DIGITS = 100  # of a number that is kept
MAX_NOTE = 60  # characters of a literal in its provenance


def evaluate(m: Machine, node: ast.expr) -> Abstract:
    m.steps += 1
    if m.steps > m.most_steps:
        m.exhausted()
    handler = EXPRESSIONS.get(type(node))
    return handler(m, node) if handler else Unknown(f"{type(node).__name__} is not interpreted")


def truth(m: Machine, value: Abstract) -> bool | None:
    """Is a value true? None when that cannot be told."""
    value = m.resolve(value)
    if isinstance(value, Const):
        return bool(value.value)
    if isinstance(value, Choice):
        yes, no = truth(m, value.yes), truth(m, value.no)
        return yes if yes == no else None
    if isinstance(value, ListValue):
        return bool(value.items) if (value.items and not value.maybe) or value.complete else None
    if isinstance(value, DictValue):
        return bool(value.items) if value.items or value.complete else None
    if isinstance(value, (Unknown, Tensor)):
        return None
    if isinstance(value, (Function, Class, Instance, Symbol, Partial, ProjectModule)):
        return True
    return True if isinstance(value, Object) and value.kind != "namespace" else None


COMPARED_ON_GPU = "a comparison of tensors on the GPU"


def say_read(m: Machine, operation: str, value: Abstract, node: ast.AST) -> None:
    """The host waits for a value on the GPU, without a call that says so."""
    on_gpu = isinstance(value, Tensor) and value.facts.device == "cuda"
    if on_gpu or (isinstance(value, Unknown) and value.reason == COMPARED_ON_GPU):
        with m.at(m.frames[-1].source, node):
            m.emit(HostSync, operation, device=Const("cuda"), always=Const(not m.now_and_then()))


def test_name(m: Machine, test: Abstract) -> tuple[str, bool]:
    """A name for an undecided test, equal wherever the same unknown is tested, and whether the test negates it."""
    if isinstance(test, Choice):
        return test.test, False
    if isinstance(test, Unknown):
        name, negated = test.uid, False
        while name.startswith("not(") and name.endswith(")"):
            name, negated = name[4:-1], not negated
        return name, negated
    return f"truth of @{id(test)}", False


# --- literals ----------------------------------------------------------------------------------------------------


def literal(m: Machine, value: Any, node: ast.AST, note: str) -> Const:
    """The constant that a node stands for; a node is evaluated often, and always to the same."""
    source = m.frames[-1].source
    found = source.constants[id(node)] = Const(value, (Step("literal", note, source, node),))
    return found


def renamed(value: Abstract, note: str) -> Abstract:
    """The same value, its single provenance step under another note."""
    step = value.origins[0]
    return replace_origins(value, (Step(step.how, note, step.source, step.node, step.location),))


def replace_with_default(value: Abstract, note: str, source: Any, node: ast.AST) -> Abstract:
    """A field's or parameter's default: its provenance says so, and keeps what the target answered."""
    return replace_origins(
        value, (Step("default", note, source, node), *(s for s in value.origins if s.how == "target"))
    )


def _constant(m: Machine, node: ast.Constant) -> Abstract:
    source = m.frames[-1].source
    known: Abstract | None = source.constants.get(id(node))
    if known is None:
        known = source.constants[id(node)] = _literal_of(m, node)
    return known


def _literal_of(m: Machine, node: ast.Constant) -> Abstract:
    value: Any = node.value
    if value is None or isinstance(value, bool):
        return literal(m, value, node, str(value))
    if value is ...:
        return Const(...)
    if isinstance(value, complex):
        return Unknown("a complex number is not interpreted")
    if isinstance(value, str) and len(value) > MAX_LITERAL:
        return Unknown("a very long string")
    written = m.frames[-1].source.code(node)
    if isinstance(value, int) and len(written) > MAX_DIGITS:
        return Unknown("a huge number")
    note = written if len(written) <= MAX_NOTE or isinstance(value, (int, float)) else written[: MAX_NOTE - 3] + "..."
    return literal(m, value, node, note)


def _formatted(m: Machine, node: ast.JoinedStr) -> Abstract:
    m.frames[-1].source.note_parts(node)
    parts: list[Abstract] = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(Const(part.value))
            continue
        if not isinstance(part, ast.FormattedValue):
            continue
        value = m.resolve(evaluate(m, part.value))
        if isinstance(value, Const) and part.format_spec is None and part.conversion == -1:
            parts.append(Const(str(value.value), value.origins, value.varies))
        elif isinstance(value, Choice) and part.format_spec is None:
            parts.append(m.mapped(value, _text))
        else:
            say_read(m, "format", value, part.value)
            parts.append(unknown_from("format", value))
    if not parts:
        return Const("")
    result = parts[0]
    for part_value in parts[1:]:
        result = binary(m, "Add", result, part_value)
    return result


def _text(value: Abstract) -> Abstract:
    return (
        Const(str(value.value), value.origins, value.varies) if isinstance(value, Const) else unknown_from("str", value)
    )


def _elements(m: Machine, elements: Iterable[ast.expr]) -> tuple[tuple[Abstract, ...], bool]:
    items: list[Abstract] = []
    complete = True
    for element in elements:
        if not isinstance(element, ast.Starred):
            items.append(evaluate(m, element))
            continue
        value = m.resolve(evaluate(m, element.value))
        if isinstance(value, ListValue):
            items.extend(value.items)
            complete = complete and value.complete
        else:
            complete = False
    return tuple(items), complete


def _list(m: Machine, node: ast.List) -> Abstract:
    items, complete = _elements(m, node.elts)
    result = ListValue(items, "list", complete)
    if m.loops:
        result.state["loop"] = m.loops[-1].identity
    return result


def _tuple(m: Machine, node: ast.Tuple) -> Abstract:
    items, complete = _elements(m, node.elts)
    return ListValue(items, "tuple", complete)


def _set(m: Machine, node: ast.Set) -> Abstract:
    return set_of(*_elements(m, node.elts))


def set_of(items: Iterable[Abstract], complete: bool = True) -> ListValue:
    """A set: equal constants are one element; with a value that is not known, how many there are is not known."""
    found: dict[Any, Abstract] = {}
    for item in items:
        known = isinstance(item, Const) and hashable(item.value)
        found.setdefault((type(item.value), item.value) if known else id(item), item)  # type: ignore[attr-defined]
        complete = complete and not isinstance(item, Unknown)
    return ListValue(tuple(found.values()), "set", complete)


def _dict(m: Machine, node: ast.Dict) -> Abstract:
    result = DictValue()
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        if key_node is None:  # `**other`
            other = m.resolve(evaluate(m, value_node))
            if isinstance(other, DictValue):
                result.items.update(other.items)
                result.state["complete"] = result.complete and other.complete
            else:
                result.state["complete"] = False
            continue
        key = m.resolve(evaluate(m, key_node))
        value = evaluate(m, value_node)
        if isinstance(key, Const) and hashable(key.value):
            result.items[key.value] = named(value, value_node, f"{key.value!r}: ", "key")
        else:
            result.state["complete"] = False
    return result


def named(value: Abstract, node: ast.AST, prefix: str, how: str) -> Abstract:
    """A literal's provenance names the keyword or key that it is given to."""
    if isinstance(value, (Const, Symbol)) and len(value.origins) == 1 and value.origins[0].node is node:
        if value.origins[0].how == "literal":
            return renamed(value, prefix + value.origins[0].note)
    return value


def hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


# --- names, attributes, items ------------------------------------------------------------------------------------


def _name(m: Machine, node: ast.Name) -> Abstract:
    return look_up(m, node.id)


def look_up(m: Machine, name: str) -> Abstract:
    frame = m.frames[-1]
    scope: Scope | None = frame.scope
    while scope is not None:
        value = scope.names.get(name)
        if value is not None:
            return m.resolve(value) if isinstance(value, Choice) else value
        scope = scope.parent
    from t4lint.libraries.registry import builtin

    return builtin(name) or Unknown(
        f"{name} is not defined where t4lint looked", uid=f"name {frame.source.name}.{name}"
    )


def dotted(node: ast.expr) -> str:
    """`a.b.c` as text, or an empty string for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def _attribute(m: Machine, node: ast.Attribute) -> Abstract:
    receiver = evaluate(m, node.value)
    value = m.mapped(receiver, lambda leaf: m.attribute(leaf, node.attr))
    if isinstance(value, Symbol) and not value.origins:
        return Symbol(value.name, (Step("literal", value.name, m.frames[-1].source, node),))
    return value


def index_of(m: Machine, node: ast.Subscript) -> Abstract:
    value = m.resolve(evaluate(m, node.slice))
    # a key that is written right here decides nothing: `settings["bf16"]`
    return replace_origins(value, ()) if isinstance(node.slice, ast.Constant) else value


def _subscript(m: Machine, node: ast.Subscript) -> Abstract:
    receiver = evaluate(m, node.value)
    if isinstance(node.slice, ast.Slice):
        part = node.slice
        return m.mapped(receiver, lambda leaf: _slice(m, leaf, part))
    index = index_of(m, node)
    if isinstance(receiver, Object):  # its model may say that something happens here
        with m.at(m.frames[-1].source, node):
            return item(m, receiver, index)
    return m.mapped(receiver, lambda leaf: item(m, leaf, index))


def _slice(m: Machine, value: Abstract, part: ast.Slice) -> Abstract:
    bounds = [
        m.resolve(evaluate(m, bound)) if bound is not None else NONE for bound in (part.lower, part.upper, part.step)
    ]
    if isinstance(value, Tensor):
        return value
    if all(isinstance(bound, Const) and isinstance(bound.value, (int, type(None))) for bound in bounds):
        window = slice(*(bound.value for bound in bounds))  # type: ignore[attr-defined]
        try:
            if isinstance(value, Const) and isinstance(value.value, (str, tuple, bytes)):
                return Const(value.value[window], value.origins)
            if isinstance(value, ListValue) and (value.complete or window.stop is None):
                part_of = ListValue(value.items[window], value.kind, value.complete)
                part_of.state["command line"] = value.state.get("command line", False)
                return part_of
        except (ValueError, TypeError):
            pass
    if isinstance(value, ListValue):
        return ListValue(value.items, value.kind, complete=False)
    return value if isinstance(value, Object) else unknown_from("slice", value)


def item(m: Machine, value: Abstract, index: Abstract) -> Abstract:
    """`value[index]`."""
    from t4lint.libraries.registry import subscript

    value = m.resolve(value)
    if isinstance(value, Choice):
        return m.mapped(value, lambda leaf: item(m, leaf, index))
    if isinstance(value, DictValue) and isinstance(index, Const) and hashable(index.value):
        if index.value in value.items:
            # `{"bf16": torch.bfloat16}[name]`: a person edits the name
            return chosen_by(index, value.items[index.value], written=True)
        return Unknown(f"the key {index.value!r} is not known", uid=f"key {id(value)} {index.value!r}")
    if isinstance(value, ListValue) and isinstance(index, Const) and isinstance(index.value, int):
        if value.complete and -len(value.items) <= index.value < len(value.items):
            return value.items[index.value]
    if isinstance(value, ListValue) and value.items:
        return element_of(m, value)
    if isinstance(value, Const) and isinstance(index, Const):
        try:
            return Const(value.value[index.value], origins_of(value, index), value.varies or index.varies)
        except Exception:
            return unknown_from("item", value, index)
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (Object, Symbol, Instance, Function)):
        return subscript(m, value, index)
    if isinstance(value, Class) and isinstance(index, Const) and index.value in value.members:
        return m.attribute(value, str(index.value))
    return unknown_from("item", value, index)


# --- sequences ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Elements:
    """What a loop runs over. `known`: all elements; `stream`: they come from a loader or a counter; `count`: how many."""

    known: Sequence[Abstract] | None
    any_element: Abstract
    stream: bool = False
    count: int | None = None
    number: Callable[[int], Abstract] | None = None
    any_number: Abstract | None = None

    def at(self, position: int) -> Abstract:
        if self.number is not None:
            return self.number(position)
        if self.known is not None and position < len(self.known):
            return self.known[position]
        return self.any_element

    def later(self) -> Abstract:
        return self.any_number if self.any_number is not None else self.any_element


def varying(reason: str) -> Unknown:
    return Unknown(reason, varies=True)


def iterate(m: Machine, value: Abstract) -> Elements:
    """The elements of an iterable."""
    from t4lint.libraries.registry import iterated

    value = m.resolve(value)
    if isinstance(value, Choice):
        yes, no = iterate(m, value.yes), iterate(m, value.no)
        return yes if yes.stream or not no.stream else no
    if isinstance(value, ListValue):
        if value.complete:
            return Elements(value.items, element_of(m, value), count=len(value.items))
        return Elements(None, element_of(m, value))
    if isinstance(value, Const) and isinstance(value.value, range):
        return _range(value.value)
    if isinstance(value, Const) and isinstance(value.value, (str, tuple)):
        items = [Const(element, value.origins) for element in value.value[:64]]
        return Elements(items, varying("an element"), count=len(items))
    if isinstance(value, DictValue):
        keys = [Const(key) for key in value.items]
        return Elements(keys if value.complete else None, varying("a key"), count=len(keys) if value.complete else None)
    if isinstance(value, Class):
        from t4lint.libraries.classes import is_enumeration, members

        if is_enumeration(value):
            return Elements(members(value), varying("a member"), count=len(members(value)))
    if isinstance(value, (Object, Instance)):
        found: Elements | None = iterated(m, value)
        if found is not None:
            return found
    if isinstance(value, Tensor):
        return Elements(None, value)
    return Elements(None, varying("an element of something that is not known"))


def _range(window: range) -> Elements:
    def number(position: int) -> Abstract:
        value = window[position] if position < len(window) else window.start
        return Const(value, varies=True)

    return Elements(
        None, varying("a number of a range"), stream=True, count=len(window), number=number,
        any_number=varying("a number of a range"),
    ) if len(window) else Elements([], varying("empty"))  # fmt: skip


def element_of(m: Machine, value: Abstract) -> Abstract:
    """Any element of a sequence."""
    value = m.resolve(value)
    if isinstance(value, ListValue) and value.items:
        first = value.items[0]
        if len(value.items) == 1 or all(type(other) is type(first) for other in value.items):
            if isinstance(first, (Object, Instance, Tensor)):
                return first
        return Unknown("an element of a list", varies=True)
    if isinstance(value, Tensor):
        return value
    return Unknown("an element", varies=True)


# --- operators ---------------------------------------------------------------------------------------------------


def _binary(m: Machine, node: ast.BinOp) -> Abstract:
    left = evaluate(m, node.left)
    right = evaluate(m, node.right)
    name = NAMES[type(node.op)]
    value = binary(m, name, left, right)
    if isinstance(value, Tensor):
        return tensor_arithmetic(m, node, name, left, right, value)
    if (
        isinstance(value, Const)
        and name == "Multiply"
        and value.origins
        and all(s.how == "literal" for s in value.origins)
    ):
        # `1024 * 1024` is one literal for people
        return literal(m, value.value, node, m.frames[-1].source.code(node))
    return value


def tensor_arithmetic(
    m: Machine, node: ast.BinOp, name: str, left: Abstract, right: Abstract, value: Tensor
) -> Abstract:
    """What torch's model makes of arithmetic with tensors."""
    from t4lint.libraries.registry import arithmetic

    with m.at(m.frames[-1].source, node):
        return arithmetic(m, name, left, right, value)


def _unary(m: Machine, node: ast.UnaryOp) -> Abstract:
    value = evaluate(m, node.operand)
    if isinstance(node.op, ast.Not):
        return negate(m, value)

    def apply(leaf: Abstract) -> Abstract:
        if isinstance(leaf, Tensor):
            return negative(leaf) if isinstance(node.op, ast.USub) else leaf
        if isinstance(leaf, Const) and isinstance(leaf.value, (int, float)):
            if isinstance(node.op, ast.USub):
                if leaf.origins and leaf.origins[0].node is node.operand:
                    return literal(m, -leaf.value, node, f"-{leaf.origins[0].note}")
                return Const(-leaf.value, leaf.origins, leaf.varies)
            if isinstance(node.op, ast.UAdd):
                return leaf
            if isinstance(leaf.value, int):
                return Const(~leaf.value, leaf.origins, leaf.varies)
        return unknown_from(NAMES[type(node.op)], leaf)

    return m.mapped(value, apply)


def negate(m: Machine, value: Abstract) -> Abstract:
    def apply(leaf: Abstract) -> Abstract:
        decided = truth(m, leaf)
        if decided is not None:
            return Const(not decided, leaf.origins, isinstance(leaf, Const) and leaf.varies)
        if isinstance(leaf, Unknown) and leaf.uid.startswith("not(") and leaf.uid.endswith(")"):
            return Unknown(leaf.reason, leaf.origins, leaf.varies, leaf.uid[4:-1], leaf.autocast)
        return Unknown(
            leaf.reason if isinstance(leaf, Unknown) else "a tensor", leaf.origins,
            leaf.varies if isinstance(leaf, Unknown) else True,
            f"not({leaf.uid})" if isinstance(leaf, Unknown) else "",
        )  # fmt: skip

    return m.mapped(value, apply)


def varies(value: Abstract) -> bool:
    """Does the value change from one iteration of a loop to the next?"""
    if isinstance(value, Choice):
        return varies(value.yes) or varies(value.no)
    return isinstance(value, (Const, Unknown)) and value.varies


def note_index(m: Machine, test: Abstract) -> None:
    """A test was decided by the value of this iteration."""
    if m.loops and varies(test):
        for loop in m.loops:
            loop.by_index = True


def _boolean(m: Machine, node: ast.BoolOp) -> Abstract:
    """`a and b and c` is `(a and b) and c`."""
    is_and = isinstance(node.op, ast.And)
    value = evaluate(m, node.values[0])
    for other in node.values[1:]:
        left = m.resolve(value)
        value = ranks.marked(_boolean_of(m, left, other, is_and), left)
    return value


def _boolean_of(m: Machine, left: Abstract, node: ast.expr, is_and: bool) -> Abstract:
    decided = truth(m, left)
    if decided is not None:
        note_index(m, left)
        if decided is not is_and:
            return left
        right = evaluate(m, node)
        # the left side decided that the right one counts
        steps = tuple(step for step in left.origins if step.how in ("target", "version"))
        return with_origin(right, *steps) if steps and isinstance(right, (Const, Symbol)) else right
    right = m.resolve(evaluate(m, node))
    if isinstance(right, Const):
        note_index(m, right)
    if truth(m, right) is (not is_and) and isinstance(right, Const):
        return right
    if isinstance(left, Choice):
        return m.mapped(left, lambda leaf: _either(m, leaf, right, is_and))
    return _either(m, left, right, is_and)


def _either(m: Machine, left: Abstract, right: Abstract, is_and: bool) -> Abstract:
    decided = truth(m, left)
    if decided is not None:
        return left if decided is not is_and else right
    if truth(m, right) is is_and and isinstance(left, Unknown):
        return ranks.marked(left, right)  # `step % 100 == 0 and rank == 0`: the rank decides too
    if not is_and and isinstance(left, Unknown) and not left.varies and not isinstance(right, Unknown):
        return m.joined(left.uid, left, right) if not isinstance(right, Const) else Choice(left.uid, left, right)
    return unknown_from("and" if is_and else "or", left, right)


def _comparison(m: Machine, node: ast.Compare) -> Abstract:
    left = evaluate(m, node.left)
    result: Abstract | None = None
    for operator, comparator in zip(node.ops, node.comparators, strict=True):
        right = evaluate(m, comparator)
        one = compare(m, NAMES[type(operator)], left, right)
        result = one if result is None else _either_and(m, result, one)
        left = right
    return result if result is not None else Unknown("an empty comparison")


def _either_and(m: Machine, left: Abstract, right: Abstract) -> Abstract:
    decided = truth(m, left)
    if decided is False:
        return left
    return right if decided else _either(m, left, right, True)


def compare(m: Machine, name: str, left: Abstract, right: Abstract) -> Abstract:
    if name in ("In", "NotIn") and isinstance(right, Symbol) and right.name == "os.environ" and isinstance(left, Const):
        from t4lint.libraries.python import is_in_environment

        there = is_in_environment(m, str(left.value))
        test = f"environment {left.value} is set"
        if there is None:
            return Unknown(f"whether {left.value} is set", uid=test if name == "In" else f"not({test})")
        return Const(there is (name == "In"))
    for side in (left, right):
        if isinstance(side, Tensor) and side.facts.squares:
            from t4lint.libraries import overflows

            overflows.end(m, side.facts, Const(True))
    return m.mapped(left, lambda a: m.mapped(right, lambda b: _compare_ranks(name, a, b)))


def _compare_ranks(name: str, left: Abstract, right: Abstract) -> Abstract:
    result = _compare(name, left, right)
    if not isinstance(result, Const) or not ranks.by_process(result):
        return result
    return ranks.same_for_all(result, _compare(name, ranks.next_process(left), ranks.next_process(right)))


def _compare(name: str, left: Abstract, right: Abstract) -> Abstract:
    if name in ("In", "NotIn"):
        return _contains(name, left, right)
    if name in ("Is", "IsNot", "Equal", "NotEqual"):
        same = identical(left, right)
        if same is not None:
            positive = name in ("Is", "Equal")
            varies = any(isinstance(value, Const) and value.varies for value in (left, right))
            return Const(same is positive, origins_of(*parts(left), *parts(right)), varies)
        return _same_test(name, left, right)
    first, second = comparable(left), comparable(right)
    if first is not None and second is not None:
        try:
            varies = any(isinstance(value, Const) and value.varies for value in (left, right))
            return Const(bool(COMPARISON[name](first[0], second[0])), origins_of(*parts(left), *parts(right)), varies)
        except Exception:
            return unknown_from(name, left, right)
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        devices = [side.facts.device for side in (left, right) if isinstance(side, Tensor)]
        return Unknown(COMPARED_ON_GPU if "cuda" in devices else "a comparison of tensors", varies=True)
    return unknown_from(name, left, right)


def _same_test(name: str, left: Abstract, right: Abstract) -> Abstract:
    """`x == y` and `x != y` are one test with two sides."""
    value = unknown_from("Equal" if name in ("Equal", "NotEqual") else "Is", left, right)
    if name in ("NotEqual", "IsNot"):
        return Unknown(value.reason, value.origins, value.varies, f"not({value.uid})")
    return value


def identical(left: Abstract, right: Abstract) -> bool | None:
    if isinstance(left, Const) and isinstance(right, Const):
        try:
            return bool(left.value == right.value)
        except Exception:
            return None
    if isinstance(left, Symbol) and isinstance(right, Symbol):
        return left.name == right.name
    if isinstance(left, Instance) and isinstance(right, Instance) and (left is right or _are_members(left, right)):
        return left is right
    heap = (Object, Instance, Function, Class, ListValue, DictValue, Symbol, Partial, Tensor)
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Const) and one.value is None and isinstance(other, heap):
            return False
        if isinstance(one, Const) and isinstance(other, (Symbol, Function, Class)):
            return False
    first, second = comparable(left), comparable(right)
    if first is not None and second is not None:
        return bool(first[0] == second[0])
    return None


def _are_members(left: Instance, right: Instance) -> bool:
    """Are both members of enumerations, which are the same only if they are one?"""
    return "_value_" in left.attributes and "_value_" in right.attributes


def parts(value: Abstract) -> tuple[Abstract, ...]:
    """A value and, of a tuple or list, what it holds: that is where its provenance is."""
    return (value, *value.items) if isinstance(value, ListValue) else (value,)


def comparable(value: Abstract) -> tuple[Any] | None:
    """A Python value to compare, in a 1-tuple; None for what is not a constant."""
    if isinstance(value, Const):
        return (value.value,)
    if isinstance(value, ListValue) and value.complete and value.kind != "set":
        parts = [comparable(part) for part in value.items]
        if all(part is not None for part in parts):
            items = [part[0] for part in parts if part is not None]
            return (tuple(items) if value.kind == "tuple" else items,)
    return None


def _contains(name: str, left: Abstract, right: Abstract) -> Abstract:
    found: bool | None = None
    if isinstance(right, Object) and right.kind == "config tree":
        right = right.attributes["$dict"]
    if isinstance(right, DictValue) and isinstance(left, Const) and hashable(left.value):
        found = True if left.value in right.items else False if right.complete else None
    elif isinstance(right, ListValue):
        verdicts = [identical(left, element) for element in right.items]
        found = None if None in verdicts or not right.complete else False
        if True in verdicts and not right.maybe:
            found = True
        if found:
            # words of a command line say where to edit; a tuple that is written in the test does not
            return Const(name == "In", origins_of(right, left))
    elif isinstance(left, Const) and isinstance(right, Const):
        try:
            found = left.value in right.value
        except Exception:
            found = None
    if found is None:
        value = unknown_from("In", left, right)
        if name == "NotIn":
            return Unknown(value.reason, value.origins, value.varies, f"not({value.uid})")
        return value
    return Const(found is (name == "In"), origins_of(left, right))


def _conditional(m: Machine, node: ast.IfExp) -> Abstract:
    test = m.resolve(evaluate(m, node.test))
    decided = truth(m, test)
    if decided is not None:
        note_index(m, test)
        chosen = node.body if decided else node.orelse
        return chosen_by(test, evaluate(m, chosen), chosen=chosen)
    if isinstance(test, Choice):
        return m.mapped(test, lambda leaf: _conditional_leaf(m, node, leaf))
    m.note_test(test, node.test)
    name, negated = test_name(m, test)
    body, orelse = (node.orelse, node.body) if negated else (node.body, node.orelse)
    yes, no = m.fork(name, lambda: evaluate(m, body), lambda: evaluate(m, orelse))
    if isinstance(test, Unknown) and test.varies:
        return yes if m.is_module(yes) else by_iteration(yes, no)
    joined: Abstract = m.joined(name, yes, no)
    return joined


def _conditional_leaf(m: Machine, node: ast.IfExp, leaf: Abstract) -> Abstract:
    decided = truth(m, leaf)
    if decided is None:
        return Unknown("depends on more than one undecided test")
    chosen = node.body if decided else node.orelse
    return chosen_by(leaf, evaluate(m, chosen), chosen=chosen)


def chosen_by(test: Abstract, value: Abstract, written: bool = False, chosen: ast.expr | None = None) -> Abstract:
    """`"bf16" if args.bf16 else "no"`: a person edits what decided, so that stands first, and the chosen literal after it.

    What the `chosen` expression has from elsewhere (`args.size if args.size else config.size`) is edited there.
    """
    if not isinstance(value, (Const, Symbol)):
        return value
    settings = ("flag", "key", "environment", "default") + (("literal",) if written else ())
    deciding = tuple(step for step in test.origins if step.how in settings and (step.node or step.location))
    target = tuple(step for step in test.origins if step.how == "target")
    if not deciding and not target:
        return value
    elsewhere = chosen is not None and not isinstance(chosen, ast.Constant) and _is_set_elsewhere(value, chosen)
    first, then = (value.origins, deciding) if elsewhere else (deciding, value.origins)
    return replace_origins(value, (*first, *then, *target))


def _is_set_elsewhere(value: Const | Symbol, chosen: ast.expr) -> bool:
    """Does a setting or a literal outside an expression say its value?"""
    first = value.origins[0] if value.origins else None
    if first is None or first.how not in ("flag", "key", "environment", "default", "literal"):
        return False
    return first.location is not None or (first.node is not None and first.node not in ast.walk(chosen))


def _walrus(m: Machine, node: ast.NamedExpr) -> Abstract:
    from t4lint.interpret.statements import assign

    value = evaluate(m, node.value)
    assign(m, node.target, value)
    return value


# --- calls and functions -----------------------------------------------------------------------------------------


def _call(m: Machine, node: ast.Call) -> Abstract:
    source = m.frames[-1].source
    function = node.func
    if isinstance(function, ast.Attribute):
        receiver = m.resolve(evaluate(m, function.value))
        if not isinstance(receiver, Symbol):
            arguments = call_arguments(m, node)
            m.sites.append((source, node))
            try:
                return m.method(receiver, function.attr, arguments)
            finally:
                m.sites.pop()
        callee = m.attribute(receiver, function.attr)
    else:
        callee = evaluate(m, function)
    arguments = call_arguments(m, node)
    m.sites.append((source, node))
    try:
        return m.call(callee, arguments)
    finally:
        m.sites.pop()


def call_arguments(m: Machine, node: ast.Call) -> Arguments:
    arguments = Arguments()
    positional: list[Abstract] = []
    for argument in node.args:
        if not isinstance(argument, ast.Starred):
            positional.append(evaluate(m, argument))
            continue
        value = m.resolve(evaluate(m, argument.value))
        if isinstance(value, ListValue) and value.complete:
            positional.extend(value.items)
        else:
            arguments.open = True
    for keyword in node.keywords:
        value = evaluate(m, keyword.value)
        if keyword.arg is None:
            _double_star(m, arguments, value)
        else:
            arguments.keywords[keyword.arg] = named(value, keyword.value, f"{keyword.arg}=", "literal")
    arguments.positional = tuple(positional)
    return arguments


def _double_star(m: Machine, arguments: Arguments, value: Abstract) -> None:
    value = m.resolve(value)
    if isinstance(value, Instance):
        from t4lint.libraries import classes

        value = classes.contents(m, value) if classes.is_dict(value.cls) else value
    if isinstance(value, Object) and value.kind == "config tree":
        from t4lint.libraries import configs

        value = configs.filled(m, value.attributes["$dict"], value.attributes["$root"])
    if isinstance(value, DictValue):
        if value.state.get("settings"):
            m.globals["$namespace handed"] = True
        arguments.keywords.update({str(key): item for key, item in value.items.items()})
        arguments.open = arguments.open or not value.complete
    elif isinstance(value, Choice):
        sides = [m.resolve(value.yes), m.resolve(value.no)]
        if all(isinstance(side, DictValue) for side in sides):
            _either_dict(m, arguments, value.test, sides[0], sides[1])
        else:
            arguments.open = True
    elif isinstance(value, Object) and value.kind == "namespace":
        arguments.keywords.update({key: item for key, item in value.attributes.items() if isinstance(item, Abstract)})
        arguments.open = True
        m.globals["$namespace handed"] = True
    else:
        arguments.open = True


def _either_dict(m: Machine, arguments: Arguments, test: str, yes: Any, no: Any) -> None:
    for key in {**yes.items, **no.items}:
        if key in yes.items and key in no.items:
            arguments.keywords[str(key)] = m.joined(test, yes.items[key], no.items[key])
        else:
            missing = Unknown(f"{key} is given in some runs only")
            arguments.keywords[str(key)] = Choice(test, yes.items.get(key, missing), no.items.get(key, missing))
    arguments.open = arguments.open or not (yes.complete and no.complete)


def _lambda(m: Machine, node: ast.Lambda) -> Abstract:
    from t4lint.interpret.statements import make_function

    return make_function(m, "<lambda>", node)


def _await(m: Machine, node: ast.Await | ast.Starred) -> Abstract:
    return evaluate(m, node.value)


def _yield(m: Machine, node: ast.Yield | ast.YieldFrom) -> Abstract:
    value = evaluate(m, node.value) if node.value is not None else NONE
    many = isinstance(node, ast.YieldFrom)
    frame = m.frames[-1]
    frame.yields.append(element_of(m, value) if many else value)
    frame.streams = frame.streams or many or len(m.loops) > frame.loops or bool(m.logs)
    return NONE


# --- comprehensions ----------------------------------------------------------------------------------------------


def _comprehension(m: Machine, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Abstract:
    items: list[Abstract] = []
    complete = comprehend(m, node.generators, lambda: items.append(evaluate(m, node.elt)))
    found = set_of(items, complete) if isinstance(node, ast.SetComp) else ListValue(tuple(items), "list", complete)
    found.state["maybe"] = not complete
    return found


def _dict_comprehension(m: Machine, node: ast.DictComp) -> Abstract:
    result = DictValue()

    def add() -> None:
        key, value = m.resolve(evaluate(m, node.key)), evaluate(m, node.value)
        if isinstance(key, Const) and hashable(key.value):
            result.items[key.value] = value
        else:
            result.state["complete"] = False

    if not comprehend(m, node.generators, add):
        result.state["complete"] = False
    return result


MAX_COMPREHENSION = 32


def _all_of(elements: Elements) -> tuple[list[Abstract], bool]:
    """What a comprehension runs over, and whether that is all: the first element stands for more than can be followed."""
    known, count = elements.known, elements.count
    if elements.stream and elements.number is not None and count is not None and count <= MAX_COMPREHENSION:
        return [elements.number(position) for position in range(count)], True
    if known is not None and not elements.stream and len(known) <= MAX_COMPREHENSION:
        return list(known), True
    return ([elements.at(0)] if count is None or count else []), False


def comprehend(m: Machine, clauses: Sequence[ast.comprehension], body: Callable[[], None]) -> bool:
    """Run a comprehension; False when not all its elements are known."""
    from t4lint.interpret.machine import Frame
    from t4lint.interpret.statements import assign

    clause, *inner = clauses
    elements = iterate(m, evaluate(m, clause.iter))
    frame = m.frames[-1]
    m.frames.append(Frame(frame.source, Scope(frame.scope), frame.function, frame.receiver))
    try:
        values, complete = _all_of(elements)
        for value in values:
            assign(m, clause.target, value)
            verdicts = [truth(m, evaluate(m, condition)) for condition in clause.ifs]
            if False in verdicts:
                continue
            complete = complete and None not in verdicts
            if inner:
                complete = comprehend(m, inner, body) and complete
            else:
                body()
        return complete
    finally:
        m.frames.pop()


EXPRESSIONS: dict[type[ast.AST], Callable[[Any, Any], Abstract]] = {
    ast.Constant: _constant,
    ast.JoinedStr: _formatted,
    ast.List: _list,
    ast.Tuple: _tuple,
    ast.Set: _set,
    ast.Dict: _dict,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Slice: lambda m, node: Unknown("a slice"),
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.Compare: _comparison,
    ast.IfExp: _conditional,
    ast.NamedExpr: _walrus,
    ast.Call: _call,
    ast.Lambda: _lambda,
    ast.Await: _await,
    ast.Starred: _await,
    ast.Yield: _yield,
    ast.YieldFrom: _yield,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _dict_comprehension,
}

__all__ = ["NEVER", "Elements", "compare", "dotted", "evaluate", "iterate", "tensor_of", "truth"]
