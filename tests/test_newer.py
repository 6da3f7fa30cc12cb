"""Syntax that is newer than the running Python: libcst's trees as those of `ast`."""

from __future__ import annotations

import ast
import sys
import sysconfig
from pathlib import Path

import libcst as cst
import pytest

from t4lint.engine import Options, check
from t4lint.findings import Problem
from t4lint.interpret import newer
from t4lint.interpret.source import PARTS_HAVE_PLACES, SourceModule, parse
from t4lint.sources.document import Document

ROOT = Path(__file__).parent.parent
STDLIB = Path(sysconfig.get_paths()["stdlib"])
# Files of Python's own that use much of the grammar.
OWN = (
    "asyncio/base_events.py", "contextlib.py", "dataclasses.py", "enum.py", "re/_parser.py", "string.py", "tokenize.py",
)  # fmt: skip

ODD = """\
\ufeff'doc' "string" \'\'\'of
parts\'\'\'
x = b'a' b"b"; y = (yield); z = (yield from a)
async def f(a, /, b: (int) = 1, *c, d, e=2, **g) -> (str):
    async with (a) as b, (c):
        pass
    async for (x) in [i async for i in (j) if i if (k)]: await (x)
    else: return
    return (  # why (not
        (a), *b, (c)  # end )
        ,
    )
@(d)
@e.f(1)
class A((B), *C, metaclass=M, **kw): x: int; y: (int) = 1
if a: pass
elif (b): pass
elif c:
    pass
else: pass
try: pass
except (A, B) as e : raise X from (Y)
except A: raise
else: pass
finally: pass
while (x := f((1), *y, **z, k=(2))): break
else: pass
match (a), b:
    case [1, -1.5, 1 + 2j, *_] | (None, True, *rest) if x: pass
    case {"k": v, **others}: pass
    case A.B(x, y=(2 | 3)) as z: pass
    case (1): pass
    case ((1, 2)): pass
    case a, b: pass
    case _: pass
f(x for x in (y)); f((x for x in y)); f( x async for x in y )
print(f"{a!r:>{w}} {{}} \\n {b = } {'c'} \\N{EN DASH}" rf"\\d{d}" "end", f"", u"u")
a[1], a[1:2], a[::(3)], a[1, :], a[1,], a[(1, 2)], a[...], a[
    :, None
] = 0, 0x_FF, 1e-5, 1J, 0o17, 1_000, not a, ~b, -c, +d
x = a and b and (c and d) or e and not f if g else lambda *a, b=(1): (a)
x = a < b <= c is not d not in (e), (a, ), (), ((a)), [*a, (b)], {*a}, {**a, b: c}, {a: b for a, b in (c)}, {(a) for a in b}
del a, (b, c), d[0]
x @= y; x //= 2; x **= z; x >>= 1
global g1, g2
assert (a), (b)
import a.b as c, d
from ...e import (f as g, h,)
from . import *
"""


def dumped(tree: ast.AST) -> str:
    """A tree as text, with the places; those of the parts of f-strings only where Python tells them."""
    for node in ast.walk(tree):
        parts = list(ast.walk(node))[1:] if isinstance(node, (ast.JoinedStr, ast.FormattedValue)) else []
        for part in parts:
            if not PARTS_HAVE_PLACES or isinstance(part, (ast.Constant, ast.FormattedValue, ast.JoinedStr)):
                vars(part).update(dict.fromkeys(("lineno", "col_offset", "end_lineno", "end_col_offset"), 0))
    return ast.dump(tree, include_attributes=True, indent=1)


def files() -> list[Path]:
    fixtures = sorted((ROOT / "fixtures").rglob("*.py"))[::48]
    return [*fixtures, *sorted((ROOT / "t4lint" / "interpret").glob("*.py")), *(STDLIB / name for name in OWN)]


def test_trees_are_those_of_ast() -> None:
    compared = 0
    for file in files():
        try:
            text = file.read_text(encoding="utf-8")
            tree = ast.parse(text)
        except (OSError, SyntaxError):
            continue  # another Python's standard library, or newer syntax
        assert dumped(newer.parse(text)) == dumped(tree), file
        compared += 1
    assert compared > 40


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_odd_syntax(newline: str) -> None:
    text = ODD.removeprefix("\ufeff").replace("\n", newline).replace("'doc'", "'d\u00f6c'")
    assert dumped(newer.parse(text)) == dumped(ast.parse(text))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="this Python has no such syntax")
