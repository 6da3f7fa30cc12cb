"""What statements do: assignment, branches, loops, `with` regions, definitions, imports."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from t4lint.interpret import errors, expressions, imports, keeping, ranks
from t4lint.interpret.expressions import note_index, varies
from t4lint.interpret.operators import NAMES, binary
from t4lint.interpret.source import statements_of
from t4lint.interpret.values import (
    NONE,
    Abstract,
    Choice,
    Class,
    Const,
    DictValue,
    Function,
    FunctionNode,
    Instance,
    ListValue,
    Object,
    ProjectModule,
    Scope,
    Step,
    Symbol,
    Tensor,
    Unknown,
    by_iteration,
    replace_origins,
)
from t4lint.libraries import registry
from t4lint.libraries.api import Arguments
from t4lint.trace import Backward, Exit
from t4lint.trace import Step as OptimizerStep

if TYPE_CHECKING:
    from t4lint.interpret.machine import Machine

LONG_ITERATION = 8_000  # steps of one iteration, from which on a loop is run twice and once as any later one
MAX_ITERATIONS = 16  # of a step loop, to reach the end of one accumulation window
MAX_REASONS = 4  # settings that decided the branches around a statement
MAX_ELEMENTS = 4  # of a known sequence that is run through element by element
MAX_PLAIN = 64  # the same where the body is short, and says what is to be done rather than does it
SHORT_BODY = 6  # statements of such a body
SHORT_ITERATION = 60  # steps of an iteration through it


class Return:
    """A function ends with a value."""

    __slots__ = ("value",)

    def __init__(self, value: Abstract) -> None:
        self.value = value


BREAK, CONTINUE, DEAD = object(), object(), object()
Completion = Any  # None, Return, BREAK, CONTINUE, DEAD


def ends(completion: Completion) -> bool:
    """Does the program (not only the function) end on this path?"""
    return completion is DEAD


def run(m: Machine, body: Sequence[ast.stmt]) -> Completion:
    """Run the statements of a block, up to one that leaves it."""
    last = m.last
    m.last = False
    for statement in body:
        if statement is body[-1]:
            m.last = last
        completion = execute(m, statement)
        if completion is not None:
            m.last = last
            return completion
    m.last = last
    return None


def execute(m: Machine, node: ast.stmt) -> Completion:
    m.steps += 1
    if m.steps > m.most_steps:
        m.exhausted()
    handler = STATEMENTS.get(type(node))
    return handler(m, node) if handler else None


# --- simple statements -------------------------------------------------------------------------------------------


def _expression(m: Machine, node: ast.Expr) -> Completion:
    if isinstance(node.value, ast.Constant):
        return None  # a docstring
    value = expressions.evaluate(m, node.value)
    return DEAD if value is expressions.NEVER else None


def _assign(m: Machine, node: ast.Assign) -> Completion:
    value = expressions.evaluate(m, node.value)
    if value is expressions.NEVER:
        return DEAD
    if m.loops and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add):
        value = sum_again(m, node, node.value, value)
    for target in node.targets:
        assign(m, target, picked(m, node.value, labelled(m, target, node.value, value)))
    return None


def sum_again(m: Machine, node: ast.Assign, total: ast.BinOp, value: Abstract) -> Abstract:
    """`total = total + loss` is `total += loss`."""
    target, source = node.targets[0], m.frames[-1].source
    if isinstance(value, Tensor) and source.code(total.left) == source.code(target):
        return keeping.summed(m, node, target, total.right, value, value)
    return value


def picked(m: Machine, node: ast.expr, value: Abstract) -> Abstract:
    """A literal in a branch that a setting decided: a person edits the setting."""
    if (
        not m.choosing
        or not isinstance(value, (Const, Symbol))
        or not value.origins
        or value.origins[0].node is not node
    ):
        return value
    return replace_origins(value, (*m.choosing, *value.origins))


def _annotated(m: Machine, node: ast.AnnAssign) -> Completion:
    if node.value is None:
        return None
    value = expressions.evaluate(m, node.value)
    assign(m, node.target, labelled(m, node.target, node.value, value))
    return None


def labelled(m: Machine, target: ast.expr, node: ast.expr, value: Abstract) -> Abstract:
    """`BATCH = 64`: the provenance of a literal names the variable that it is given to."""
    if isinstance(value, (Const, Symbol)) and len(value.origins) == 1 and value.origins[0].node is node:
        name = expressions.dotted(target)
        step = value.origins[0]
        if name and step.how == "literal":
            return expressions.renamed(value, f"{name} = {step.note}")
    return value


def _augmented(m: Machine, node: ast.AugAssign) -> Completion:
    left = expressions.evaluate(m, node.target)
    right = expressions.evaluate(m, node.value)
    if isinstance(left, ListValue) and isinstance(right, ListValue):
        m.write(left.state, "items", left.items + right.items)
        return None
    operator = NAMES[type(node.op)]
    result = binary(m, operator, left, right)
    assign(
        m, node.target, keeping.summed(m, node, node.target, node.value, right, result) if operator == "Add" else result
    )
    return None


def assign(m: Machine, target: ast.expr, value: Abstract) -> None:
    if m.control:
        value = m.controlled(value)
    if isinstance(target, ast.Name):
        bind(m, target.id, value)
    elif isinstance(target, ast.Attribute):
        set_attribute(m, expressions.evaluate(m, target.value), target.attr, value, target)
    elif isinstance(target, ast.Subscript):
        set_item(m, target, value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        unpack(m, target.elts, value)
    elif isinstance(target, ast.Starred):
        assign(m, target.value, value)


def bind(m: Machine, name: str, value: Abstract) -> None:
    scope = m.frames[-1].scope
    if name in scope.globals_:
        for outer in scope.chain():
            scope = outer
    elif name in scope.nonlocals:
        scope = next((outer for outer in list(scope.chain())[1:] if name in outer.names), scope)
    m.write(scope.names, name, value)


def set_attribute(m: Machine, receiver: Abstract, name: str, value: Abstract, node: ast.AST | None = None) -> None:
    from t4lint.libraries import classes
    from t4lint.libraries.registry import assigned

    receiver = m.resolve(receiver)
    if isinstance(receiver, Choice):
        m.fork(
            receiver.test,
            lambda: set_attribute(m, receiver.yes, name, value, node),
            lambda: set_attribute(m, receiver.no, name, value, node),
        )
    elif isinstance(receiver, (Instance, Object)):
        if isinstance(receiver, Instance) and classes.set_as_item(m, receiver, name, value):
            return
        if not isinstance(receiver, Object) or receiver.kind not in registry.MAPPINGS:
            m.write(receiver.attributes, name, value)
        if node is not None:
            with m.at(m.frames[-1].source, node):
                assigned(m, receiver, name, value)
    elif isinstance(receiver, Class):
        m.write(receiver.members, name, value)
    elif isinstance(receiver, ProjectModule):
        m.write(receiver.scope.names, name, value)
    elif isinstance(receiver, Symbol):
        m.write(m.globals, f"{receiver.name}.{name}", value)
        if node is not None:
            with m.at(m.frames[-1].source, node):
                assigned(m, receiver, name, value)


def set_item(m: Machine, target: ast.Subscript, value: Abstract) -> None:
    receiver = m.resolve(expressions.evaluate(m, target.value))
    index = expressions.index_of(m, target)
    if isinstance(receiver, DictValue):
        if isinstance(index, Const) and expressions.hashable(index.value):
            m.write(receiver.items, index.value, value)
        else:
            m.write(receiver.state, "complete", False)
    elif isinstance(receiver, ListValue):
        if (
            isinstance(index, Const)
            and isinstance(index.value, int)
            and -len(receiver.items) <= index.value < len(receiver.items)
        ):
            items = list(receiver.items)
            items[index.value] = value
            m.write(receiver.state, "items", tuple(items))
    elif isinstance(receiver, Instance):
        _set_instance_item(m, receiver, index, value)
    elif isinstance(receiver, Object) and registry.has_method(receiver, "setitem"):
        registry.call_method(m, receiver, "setitem", Arguments((index, value)))
    elif isinstance(receiver, Symbol) and receiver.name == "os.environ" and isinstance(index, Const):
        from t4lint.libraries.python import set_environment

        with m.at(m.frames[-1].source, target):
            set_environment(m, str(index.value), value)


def _set_instance_item(m: Machine, instance: Instance, index: Abstract, value: Abstract) -> None:
    from t4lint.libraries import classes

    found = instance.cls.find("__setitem__")
    if isinstance(found, Function):
        m.method(instance, "__setitem__", Arguments((index, value)))
    elif classes.is_dict(instance.cls) and isinstance(index, Const) and expressions.hashable(index.value):
        m.write(classes.contents(m, instance).items, index.value, value)


def unpack(m: Machine, elements: Sequence[ast.expr], value: Abstract) -> None:
    value = m.resolve(value)
    if isinstance(value, Choice):
        for position, element in enumerate(elements):
            part = m.mapped(value, lambda leaf, p=position: _part(m, leaf, p, len(elements)))  # type: ignore[misc]
            assign(m, element, part)
        return
    starred = any(isinstance(element, ast.Starred) for element in elements)
    if starred and isinstance(value, ListValue) and value.complete and len(value.items) >= len(elements) - 1:
        _unpack_starred(m, elements, value)
        return
    for position, element in enumerate(elements):
        if starred:
            assign(m, element, expressions.element_of(m, value))
        else:
            assign(m, element, _part(m, value, position, len(elements)))


def _unpack_starred(m: Machine, elements: Sequence[ast.expr], value: ListValue) -> None:
    """`first, *rest = [1, 2, 3]`"""
    extra = len(value.items) - (len(elements) - 1)
    position = 0
    for element in elements:
        if isinstance(element, ast.Starred):
            assign(m, element.value, ListValue(value.items[position : position + extra]))
            position += extra
        else:
            assign(m, element, value.items[position])
            position += 1


def _part(m: Machine, value: Abstract, position: int, count: int) -> Abstract:
    if isinstance(value, ListValue) and value.complete and len(value.items) == count:
        return value.items[position]
    if isinstance(value, Const) and isinstance(value.value, tuple) and len(value.value) == count:
        return Const(value.value[position], value.origins)
    return expressions.item(m, value, Const(position))


def _return(m: Machine, node: ast.Return) -> Completion:
    value = expressions.evaluate(m, node.value) if node.value is not None else NONE
    if node.value is not None:
        value = picked(m, node.value, value)
    return DEAD if value is expressions.NEVER else Return(m.controlled(value))


def _raise(m: Machine, node: ast.Raise) -> Completion:
    if node.exc is not None:
        expressions.evaluate(m, node.exc)
    say_exit(m, node, m.control)
    errors.note(m, m.control)
    return DEAD


def say_exit(m: Machine, node: ast.AST, steps: tuple[Step, ...]) -> None:
    """The program ends here because of what the target is. Nothing that is caught, or that nobody calls, ends it."""
    because = tuple(step for step in steps if step.how == "target")
    if because and not m.catching and not m.uncalled:
        with m.at(m.frames[-1].source, node):
            m.emit(Exit, reason=Const("the target", because))


def _delete(m: Machine, node: ast.Delete) -> Completion:
    for target in [part for it in node.targets for part in (it.elts if isinstance(it, ast.Tuple) else [it])]:
        if isinstance(target, ast.Subscript):
            receiver = m.resolve(expressions.evaluate(m, target.value))
            index = expressions.index_of(m, target)
            if isinstance(receiver, DictValue) and isinstance(index, Const) and index.value in receiver.items:
                m.erase(receiver.items, index.value)
    return None


def _assert(m: Machine, node: ast.Assert) -> Completion:
    value = expressions.evaluate(m, node.test)
    if m.truth(value) is not False or varies(value):
        return None
    say_exit(m, node, value.origins)
    errors.note(m, value.origins)
    literal = isinstance(node.test, (ast.Constant, ast.Tuple))
    return None if errors.unexpected(m) and not literal else DEAD


def _global(m: Machine, node: ast.Global) -> Completion:
    m.frames[-1].scope.globals_.update(node.names)
    return None


def _nonlocal(m: Machine, node: ast.Nonlocal) -> Completion:
    m.frames[-1].scope.nonlocals.update(node.names)
    return None


# --- branches ----------------------------------------------------------------------------------------------------


def _if(m: Machine, node: ast.If) -> Completion:
    test = expressions.evaluate(m, node.test)
    expressions.say_read(m, "bool", test, node.test)
    choosing = chooses(m, node, test)
    m.note_test(test, node.test)
    by_process = ranks.by_process(test)
    chained, m.chained = m.chained is node, node.orelse[0] if len(node.orelse) == 1 else None
    completion = branch(
        m,
        test,
        lambda: _choosing(m, node.body, choosing, node if by_process else None),
        lambda: _choosing(m, node.orelse, choosing, node if by_process else None),
        leaves_early=(_leaves(node.body), _leaves(node.orelse)),
    )
    if completion is DEAD and not varies(test) and m.truth(test) is not None:
        completion = errors.instead(m, node, test, chained)
    if by_process and completion is None and (_returns(node.body) or _returns(node.orelse)):
        m.frames[-1].apart.append(node)  # the others have left the function
    return completion


MAX_CHOICE = 3  # statements in a branch that only picks a value


def chooses(m: Machine, node: ast.If, test: Abstract) -> tuple[Step, ...]:
    """The settings that decide a value which a small branch picks: `if args.dtype == "bfloat16": d = torch.bfloat16`."""
    if not isinstance(node.test, ast.Compare) and not node.orelse:
        return ()
    if not isinstance(test, Const) or len(node.body) > MAX_CHOICE:
        return ()
    return tuple(step for step in test.origins if _is_setting(step) and not _within(step.node, node.test))


def _is_setting(step: Step) -> bool:
    """Something that a person sets: a flag, a key, a default, or a name that is given a word (`dtype = "bfloat16"`)."""
    if step.node is None and step.location is None:
        return False
    words = step.how == "literal" and step.note.endswith(("'", '"'))
    return words or step.how in ("flag", "key", "environment", "default")


def _within(node: ast.AST | None, test: ast.expr) -> bool:
    """Is a step the constant that a test compares with, and so no place to edit?"""
    if not isinstance(test, ast.Compare):
        return False
    parts = [test.left, *test.comparators]
    parts += [element for part in parts if isinstance(part, (ast.List, ast.Tuple, ast.Set)) for element in part.elts]
    return any(node is part for part in parts)


def _choosing(
    m: Machine, block: Sequence[ast.stmt], steps: tuple[Step, ...], apart: ast.If | None = None
) -> Completion:
    before = m.choosing
    m.choosing = steps or before
    around = len(m.frames[-1].apart)
    if apart is not None:
        m.frames[-1].apart.append(apart)
    try:
        completion = run(m, block)
    finally:
        m.choosing = before
        del m.frames[-1].apart[around:]
    if completion is DEAD and block is not m.died:
        m.died = block
    return completion


def _leaves(block: Sequence[ast.stmt]) -> bool:
    """Does a block end by leaving its surroundings? Of an `elif` that goes for its own branch."""
    if len(block) == 1 and isinstance(block[0], ast.If):
        block = block[0].body
    return bool(block) and isinstance(block[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))


def _returns(block: Sequence[ast.stmt]) -> bool:
    """Does a block end with a return?"""
    return bool(block) and isinstance(block[-1], ast.Return)


def branch(
    m: Machine,
    test: Abstract,
    yes: Callable[[], Completion],
    no: Callable[[], Completion],
    leaves_early: tuple[bool, bool] = (False, False),
) -> Completion:
    """Take the decided side of a test, or fork."""
    test = m.resolve(test)
    decided = m.truth(test)
    if decided is not None:
        note_index(m, test)
        by_number = bool(m.loops) and varies(test)
        m.numbered += by_number
        try:
            return _take(m, test, decided, yes, no, leaves_early)
        finally:
            m.numbered -= by_number
    if varies(test):
        return sometimes(m, yes, no)
    name, negated = expressions.test_name(m, test)
    first, second = (no, yes) if negated else (yes, no)
    if isinstance(test, Choice):
        first, second = (lambda: branch(m, test, yes, no, leaves_early),) * 2
    said: dict[bool, int] = {}

    def noting(side: bool, run_side: Callable[[], Completion]) -> Callable[[], Completion]:
        def run_and_note() -> Completion:
            before = len(m.drafts)
            completion = run_side()
            said[side] = len(m.drafts) - before
            return completion

        return run_and_note

    one, two = m.fork(name, noting(True, first), noting(False, second))
    completion = completed(m, name, one, two)
    if m.frames[-1].ends and completion is None:
        note_stop(m, name, {True: one, False: two}, said)
    return completion


def note_stop(m: Machine, test: str, sides: dict[bool, Completion], said: dict[bool, int]) -> None:
    """`if os.path.exists(log): return` in the function that the program is: one side ends it before it does anything."""
    for side, completion in sides.items():
        if isinstance(completion, Return) and sides[not side] is None and said.get(side) == 0 and test in m.path:
            m.stopping.add(test)


def _take(
    m: Machine,
    test: Abstract,
    decided: bool,
    yes: Callable[[], Completion],
    no: Callable[[], Completion],
    leaves_early: tuple[bool, bool],
) -> Completion:
    """The side of a decided test; what is chosen there remembers who decided."""
    reasons = tuple(step for step in test.origins if step.how == "target")
    settings = tuple(step for step in test.origins if step.how in ("flag", "key", "environment", "default"))
    if not reasons:
        because = m.because
        m.because = (*because, *settings)[-MAX_REASONS:]
        try:
            return yes() if decided else no()
        finally:
            m.because = because
    before = m.control
    m.control = before + tuple(step for step in reasons if step not in before)
    try:
        completion = yes() if decided else no()
    finally:
        # what follows a branch that would have left was decided by the same test
        if not leaves_early[1 if decided else 0]:
            m.control = before
    return completion


def completed(m: Machine, test: str, yes: Completion, no: Completion) -> Completion:
    """How a fork ends, and what is then known about its test."""
    if yes is no:
        return yes
    if isinstance(yes, Return) and isinstance(no, Return):
        return Return(m.joined(test, yes.value, no.value))
    for mine, other, side in ((yes, no, True), (no, yes, False)):
        if mine is DEAD:
            return other
        if isinstance(mine, Return):
            if other is None:
                m.frames[-1].pending.append((test, side, mine.value))
                m.path = {**m.path, test: not side}
                return None
            return mine
    return None


def sometimes(m: Machine, yes: Callable[[], Completion], no: Callable[[], Completion]) -> Completion:
    """A test that changes from one iteration to the next: both sides happen in one run."""
    m.sometimes += 1
    try:
        _, first = m.captured(yes)
        _, second = m.captured(no)
    finally:
        m.sometimes -= 1
    slots = [*first, *(slot for slot in second if slot not in first)]
    for slot in sorted(slots, key=lambda slot: slot in first and slot in second):  # contents before what holds them
        mapping, key = (first.get(slot) or second[slot])[0], slot[1]
        current = mapping.get(key)
        candidates = [writes[slot][1] for writes in (first, second) if slot in writes]
        changed = [value for value in candidates if isinstance(value, Abstract) or value != current]
        if len(changed) == 1 and (current is None or not isinstance(current, (Const, Unknown))):
            m.write(mapping, key, changed[0])
        elif changed and isinstance(changed[0], Abstract):
            alike = all(
                isinstance(v, Const) and isinstance(current, Const) and v.value == current.value for v in changed
            )
            m.write(mapping, key, changed[0] if alike else by_iteration(*changed))
        elif changed:
            m.write(mapping, key, changed[0])
    return None


def _match(m: Machine, node: ast.Match) -> Completion:
    subject = m.resolve(expressions.evaluate(m, node.subject))
    for case in node.cases:
        verdict = matches(m, case.pattern, subject)
        if verdict is False:
            continue
        if verdict is True and case.guard is not None:
            verdict = m.truth(expressions.evaluate(m, case.guard))
            if verdict is False:
                continue
        if verdict is True:
            return run(m, case.body)
        completion = branch(m, Unknown("a match that is not decided"), lambda c=case: run(m, c.body), lambda: None)  # type: ignore[misc]
        if completion is not None:
            return completion
    return None


def matches(m: Machine, pattern: ast.pattern, subject: Abstract) -> bool | None:
    """Does a subject match a pattern? Binds its names on the way, as Python does."""
    if isinstance(pattern, ast.MatchAs):
        verdict = True if pattern.pattern is None else matches(m, pattern.pattern, subject)
        if pattern.name is not None and verdict is not False:
            bind(m, pattern.name, subject)
        return verdict
    if isinstance(pattern, ast.MatchSingleton):
        return m.truth(expressions.compare(m, "Is", subject, Const(pattern.value)))
    if isinstance(pattern, ast.MatchClass):
        return _matches_class(m, pattern, subject)
    if isinstance(pattern, ast.MatchMapping):
        return _matches_mapping(m, pattern, subject)
    if isinstance(pattern, ast.MatchSequence):
        return _matches_sequence(m, pattern, subject)
    if isinstance(pattern, ast.MatchValue):
        return m.truth(expressions.compare(m, "Equal", subject, expressions.evaluate(m, pattern.value)))
    if isinstance(pattern, ast.MatchOr):
        verdicts = [matches(m, part, subject) for part in pattern.patterns]
        return True if True in verdicts else None if None in verdicts else False
    return None


def _all(verdicts: Sequence[bool | None]) -> bool | None:
    return False if False in verdicts else None if None in verdicts else True


def _matches_class(m: Machine, pattern: ast.MatchClass, subject: Abstract) -> bool | None:
    kind = expressions.evaluate(m, pattern.cls)
    found = m.truth(m.call(Symbol("builtins.isinstance"), Arguments((subject, kind))))
    if found is False:
        return False
    order = list(kind.fields) if isinstance(kind, Class) else []
    parts = [*zip(order, pattern.patterns, strict=False), *zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True)]
    verdicts = [matches(m, part, m.attribute(subject, name)) for name, part in parts]
    if len(pattern.patterns) > len(order):
        # `case str(x)`: the subject itself
        verdicts += [matches(m, part, subject) for part in pattern.patterns]
    return _all([found, *verdicts])


def _matches_mapping(m: Machine, pattern: ast.MatchMapping, subject: Abstract) -> bool | None:
    if not isinstance(subject, DictValue):
        return False if isinstance(subject, (Const, ListValue)) else None
    verdicts: list[bool | None] = []
    for node, part in zip(pattern.keys, pattern.patterns, strict=True):
        key = expressions.evaluate(m, node)
        if isinstance(key, Const) and key.value in subject.items:
            verdicts.append(matches(m, part, m.resolve(subject.items[key.value])))
        else:
            verdicts.append(False if subject.complete else None)
    return _all(verdicts)


def _matches_sequence(m: Machine, pattern: ast.MatchSequence, subject: Abstract) -> bool | None:
    if not isinstance(subject, ListValue) or not subject.complete:
        return False if isinstance(subject, (Const, DictValue)) else None
    if any(isinstance(part, ast.MatchStar) for part in pattern.patterns):
        return None
    if len(pattern.patterns) != len(subject.items):
        return False
    pairs = zip(pattern.patterns, subject.items, strict=True)
    return _all([matches(m, part, m.resolve(item)) for part, item in pairs])


# --- loops -------------------------------------------------------------------------------------------------------


def _for(m: Machine, node: ast.For | ast.AsyncFor) -> Completion:
    iterable = m.resolve(expressions.evaluate(m, node.iter))
    elements = expressions.iterate(m, iterable)
    last, m.last = m.last, False
    loop = _enter_loop(m, node)
    loaders = _loaders_of(elements.any_element)
    loop.batches = bool(loaders)
    for loader in loaders:
        m.globals.setdefault("$read in", {}).setdefault(loader, set()).add(loop.identity)
    if elements.known is not None and not elements.stream and _is_plain(node, len(elements.known)):
        loop.whole = True
        completion = _each(m, node, elements.known, loop)
    else:
        completion = _stream(m, node, elements, loop)
    _leave_loop(m, loop)
    m.last = last
    if completion is None and node.orelse:
        # a `break` under a test that is not decided leaves the loop in some worlds
        test = Unknown("whether the loop is left early", uid=f"left {m.frames[-1].source.serial(node)}")
        left = any(isinstance(it, ast.Break) for it in statements_of(node.body))
        return branch(m, test, lambda: None, lambda: run(m, node.orelse)) if left else run(m, node.orelse)
    return completion


def _loaders_of(element: Abstract) -> set[str]:
    """The loaders whose batches a loop runs over."""
    parts = element.items if isinstance(element, ListValue) else (element,)
    inner = [part for item in parts for part in (item.items if isinstance(item, ListValue) else (item,))]
    inner += [value for item in (*parts, *inner) if isinstance(item, DictValue) for value in item.items.values()]
    return {part.facts.loader for part in inner if isinstance(part, Tensor) and part.facts.loader}


def _enter_loop(m: Machine, node: ast.AST) -> Any:
    from t4lint.interpret.machine import Loop

    loop = Loop(m.frames[-1].source.serial(node), node, m.frames[-1])
    m.loops.append(loop)
    return loop


def _leave_loop(m: Machine, loop: Any) -> None:
    """What a loop appends to has more elements than the iterations that were followed put there."""
    m.loops.pop()
    if not loop.whole:
        for sequence in loop.grown:
            m.write(sequence.state, "complete", False)


def _is_plain(node: ast.For | ast.AsyncFor, count: int) -> bool:
    """Is each element of a known sequence looked at? Of a few always; of more where the body is short and has no loop."""
    if count <= MAX_ELEMENTS:
        return True
    inner = list(statements_of(node.body))
    loops = any(isinstance(it, (ast.For, ast.AsyncFor, ast.While)) for it in inner)
    return count <= MAX_PLAIN and len(inner) <= SHORT_BODY and not loops


def _each(m: Machine, node: ast.For | ast.AsyncFor, elements: Sequence[Abstract], loop: Any) -> Completion:
    started = m.steps
    for number, element in enumerate(elements):
        if number >= MAX_ELEMENTS and m.steps - started > number * SHORT_ITERATION:
            loop.whole = False  # too much for all of them
            break
        assign(m, node.target, element)
        completion = run(m, node.body)
        if completion is BREAK:
            break
        if completion is not None and completion is not CONTINUE:
            return completion
    return None


def _stream(m: Machine, node: ast.For | ast.AsyncFor, elements: expressions.Elements, loop: Any) -> Completion:
    """Micro-batches until a step was taken (at least two), then once more as any later iteration."""
    if elements.known is not None and not elements.known:
        return None
    if m.later and elements.known is None:  # in any later epoch all batches are alike
        completion = _any_iteration(m, node, elements)
        return None if completion is BREAK or completion is CONTINUE else completion
    for number in range(MAX_ITERATIONS):
        before, steps = len(m.drafts), m.steps
        assign(m, node.target, elements.at(number))
        completion = run(m, node.body)
        if completion is BREAK:
            return None
        if completion is not None and completion is not CONTINUE:
            return completion
        if elements.count is not None and number + 1 >= elements.count:
            loop.whole = True
            return None
        if not _is_step_loop(m, loop, before):
            break
        if number >= 1 and (_stepped(m, loop) or m.steps - steps > LONG_ITERATION):
            break
    if loop.by_index or _counts(m, loop):
        _any_iteration(m, node, elements)
    return None


def _any_iteration(m: Machine, node: ast.For | ast.AsyncFor, elements: expressions.Elements) -> Completion:
    """One iteration that stands for all later ones."""
    widen(m, node.body)
    assign(m, node.target, elements.later())
    before, m.later = m.later, True
    try:
        return run(m, node.body)
    finally:
        m.later = before


def _is_step_loop(m: Machine, loop: Any, since: int) -> bool:
    return any(
        draft.kind in (Backward, OptimizerStep) and draft.loops and draft.loops[-1] == loop.identity
        for draft in islice(m.drafts, since, None)
    )


def _stepped(m: Machine, loop: Any) -> bool:
    """Was a step taken? Where the number of the iteration decides about one, a step that may not have been does not count."""
    return loop.identity in (m.surely_stepped_in if loop.by_index else m.stepped_in)


def _counts(m: Machine, loop: Any) -> bool:
    """Did a step loop never reach its step in the iterations that were run?"""
    return loop.identity in m.backward_in and not _stepped(m, loop)


def widen(m: Machine, body: list[ast.stmt]) -> None:
    """Numbers that the loop's body counts up stand for any later value from now on."""
    for name in _counted(body):
        for scope in m.frames[-1].scope.chain():
            if isinstance(scope.names.get(name), Const):
                m.write(scope.names, name, Unknown(f"{name} counts up", varies=True))
                break


