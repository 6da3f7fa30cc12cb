"""Huge texts made small before they are parsed: what cannot matter to a training run is left out.

libcst, which fixes need, spends about 2 kB on each token, so that 5 MB of numbers would take gigabytes. Left out are the
elements of long literals (`*_` stands for them: the value is known to be incomplete), long runs of assignments of plain data
that nothing reads, repetitions of the same statement, and blank lines. Everything else keeps its place: `Thinned` knows
where in the document each character of the text came from.
"""

from __future__ import annotations

import ast
import keyword
import re
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from t4lint.sources.nesting import end_of_string

LARGE = 300_000  # characters: below this the text is parsed as it is
ENOUGH = 120_000  # tokens that the parser copes with in seconds
MOST = 1_000_000  # tokens beyond which a text is refused: a gigabyte and more
LONG = (2_000, 200, 20)  # elements of a literal that is left out: the longest first, shorter ones only where it must be
RUN = 1_000  # statements of a run that is looked into
REPEATS = 100  # of the same statement that are kept
BLANKS = 50  # blank lines in a row that are kept

# What makes data and nothing else, so that leaving it out with its arguments changes no event.
PURE = frozenset({
    "abs", "bool", "bytes", "complex", "dict", "float", "frozenset", "int", "len", "list", "max", "min", "print", "range",
    "repr", "round", "set", "sorted", "str", "sum", "tuple",
    *(f"{module}.{name}" for module in ("torch", "np", "numpy")
      for name in ("arange", "array", "asarray", "float32", "float64", "full", "int64", "linspace", "ones", "tensor", "zeros")),
})  # fmt: skip

_TOKEN = re.compile(
    r"""(#[^\n]*)|((?:\b[rRbBuUfFtT]{1,2})?(?:\"\"\"|'''|"|'))|(\w+(?:\.\d\w*)?)|(\\?\r?\n)|([(\[{])|([)\]}])|(,)|(:)"""
    r"""|([^\s\w"'#()\[\]{},:\\])""",
)
_COMPOUND = frozenset(
    "async class def elif else except finally for if try while with match case".split()  # noqa: SIM905
)
_ASSIGNMENT = re.compile(r"([^\W\d]\w*)[ \t]*=(?!=)[ \t]*(.*)", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.])\d[\w.]*")
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Thinned:
    """A text with parts left out. `starts` are offsets in it at which a part of the document begins, at `origins`."""

    text: str
    starts: tuple[int, ...] = (0,)
    origins: tuple[int, ...] = (0,)
    instead: tuple[int, ...] = ()  # lengths of what stands for the cuts between the parts

    def origin(self, offset: int) -> int:
        """Where in the document a character of the text stands."""
        part = bisect_right(self.starts, offset) - 1
        return self.origins[part] + offset - self.starts[part]


def with_lines(text: str) -> str:
    """What is left of a huge text, with every line where it was; the text itself where it is not huge."""
    thinned = thin(text)
    if thinned is None or len(thinned.starts) == 1:
        return text
    parts: list[str] = []
    for number, (start, origin) in enumerate(zip(thinned.starts, thinned.origins, strict=True)):
        last = number + 1 == len(thinned.starts)
        end = len(thinned.text) if last else thinned.starts[number + 1]
        parts.append(thinned.text[start:end])
        if not last:
            # A part ends with what stands for the cut; the line ends of the cut follow it.
            cut_start = origin + end - start - thinned.instead[number]
            parts.append("\n" * text.count("\n", cut_start, thinned.origins[number + 1]))
    return "".join(parts)


@lru_cache(maxsize=2)
def thin(text: str) -> Thinned | None:
    """A text that can be parsed in reasonable time and memory; None where there is no such text."""
    if len(text) <= LARGE:
        return Thinned(text)
    seen = _Look(text)
    if seen.tokens <= ENOUGH and seen.blank_lines <= ENOUGH:
        return Thinned(text)
    cuts = seen.cuts()
    return _without(text, cuts) if seen.tokens <= MOST else None


