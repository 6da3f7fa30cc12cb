"""flash_attn: attention kernels called directly (read in 1.0.9 and 2.0 to August 2026).

Whether the package is there is the person's affair. Where a program imports it under `try`, or asks whether it is
there, it has another way, and what is called on the target is not known.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from t4lint.interpret.operators import tensor_of
from t4lint.interpret.values import Abstract, Const, Tensor, Unknown
from t4lint.libraries.api import Call, calls
from t4lint.trace import Attention

# functions that run a kernel; layers and helpers of the package do not by themselves
KERNELS = tuple(
    f"{module}.{name}"
    for module in ("flash_attn", "flash_attn.flash_attn_interface", "flash_attn_interface")
    for name in (
        "flash_attn_func", "flash_attn_qkvpacked_func", "flash_attn_kvpacked_func", "flash_attn_varlen_func",
        "flash_attn_varlen_qkvpacked_func", "flash_attn_varlen_kvpacked_func", "flash_attn_with_kvcache",
    )
)  # fmt: skip


@calls(*KERNELS)
def kernel(call: Call) -> Abstract:
    m = call.machine
    tensors = [value for value in call.arguments.values() if isinstance(value, Tensor)]
    runs: Abstract = Const("flash", (m.here("literal", call.name),))
    if has_fallback(m):
        runs = Unknown("the program has another way where flash_attn is not there")
    elif not m.at_least("flash-attn", "2.0"):
        runs = Const("flash 1")
    m.emit(Attention, "call", implementation=Const("flash_attn"), kernel=runs)
    return tensor_of(*tensors) if tensors else Tensor()


@calls("flash_attn.*", "flash_attn_interface.*")
def anything(call: Call) -> Abstract:
    from t4lint.libraries.registry import library_default

    return library_default(call)


BLOCKS = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.With, ast.AsyncWith, ast.For, ast.AsyncFor, ast.While,
)  # fmt: skip
TRIES: Any = (ast.Try, getattr(ast, "TryStar", ast.Try))


def has_fallback(m: Any) -> bool:
    """Does a module of this run import the package under a test or a `try`?"""
    trees = {id(frame.source): frame.source.tree for frame in m.frames}
    trees |= {id(source): source.tree for source in m.project.modules.values() if hasattr(source, "tree")}
    cache: dict[int, bool] = m.globals.setdefault("$flash fallback", {})
    for identity, tree in trees.items():
        if identity not in cache:
            cache[identity] = guarded_import(tree.body, False)
    return any(cache[identity] for identity in trees)


def guarded_import(statements: Sequence[ast.stmt], guarded: bool, depth: int = 0) -> bool:
    for node in statements if depth < 12 else ():
        if guarded and imports_flash(node):
            return True
        if isinstance(node, TRIES):
            if guarded_import(node.body, True, depth + 1):
                return True
        elif isinstance(node, ast.If):
            if guarded_import(node.body, True, depth + 1) or guarded_import(node.orelse, True, depth + 1):
                return True
        elif isinstance(node, BLOCKS):
            if guarded_import(node.body, guarded, depth + 1):
                return True
    return False


def imports_flash(node: ast.stmt) -> bool:
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        names = [node.module]
    return any(name.startswith("flash_attn") for name in names)