def _counted(body: list[ast.stmt]) -> set[str]:
    """Names that are the target of an augmented assignment somewhere in a body."""
    return {
        it.target.id for it in statements_of(body) if isinstance(it, ast.AugAssign) and isinstance(it.target, ast.Name)
    }


def _while(m: Machine, node: ast.While) -> Completion:
    test = expressions.evaluate(m, node.test)
    expressions.say_read(m, "bool", test, node.test)
    if m.truth(test) is False:
        return run(m, node.orelse)
    last, m.last = m.last, False
    loop = _enter_loop(m, node)
    completion = _while_body(m, node, loop)
    _leave_loop(m, loop)
    m.last = last
    return completion


def _while_body(m: Machine, node: ast.While, loop: Any) -> Completion:
    for number in range(MAX_ITERATIONS):
        before = len(m.drafts)
        completion = run(m, node.body)
        if completion is BREAK:
            return None
        if completion is not None and completion is not CONTINUE:
            return completion
        if not _is_step_loop(m, loop, before) or (number >= 1 and _stepped(m, loop)):
            break
        if m.truth(expressions.evaluate(m, node.test)) is False:
            return None
    widen(m, node.body)
    completion = run(m, node.body)
    return completion if completion is DEAD else None


# --- regions, errors ---------------------------------------------------------------------------------------------