def _without(text: str, cuts: list[tuple[int, int, str]]) -> Thinned:
    """The text without the cuts, which do not overlap; what stands for one has the place of its start."""
    parts: list[str] = []
    starts, origins, standing = [0], [0], []
    length = position = 0
    for start, end, instead in sorted(cuts):
        if start < position:
            continue
        if start == position and not instead and len(starts) > 1:
            origins[-1] = position = end  # goes on where the one before ends
            continue
        parts += (text[position:start], instead)
        length += start - position + len(instead)
        starts.append(length)
        origins.append(end)
        standing.append(len(instead))
        position = end
    parts.append(text[position:])
    return Thinned("".join(parts), tuple(starts), tuple(origins), tuple(standing))


@dataclass(slots=True)
class _Bracket:
    start: int
    kind: str
    tokens: int  # before it, and once it is closed: in it
    end: int = 0
    commas: int = 0
    colons: int = 0
    literal: bool = True
    parent: _Bracket | None = None


@dataclass(slots=True)
class _Statement:
    """A logical line; `end` is behind its line end."""

    start: int
    end: int
    indent: int
    tokens: int
    word: str


@dataclass(slots=True)
class _Look:
    """One pass over the tokens of a text."""

    text: str
    tokens: int = 0
    blank_lines: int = 0
    brackets: list[_Bracket] = field(default_factory=list)
    statements: list[_Statement] = field(default_factory=list)
    blanks: list[tuple[int, int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        text, position, line_start, last = self.text, 0, 0, ""
        inner: _Bracket | None = None
        current: _Statement | None = None
        blank_from, blank = 0, 0
        search = _TOKEN.search
        while match := search(text, position):
            position = match.end()
            kind = match.lastindex
            if kind == 4:
                if inner is None and match[4][0] != "\\":
                    if current is not None:
                        current.end, current.tokens = position, self.tokens - current.tokens
                        self.statements.append(current)
                        current, last = None, ""
                        blank_from = position
                    elif text[line_start:position].isspace():
                        blank += 1
                        if position - line_start and blank == BLANKS:
                            blank_from = position
                    else:
                        blank = 0
                line_start = position
                continue
            if blank:
                self.blank_lines += blank
                if blank > BLANKS:
                    self.blanks.append((blank_from, line_start, ""))
                blank = 0
            if kind == 1:
                continue
            if current is None:
                current = _Statement(line_start, position, match.start() - line_start, self.tokens, match[0])
            self.tokens += 1
            if kind == 2:
                position = end_of_string(text, match, 2)
            elif kind == 5:
                literal = (
                    not last
                    or (last in keyword.kwlist and last != "import")
                    or not (last[-1].isalnum() or last[-1] in "_)]}\"'")
                )
                inner = _Bracket(match.start(), match[5], self.tokens, literal=literal, parent=inner)
            elif kind == 6:
                if inner is not None:
                    inner.end, inner.tokens = match.start(), self.tokens - inner.tokens
                    self.brackets.append(inner)
                    inner = inner.parent
            elif inner is not None:
                if kind == 7:
                    inner.commas += 1
                elif kind == 8:
                    inner.colons += 1
                elif match[0] == "for":
                    inner.literal = False
            last = match[0]
        if blank > BLANKS:
            self.blanks.append((blank_from, line_start, ""))
        self.blank_lines += blank
        if current is not None:
            current.end, current.tokens = len(text), self.tokens - current.tokens
            self.statements.append(current)

    def cuts(self) -> list[tuple[int, int, str]]:
        """What to leave out, until what remains is enough; `tokens` counts down."""
        cuts = list(self.blanks)
        for start, end in self.superfluous():
            cuts.append((start, end, ""))
        gone = _Spans(cuts)
        for limit in LONG:
            if self.tokens <= ENOUGH:
                break
            inside: list[tuple[int, int, str]] = []
            # The outer ones first: they were closed last, and what is in them goes with them.
            for bracket in sorted(self.brackets, key=lambda it: it.start):
                if bracket.commas >= limit and bracket.literal and not gone.holds(bracket.start):
                    instead = "**_" if bracket.kind == "{" and bracket.colons else "*_,"
                    cut = (bracket.start + 1, bracket.end, instead)
                    if not inside or inside[-1][1] <= cut[0]:
                        inside.append(cut)
                        self.tokens -= bracket.tokens
            cuts = [cut for cut in cuts if not _Spans(inside).holds(cut[0])] + inside if inside else cuts
            gone = _Spans(cuts)
        return cuts

    def superfluous(self) -> Iterator[tuple[int, int]]:
        """Statements in long runs that set plain data which nothing reads, or say again what was said often."""
        plain = _Plain()
        runs = [run for run in self.runs() if len(run) > RUN]
        if not runs:
            return
        words = Counter(match[0] for match in _WORD.finditer(self.text))
        targets: list[str] = []
        set_here: Counter[str] = Counter()
        for run in runs:
            for statement in run:
                target = plain.target(self.text[statement.start : statement.end].strip())
                if target:
                    set_here[target] += 1
                targets.append(target or "")
        every = iter(targets)
        for run in runs:
            names = [next(every) for _ in run]
            said: Counter[str] = Counter()
            repeated = [False] * len(run)
            for number, (statement, name) in enumerate(zip(run, names, strict=True)):
                if not name:
                    line = self.text[statement.start : statement.end].strip()
                    said[line] += 1
                    repeated[number] = said[line] > REPEATS
            overwritten: set[str] = set()  # before anything but plain data could have read it
            for number in range(len(run) - 1, -1, -1):
                name = names[number]
                if not name:
                    overwritten.clear()
                    superfluous = repeated[number]
                else:
                    # A few names may be settings that another file reads; thousands are data.
                    unread = name == _NOTHING or (len(set_here) > RUN and words[name] == set_here[name])
                    superfluous = unread or name in overwritten
                    overwritten.add(name)
                # The last statement stays: a block must not become empty.
                if superfluous and number < len(run) - 1:
                    self.tokens -= run[number].tokens
                    yield run[number].start, run[number].end

    def runs(self) -> Iterator[list[_Statement]]:
        """Simple statements that follow each other in one block."""
        run: list[_Statement] = []
        for statement in self.statements:
            simple = statement.word not in _COMPOUND and statement.word not in ("import", "from", "@")
            if run and (not simple or statement.indent != run[0].indent):
                yield run
                run = []
            if simple:
                run.append(statement)
        yield run


_NOTHING = "="  # the target of a statement that sets nothing


class _Spans:
    """Where something is left out."""

    def __init__(self, cuts: list[tuple[int, int, str]]) -> None:
        self.cuts = sorted(cuts)
        self.starts = [cut[0] for cut in self.cuts]

    def holds(self, offset: int) -> bool:
        at = bisect_right(self.starts, offset) - 1
        return at >= 0 and offset < self.cuts[at][1]


class _Plain:
    """Statements that only make data: decided once for all that differ in nothing but numbers."""

    def __init__(self) -> None:
        self.known: dict[str, bool] = {}

    def target(self, line: str) -> str | None:
        """The one name that a statement sets to plain data; `_NOTHING` where it does without; None for any other."""
        match = _ASSIGNMENT.fullmatch(line)
        value = match[2] if match is not None else line
        shape = _NUMBER.sub("1", value)
        if shape not in self.known:
            if len(self.known) > 2_000:
                return None  # no pattern in this: each would cost a parse
            self.known[shape] = _is_plain(shape)
        if not self.known[shape]:
            return None
        return match[1] if match is not None else _NOTHING


def _is_plain(value: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(value, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    pending: list[ast.AST] = [tree.body]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call):
            if ast.unparse(node.func) not in PURE or node.keywords:
                return False
            pending.extend(node.args)
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.UnaryOp, ast.BinOp)):
            pending.extend(ast.iter_child_nodes(node))
        elif not isinstance(node, (ast.Constant, ast.operator, ast.unaryop, ast.expr_context)):
            return False
    return True
