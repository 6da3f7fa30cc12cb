"""Code that other code runs: text, files, modules by name, threads and processes."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from t4lint.findings import Problem
from t4lint.interpret.expressions import item, iterate
from t4lint.interpret.operators import unknown_from
from t4lint.interpret.values import (
    NONE,
    PRESUMED,
    Abstract,
    Const,
    DictValue,
    Function,
    Instance,
    ListValue,
    Object,
    Partial,
    Provenance,
    Scope,
    Unknown,
)
from t4lint.libraries.api import Arguments, Call, calls, methods
from t4lint.sources import disk
from t4lint.trace import Call as CallEvent

MAX_TEXT = 2_000  # characters of an expression that is text
MAX_STEPS = 32  # of `functools.reduce`

# --- text ------------------------------------------------------------------------------------------------------------


def from_plain(value: Any, origins: Provenance = ()) -> Abstract:
    """A Python value of constants, lists and dicts as the interpreter has it."""
    if isinstance(value, (list, tuple, set, frozenset)):
        kind = "list" if isinstance(value, list) else "tuple" if isinstance(value, tuple) else "set"
        return ListValue(tuple(from_plain(part, origins) for part in value), kind, origins=origins)
    if isinstance(value, dict):
        return DictValue({key: from_plain(part, origins) for key, part in value.items()}, origins=origins)
    return Const(value, origins)


@calls("ast.literal_eval", "builtins.eval")
def literal_eval(call: Call) -> Abstract:
    """Text that is a literal. Any other expression is not evaluated: it may have any effect."""
    text = call.argument("source", 0)
    if isinstance(text, Const) and isinstance(text.value, str) and len(text.value) <= MAX_TEXT:
        try:
            return from_plain(ast.literal_eval(text.value.strip()), text.origins)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            if call.name == "builtins.eval" and text.value.isidentifier():
                from t4lint.interpret.expressions import look_up

                return look_up(call.machine, text.value)
            if call.name == "ast.literal_eval":
                from t4lint.interpret.expressions import NEVER

                call.machine.ended = "error"
                return NEVER
    return Unknown("the value of code that is text")


@calls("builtins.exec", "runpy.run_path", "runpy.run_module")
def run_text(call: Call) -> Abstract:
    """Code that is text. A file of the project is run in the scope of the call; whatever other text may reach is no longer
    known."""
    from t4lint.libraries.configs import find_file, path_of

    m = call.machine
    name = path_of(m, call.arguments.get("source", 0))
    file = find_file(m, name) if name is not None else None
    if file is not None and call.name != "runpy.run_module":
        source = m.project.load(disk.real(file), file.stem)
        if not isinstance(source, Problem):
            return run_here(m, source)
    return forget(m) if call.name == "builtins.exec" else Unknown("what the code leaves")


def run_here(m: Any, source: Any) -> Abstract:
    """Run a file of the project in the scope of the caller."""
    from t4lint.interpret.machine import MAX_DEPTH, Frame
    from t4lint.interpret.statements import run

    frame = m.frames[-1]
    if len(m.frames) >= MAX_DEPTH or any(other.source is source for other in m.frames):
        return forget(m)
    m.frames.append(Frame(source, frame.scope, frame.function, frame.receiver))
    try:
        run(m, source.tree.body)
    finally:
        m.frames.pop()
    return NONE


def forget(m: Any) -> Abstract:
    for scope in m.frames[-1].scope.chain():
        for name, value in list(scope.names.items()):
            if isinstance(value, Const) and not name.startswith("__"):
                m.write(scope.names, name, Const(value.value, (*value.origins, PRESUMED), value.varies))
            elif isinstance(value, (Instance, Object)):
                for key, part in list(value.attributes.items()):
                    if isinstance(part, Const) and not key.startswith("$"):
                        m.write(value.attributes, key, Unknown("code that is text may have changed it"))
    return Unknown("the value of code that is text")


@calls("builtins.globals", "builtins.locals")
def names_in_scope(call: Call) -> Abstract:
    """The names of a scope as a dict that shares them."""
    scopes: list[Scope] = list(call.machine.frames[-1].scope.chain())
    return DictValue(scopes[-1 if call.name == "builtins.globals" else 0].names)


@calls("types.MethodType")
def bound_method(call: Call) -> Abstract:
    """A function bound to an object, as `model.forward = MethodType(forward, model)` has it."""
    return Partial(call.argument("function", 0), (call.argument("instance", 1),), {})


# --- modules by name -----------------------------------------------------------------------------------------------


@calls("importlib.import_module", "builtins.__import__")
def import_by_name(call: Call) -> Abstract:
    from t4lint.interpret import imports

    m = call.machine
    name = call.argument("name", 0)
    if not isinstance(name, Const) or not isinstance(name.value, str) or not name.value:
        return unknown_from(call.name, name)
    if name.value.startswith("."):
        package = call.argument("package", 1)
        level = len(name.value) - len(name.value.lstrip("."))
        if isinstance(package, Const) and isinstance(package.value, str) and level == 1:
            return imports.import_module(m, f"{package.value}{name.value}")
        return imports.relative_module(m, name.value.lstrip("."), level)
    if m.catching and imports.is_no_module(m, name.value):
        from t4lint.interpret.expressions import NEVER

        m.ended = "error"
        return NEVER
    return imports.import_module(m, name.value)


@calls("importlib.util.find_spec")
def find_spec(call: Call) -> Abstract:
    """A module of the project or an installed library is found; of others nothing is known."""
    from t4lint.interpret import imports

    name = call.argument("name", 0)
    if isinstance(name, Const) and isinstance(name.value, str):
        there = imports.is_installed(call.machine, name.value)
        if there is not None:
            step = call.machine.here("version", f"{name.value} is {'in' if there else 'not in'} the environment")
            return Object("module spec", "importlib.machinery.ModuleSpec") if there else Const(None, (step,))
    return unknown_from(call.name, name)


@calls("importlib.util.spec_from_file_location")
def spec_from_file(call: Call) -> Abstract:
    return Object("module spec", "importlib.machinery.ModuleSpec", {"$path": call.argument("location", 1)})


@calls("importlib.machinery.SourceFileLoader")
def source_loader(call: Call) -> Abstract:
    return Object("module loader", call.name, {"$path": call.argument("path", 1)})


@calls("importlib.util.module_from_spec")
def module_from_spec(call: Call) -> Abstract:
    return module_of(call.machine, call.argument("spec", 0))


@methods("module loader", "load_module")
def load_module(call: Call) -> Abstract:
    return module_of(call.machine, call.receiver)


def module_of(m: Any, spec: Abstract) -> Abstract:
    """The module of a file that a specification or a loader names."""
    from t4lint.interpret.imports import load
    from t4lint.libraries.configs import find_file
    from t4lint.libraries.paths import text_of

    path = m.resolve(spec.attributes.get("$path") or NONE) if isinstance(spec, Object) else NONE
    text = text_of(path)
    file = find_file(m, text) if text is not None else None
    return load(m, disk.real(file), Path(file).stem) if file is not None else unknown_from("module", path)


@methods("module spec", "getattr")
def spec_attribute(call: Call) -> Abstract:
    return Object("module loader", "importlib.machinery.SourceFileLoader")


@methods("module loader", "*")
def run_loaded(call: Call) -> Abstract:
    """The module was run when it was made."""
    return NONE


# --- threads, processes, folds ---------------------------------------------------------------------------------------


@calls(
    "threading.Thread", "multiprocessing.Process", "torch.multiprocessing.Process", "multiprocessing.context.Process"
)
def new_worker(call: Call) -> Abstract:
    target = call.arguments.get("target", 1) or NONE
    args, keywords = call.arguments.get("args", 3), call.arguments.get("kwargs", 4)
    return Object("worker", call.name, {"$target": target, "$args": args or NONE, "$kwargs": keywords or NONE})


@methods("worker", "start", "run")
def start_worker(call: Call) -> Abstract:
    """Another thread or process runs the function; its events belong to the run."""
    m = call.machine
    args = m.resolve(call.receiver.attributes["$args"])
    keywords = m.resolve(call.receiver.attributes["$kwargs"])
    positional = args.items if isinstance(args, ListValue) else ()
    named = {str(k): v for k, v in keywords.items.items()} if isinstance(keywords, DictValue) else {}
    if call.receiver.name.endswith("Process"):
        m.emit(CallEvent, "start", function="multiprocessing.Process.start", arguments={})
    m.call(call.receiver.attributes["$target"], Arguments(positional, named))
    return NONE


@methods("worker", "*")
def worker_method(call: Call) -> Abstract:
    return NONE


@calls("asyncio.run", "anyio.run", "trio.run")
def run_coroutine(call: Call) -> Abstract:
    value = call.argument("main", 0)
    return call.machine.call(value, Arguments()) if isinstance(value, Function) else value


@calls("functools.reduce")
def reduce(call: Call) -> Abstract:
    m = call.machine
    elements = iterate(m, call.argument("iterable", 1))
    if elements.known is None or elements.stream or len(elements.known) > MAX_STEPS:
        return Unknown("a fold over something that is not known")
    values = list(elements.known)
    if call.given("initial", 2):
        values.insert(0, call.argument("initial", 2))
    if not values:
        return Unknown("a fold over nothing")
    result = values[0]
    for value in values[1:]:
        result = m.call(call.argument("function", 0), Arguments((result, value)))
    return result


@calls("operator.getitem")
def get_item(call: Call) -> Abstract:
    return item(call.machine, call.argument("a", 0), call.argument("b", 1))


@calls("operator.attrgetter", "operator.itemgetter", "operator.methodcaller")
def getter(call: Call) -> Abstract:
    return Object("getter", call.name, {"$name": call.argument("item", 0)})


@methods("getter", "__call__")
def get(call: Call) -> Abstract:
    m = call.machine
    value, name = call.argument("obj", 0), call.receiver.attributes["$name"]
    if call.receiver.name == "operator.itemgetter":
        return item(m, value, name)
    if not isinstance(name, Const) or not isinstance(name.value, str):
        return unknown_from("getter", value, name)
    if call.receiver.name == "operator.methodcaller":
        return m.method(value, name.value, Arguments())  # type: ignore[no-any-return]
    for part in name.value.split("."):
        value = m.attribute(value, part)
    return value
