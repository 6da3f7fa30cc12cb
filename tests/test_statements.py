"""Lines to statements: both witnesses name events this way."""

from __future__ import annotations

import ast
import random
import textwrap
from pathlib import Path

import pytest

from t4lint.sources.statements import enclosing_loops, spelled_out, statement_span

TEXT = textwrap.dedent(
    '''\
    """Doc
    string."""
    import os

    @decorate(
        1,
    )
    @other
    def function(
        a: int = (1),
        *,
        b=lambda: {1: 2},  # a comment: with a colon
    ) -> dict[
        str, int
    ]:
        """Doc."""
        return call(
            a,
            b,
        )

    with open("a") as f, (
        open("b")
    ) as g:
        x = 1; y = call(
            2)
    if (a and
            b):
        pass
    elif c[1:2]:
        z()
    else:
        w()
    for i in range(
        3
    ):  # comment
        while True: break
    else:
        after()
    try:
        risky()
    except (
        ValueError,
        TypeError,
    ) as error:
        pass
    finally:
        done()
    class A(
        B,
        metaclass=M,
    ):
        field = 1
        def method(self): return [
            self
        ]
    match value:
        case [1,
              2] if x > 1:
            matched()
        case _:
            pass
    text = """a
    b: c
    """
    '''
)


def line_of(start: str) -> int:
    return next(n for n, line in enumerate(TEXT.split("\n"), 1) if line.strip().startswith(start))


@pytest.mark.parametrize(
    ("start", "first", "last"),
    [
        ('"""Doc', '"""Doc', 'string."""'),
        ("import os", "import os", "import os"),
        ("1,", "@decorate(", ")"),
        ("@other", "@other", "@other"),
        ("a: int", "def function(", "]:"),
        ("str, int", "def function(", "]:"),
        ("return call(", "return call(", "    )"),
        ("b,", "return call(", "    )"),
        ('open("b")', "with open", ") as g:"),
        ("x = 1;", "x = 1;", "2)"),
        ("2)", "x = 1;", "2)"),
        ("b):", "if (a and", "b):"),
        ("elif", "elif", "elif"),
        ("z()", "z()", "z()"),
        ("3", "for i in", "):  # comment"),
        ("while True", "while True", "while True"),
        ("try:", "try:", "try:"),
        ("TypeError", "except (", ") as error:"),
        ("done()", "done()", "done()"),
        ("metaclass", "class A(", "):"),
        ("field", "field", "field"),
        ("self", "def method", "    ]"),
        ("match value", "match value", "match value"),
        ("2] if", "case [1,", "2] if"),
        ("case _", "case _", "case _"),
        ("b: c", "text =", '"""'),
    ],
)
def test_span(start: str, first: str, last: str) -> None:
    line = line_of(start)
    lines = TEXT.split("\n")
    begin, end = statement_span(TEXT, line)
    assert begin <= line <= end
    assert lines[begin - 1].strip().startswith(first.strip())
    assert lines[end - 1].strip().startswith(last.strip())


def test_between_statements_and_outside() -> None:
    assert statement_span(TEXT, 4) == (4, 4)
    assert statement_span(TEXT, line_of("else:")) == (line_of("else:"),) * 2
    assert statement_span(TEXT, 10_000) == (10_000, 10_000)
    assert statement_span("", 1) == (1, 1)


def test_what_ast_refuses() -> None:
    assert statement_span("%matplotlib inline\nx = f(\n1)", 2) == (2, 2)
    assert statement_span("x = '\0'", 1) == (1, 1)
    assert statement_span("(" * 5000, 1) == (1, 1)


def test_line_endings_and_unicode() -> None:
    text = "with f(\n  'ü: ü', a[1:2]\n) as x: y = 1\nz = (\n1)\n"
    for ending in ("\n", "\r\n", "\r"):
        assert statement_span(text.replace("\n", ending), 2) == (1, 3)
        assert statement_span(text.replace("\n", ending), 5) == (4, 5)


def test_every_line_of_a_span_has_the_same_span() -> None:
    for path in sorted(Path(ast.__file__).parent.glob("*.py"))[:60]:
        text = path.read_text(encoding="utf-8", errors="replace")
        for line in random.Random(0).sample(range(1, text.count("\n") + 2), min(60, text.count("\n") + 1)):
            first, last = statement_span(text, line)
            assert first <= line <= last
            assert statement_span(text, first)[0] == first
            if statement_span(text, first) == (first, last):
                inner = {statement_span(text, n) for n in range(first, last + 1)}
                assert inner == {(first, last)} or len(inner) <= 3  # a body on the line of the header


def test_loops() -> None:
    text = textwrap.dedent(
        """\
        for epoch in range(3):
            for batch in loader:
                step()
                def inner():
                    while True:
                        f()
                    g()
            else:
                h()
        while test():
            i()
        j()
        """
    )
    assert enclosing_loops(text, 3) == (1, 2)
    assert enclosing_loops(text, 2) == (1,)
    assert enclosing_loops(text, 1) == ()
    assert enclosing_loops(text, 6) == (5,)
    assert enclosing_loops(text, 7) == ()
    assert enclosing_loops(text, 9) == (1,)
    assert enclosing_loops(text, 11) == (10,)
    assert enclosing_loops(text, 12) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("with torch.autocast('cuda', dtype=torch.float16): pass", True),
        ("with autocast('cuda', torch.float16): pass", True),
        ("with autocast(): pass", True),
        ("with autocast(dtype=dtype): pass", False),
        ("with autocast('cuda', choose()): pass", False),
        ("with autocast(**options): pass", False),
        ("with autocast(\n  dtype=args.dtype,\n): pass", False),
        ("with context: pass\nautocast(dtype=x)", None),
        ("not python", None),
    ],
)
def test_spelled_out(text: str, said: bool | None) -> None:
    assert spelled_out(text, 1, "autocast", "dtype", 1) is said