def test_exception_groups() -> None:
    text = "try:\n    pass\nexcept* (A) as e:\n    pass\n"
    assert dumped(newer.parse(text)) == dumped(ast.parse(text))


NEWER = """\
import torch
from torch.utils.data import DataLoader

type Pair[T] = tuple[T, T]


def loader[T](name: str, workers: T) -> DataLoader:
    print(f"{"workers"}: {workers} {f'{"a"}'}")
    return DataLoader([1], prefetch_factor=(2))


for batch in loader("a", 0):
    pass
"""


def test_newer_syntax_is_followed(tmp_path: Path) -> None:
    """PEP 695 and 701: an older Python finds the same in the same place."""
    (tmp_path / "train.py").write_text(NEWER)
    report = check([tmp_path / "train.py"], Options(cwd=tmp_path))
    assert not report.problems
    (finding,) = (it for it in report.findings if it.rule == "worker-options-without-workers")
    where = finding.location
    assert NEWER.split("\n")[where.line - 1][where.column - 1 : where.end_column - 1] == "2"


@pytest.mark.skipif(not hasattr(cst, "LazyImport"), reason="this libcst does not know Python 3.15")
def test_lazy_imports_are_imports(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "lazy import torch\nlazy from transformers import TrainingArguments\nTrainingArguments('o', bf16=True)\n"
        "rows = [*row for row in [[1], [2]]]\nmerged = {**one for one in [{1: 2}]}\n"
    )
    report = check([tmp_path], Options(cwd=tmp_path))
    assert not report.problems
    assert [finding.rule for finding in report.findings] == ["bf16-mixed-precision"]


def test_what_no_parser_reads_has_pythons_own_message() -> None:
    problem = parse(Document("m.py", Path("m.py"), "python", "a = 1\nprint 'a'\n"), "m")
    assert isinstance(problem, Problem) and problem.line == 2
    assert "Missing parentheses in call to 'print'" in problem.message


# --- places of nodes -----------------------------------------------------------------------------------------------

BRACKETS = {
    "(a, b)": "a, b",
    "( a , b, )": "a , b,",
    "((a), b)": "(a), b",
    "(a), (b)": "(a), (b)",
    "((a), (b))": "(a), (b)",
    "((a, b), c)": "(a, b), c",
    "(  # why )\n  a,  # (b\n  b\n)": "a,  # (b\n  b",
    "(*a, (b))": "*a, (b)",
    "((a),)": "(a),",
    "()": "",
    "( )": "",
    "(x for x in y)": "x for x in y",
    "(x for x in (y) if (z) )": "x for x in (y) if (z)",
    "'é', b": "'é', b",
    "('é', b)": "'é', b",
}


@pytest.mark.parametrize("written", BRACKETS)
def test_brackets_are_no_part_of_an_expression(written: str) -> None:
    source = parse(Document("m.py", Path("m.py"), "python", f"a = 'ü'; x = {written}\n"), "m")
    assert isinstance(source, SourceModule)
    value = source.tree.body[1].value  # type: ignore[attr-defined]
    assert source.code(value) == BRACKETS[written]


def test_the_generator_of_a_call() -> None:
    source = parse(Document("m.py", Path("m.py"), "python", "f( x for x in y )\n"), "m")
    assert isinstance(source, SourceModule)
    call = source.tree.body[0].value  # type: ignore[attr-defined]
    assert source.code(call.args[0]) == "x for x in y"


def test_places_in_f_strings() -> None:
    """Where Python tells a wrong place for a part of an f-string, the whole stands for it."""
    text = "x = f'''é\n{ ', '.join(f'{n[j]} {p[j]:.2f}' for j in t)}''' f'{g(a, *b)}'\ny = f'{h(1)}'\n"
    source = parse(Document("m.py", Path("m.py"), "python", text), "m")
    assert isinstance(source, SourceModule)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.JoinedStr):
            source.note_parts(node)
    strings = {source.code(node) for node in ast.walk(source.tree) if isinstance(node, ast.JoinedStr)}
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.Name, ast.Call)) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            code = source.code(node)
            assert code in strings or ast.dump(ast.parse(code, mode="eval").body) == ast.dump(node)