def _with(m: Machine, node: ast.With | ast.AsyncWith) -> Completion:
    regions = len(m.regions)
    grad, phase = m.grad, m.phase
    for item in node.items:
        value = expressions.evaluate(m, item.context_expr)
        entered = enter_region(m, value, item.context_expr)
        if item.optional_vars is not None:
            assign(m, item.optional_vars, entered)
    try:
        return run(m, node.body)
    finally:
        del m.regions[regions:]
        m.grad, m.phase = grad, phase


def enter_region(m: Machine, value: Abstract, node: ast.AST) -> Abstract:
    from t4lint.libraries.registry import entered

    value = m.resolve(value)
    with m.at(m.frames[-1].source, node):
        if isinstance(value, Instance):
            found = value.cls.find("__enter__")
            if isinstance(found, Function):
                return m.method(value, "__enter__", Arguments())
            return value
        m.regions.append(value)
        return entered(m, value)


def _try(m: Machine, node: ast.Try) -> Completion:
    library = imports.optional(m, node)
    if library:
        # the library may be there or not: both are ordinary runs
        test = f"{library} is installed"
        yes, no = m.fork(test, lambda: _try_body(m, node), lambda: _handlers(m, node))
        completion = completed(m, test, yes, no)
    else:
        completion = _try_body(m, node)
        from t4lint.interpret import recovery

        recovery.look(m, node)
    last = run(m, node.finalbody)
    return last if last is not None else completion


def _try_body(m: Machine, node: ast.Try) -> Completion:
    catches = any(_goes_on(handler) for handler in node.handlers)
    m.catching += catches
    try:
        completion = run(m, node.body)
    finally:
        m.catching -= catches
    if completion is DEAD and node.handlers:
        completion = _handlers(m, node)
    elif completion is None:
        completion = run(m, node.orelse)
    return completion


INTERRUPTIONS = frozenset({"KeyboardInterrupt", "SystemExit", "GeneratorExit"})


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Does the program go on after a handler, and is it one for errors?"""
    if isinstance(handler.type, ast.Name) and handler.type.id in INTERRUPTIONS:
        return False
    return not isinstance(handler.body[-1], ast.Raise)


def _handlers(m: Machine, node: ast.Try) -> Completion:
    handler = node.handlers[0]
    if handler.name is not None:
        bind(m, handler.name, Unknown("an exception"))
    return run(m, handler.body)


# --- definitions -------------------------------------------------------------------------------------------------


def _function(m: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Completion:
    value: Abstract = make_function(m, node.name, node)
    for decorator in reversed(node.decorator_list):
        value = decorate(m, expressions.evaluate(m, decorator), value)
    bind(m, node.name, value)
    return None


def make_function(m: Machine, name: str, node: FunctionNode) -> Function:
    frame = m.frames[-1]
    defaults: dict[str, Abstract] = {}
    for parameter, default in defaults_of(node.args):
        value = expressions.evaluate(m, default)
        if isinstance(value, Const) and len(value.origins) == 1 and value.origins[0].node is default:
            step = value.origins[0]
            note = f"default of {name}({parameter}={step.note})"
            value = Const(value.value, (Step("default", note, step.source, step.node),))
        defaults[parameter] = value
    scope = frame.scope
    if isinstance(scope, ClassScope) and scope.parent is not None:
        scope = scope.parent
    function = Function(name, node, frame.source, scope, defaults)
    if not isinstance(node, ast.Lambda):
        m.defined.append(function)
    return function


def defaults_of(parameters: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    """The parameters that have a default, with it."""
    plain = [*parameters.posonlyargs, *parameters.args]
    for parameter, default in zip(plain[len(plain) - len(parameters.defaults) :], parameters.defaults, strict=True):
        yield parameter.arg, default
    for parameter, value in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True):
        if value is not None:
            yield parameter.arg, value


def decorate(m: Machine, decorator: Abstract, value: Abstract) -> Abstract:
    """Decorators that matter keep the function and are remembered; others of libraries are transparent."""
    decorator = m.resolve(decorator)
    if isinstance(value, Function):
        value.decorators = (decorator, *value.decorators)
    if isinstance(value, Class) and isinstance(decorator, (Symbol, Object)):
        from t4lint.libraries.classes import makes_dataclass

        value.dataclass = value.dataclass or makes_dataclass(decorator)
    if isinstance(decorator, Object) and decorator.kind == "command" and isinstance(value, Function):
        from t4lint.libraries.entry import remember

        remember(m, decorator, value)
    if isinstance(decorator, Object) and registry.has_method(decorator, "decorate"):
        registry.call_method(m, decorator, "decorate", Arguments((value,)))
    if isinstance(decorator, Function):
        result = m.call(decorator, Arguments((value,)))
        return result if isinstance(result, (Function, Class, Object)) else value
    return value


def _class(m: Machine, node: ast.ClassDef) -> Completion:
    from t4lint.interpret.machine import Frame

    bases = tuple(m.resolve(expressions.evaluate(m, base)) for base in node.bases)
    cls = Class(node.name, node, m.frames[-1].source, bases)
    for base in cls.lineage():
        if isinstance(base, Class) and base is not cls:
            cls.fields.update({name: value for name, value in base.fields.items() if name not in cls.fields})
    scope = ClassScope(m.frames[-1].scope, cls)
    m.frames.append(Frame(m.frames[-1].source, scope))
    try:
        for statement in node.body:
            _field(m, cls, statement)
            execute(m, statement)
    finally:
        m.frames.pop()
    for member in cls.members.values():
        if isinstance(member, Function) and member.owner is None:
            member.owner = cls
    if any(isinstance(base, Symbol) for base in cls.lineage()):
        from t4lint.libraries.classes import define_members

        define_members(m, cls)
    value: Abstract = cls
    for decorator in reversed(node.decorator_list):
        value = decorate(m, expressions.evaluate(m, decorator), value)
    bind(m, node.name, value)
    return None


class ClassScope(Scope):
    """The scope of a class body: its names are the members, and functions in it do not see them."""

    __slots__ = ()

    def __init__(self, parent: Scope, cls: Class) -> None:
        super().__init__(parent)
        self.names = cls.members


def _field(m: Machine, cls: Class, statement: ast.stmt) -> None:
    """An annotated name in a class body is a field, should the class turn out to be a dataclass."""
    if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
        return
    name = statement.target.id
    default = None
    if statement.value is not None:
        value = expressions.evaluate(m, statement.value)
        default = field_default(m, cls, name, statement.value, value)
    cls.fields[name] = default
    if isinstance(statement.annotation, ast.Name):
        kind = expressions.look_up(m, statement.annotation.id)
        if isinstance(kind, Class):
            cls.types[name] = kind


def field_default(m: Machine, cls: Class, name: str, node: ast.expr, value: Abstract) -> Abstract | None:
    from t4lint.libraries.python import dataclass_field

    source = m.frames[-1].source
    if isinstance(value, Object) and value.kind == "dataclass field":
        found = dataclass_field(m, value)
        if found is None:
            return None
        value = found
        step = value.origins[0] if value.origins else None
        node = step.node if step is not None and step.node is not None else node  # type: ignore[assignment]
    if isinstance(value, (Const, Symbol)):
        return expressions.replace_with_default(value, f"default of {cls.name}.{name}", source, node)
    return value


# --- imports -----------------------------------------------------------------------------------------------------


def _import(m: Machine, node: ast.Import) -> Completion:
    return imports.import_names(m, node)


def _import_from(m: Machine, node: ast.ImportFrom) -> Completion:
    return imports.import_from(m, node)


STATEMENTS: dict[type[ast.AST], Callable[[Any, Any], Completion]] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Delete: _delete,
    ast.Assert: _assert,
    ast.Global: _global,
    ast.Nonlocal: _nonlocal,
    ast.Break: lambda m, node: BREAK,
    ast.Continue: lambda m, node: CONTINUE,
    ast.If: _if,
    ast.Match: _match,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    getattr(ast, "TryStar", ast.Try): _try,  # since Python 3.11
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
}
