"""Feeds t4lint with damaged copies of real files, and says what it did not stand.

    python scripts/fuzz.py [--mutants 10000] [--seed 0] [--jobs 2] [--corpus FOLDER ...] [--log FILE]
    python scripts/fuzz.py --seed 0 --only 4711       one of them again, with its text

Each mutant is a file (Python, notebook, shell, YAML, JSON, Dockerfile, Makefile, README) of the corpus with some damage, alone in
a folder, or among the other files of its project where that is a fixture. It is linted, its fixes are tried and applied, comments
are added that hide its findings, and the reports are rendered; or it is a settings file, the journal of a run, or the buffer of an
editor. What may not happen: an exception (also one that the engine would swallow), more CPU seconds for a check than `--limit`, more memory
than `--memory`, a finding outside of its file, a fixed file that is broken or that another fix changes again. The corpus are the
libraries that are installed beside t4lint, the fixtures, and the folders that are given. Nothing in it is run; a journal of an
example is recorded once. The numbers of a run depend on the seed and the corpus only.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import multiprocessing
import os
import queue
import random
import re
import resource
import shutil
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ["T4LINT_DEBUG"] = "1"  # faults surface

LIBRARIES = ("transformers", "trl", "accelerate", "peft", "torch")
SUFFIXES = (".py", ".ipynb", ".sh", ".yaml", ".yml", ".json", ".md")
NAMES = ("Dockerfile", "Makefile")
SMALLEST, LARGEST, LARGEST_NOTEBOOK = (
    150,
    16_000,
    100_000,
)  # bytes: most of what people write, and quick enough for thousands
FROM_LIBRARY, FROM_FOLDER = 400, 4_000  # files at most of a library, and of a folder that is given
SHARES = {"file": 20, "project": 3, "settings": 1, "journal": 1, "editor": 1}  # how often each surface comes
BETWEEN_RESTARTS = 400  # mutants that one process takes, so that growth shows and does not add up
TIMES_LIMIT = 5  # as much may be spent on all that is done with a mutant: a dozen checks while fixes are tried
FIXED_EVERY, RENDERED = (
    4,
    ("text", "concise", "json", "jsonl", "github", "sarif", "gitlab", "junit", "rdjson", "markdown"),
)

# Syntax that is new, old or rare: Python 3.8 to 3.15, and what Python 2 took.
ODD = """\
match x:|    case {"a": [1, *_], **rest} if rest: pass|    case A.B(c=-1 | 2j as d) | None: pass
type Pair[T: int = str, *Ts = *tuple[int], **P = [int]] = dict[T, Ts]
def f[T, *U, **V](x: T, /, *args: *U, y=1, **kw) -> T: ...
class A[T = int](B, metaclass=M, **kw): pass
x = f"{a!r:>{w}}{f'{b}'}{"nested {'quotes'}"}{c=}{{}}"
x = f'''{
    a  # comment
    :>{b}}'''
t = t"{a} {b!s:{c}}"
try:|    pass|except A, B:|    pass
try:|    pass|except (A, B) :|    pass|except* C as e :|    raise
lazy import json
lazy from os import path as p
with (open(a) as b, open(c) as d,): pass
async def h():|    return [await x async for x in y if await z], {k: v async for k, v in w}
x = [*a for a in b], {**c for c in d}
a = b = c, *d = e = yield
if (n := 10) > 5: pass
print(*args, sep="", **{**kw, "end": ""}, file = sys . stderr) ;
lambda *, a=1, **k: (yield)
x = 0xdead_beef + 1_0j + 0o17 + 1e1_0 + 0b1_1 + .5 + 5.
del (a), [b, c], d[1:2, ..., ::3]
global q
nonlocal z
return lambda: (yield from x)
@(a.b[c](d))
assert (yield), x if y else z
for *a, b in c, *d: continue
while not -x ** -y @ z // w: break
x: "int" = y
print 'old', ; exec 'a'; raise E, 'b'
x = `a` <> ur'b'
class C: a: int; b = 1; __slots__ = ()
import a.b.c as d, e; from . import *; from ...x import (y as z,)
def é(ﬁ, *, 变量=1): return 变量
x = "\\N{BULLET}\\x00" rb"\\" B'' u''
if True:	x = 1
""".splitlines()
WORDS = (
    "fp16=True", "bf16=True", "tf32=True", "torch.float16", "DataLoader", "None", "lambda: 0", "*args", "**kwargs", "self", "yield",
    "await x", "0", "-1", "1e999", "10**10**10", "'a' * 10**9", "[0] * 10**9", "range(10**12)", "float('nan')", "1 << 10**6", "{}",
    "x[x]", "...", "not", "exec(x)", "eval(x)", "__import__(x)", "globals()", "open(x).read()", "os.environ", "sys.argv[1]", "%",
)  # fmt: skip
SIGNS = "()[]{}'\"`,:;=.*@#\\%$&|<>!?~^-+/ \t\n\r\x0c\x00\x1b\x7f\u200b\u202e\u2028\ufeff\ud800é漢😀"


# --- the corpus --------------------------------------------------------------------------------------------------


def corpus(folders: Sequence[Path]) -> list[Path]:
    """Real files, the same ones in the same order for the same folders."""
    libraries = [Path(s.origin).parent for it in LIBRARIES if (s := importlib.util.find_spec(it)) and s.origin]
    found: list[Path] = []
    for place, most in [*((it, FROM_LIBRARY) for it in libraries), *((it, FROM_FOLDER) for it in folders)]:
        some = [file for file in sorted(place.rglob("*")) if _fits(file)]
        random.Random(0).shuffle(some)
        found += some[:most]
    return found


def _fits(file: Path) -> bool:
    if file.suffix not in SUFFIXES and file.name not in NAMES:
        return False
    try:
        most = LARGEST_NOTEBOOK if file.suffix == ".ipynb" else LARGEST
        if not file.is_file() or file.is_symlink() or not SMALLEST < file.stat().st_size < most:
            return False
        data = file.read_bytes()
    except OSError:
        return False
    return file.suffix == ".sh" or b"torch" in data or b"train" in data


def projects() -> list[Path]:
    """The fixtures that are folders of several files."""
    return sorted(it for it in (ROOT / "fixtures").glob("*/*") if it.is_dir() and ".fixed" not in it.name)


# --- damage ------------------------------------------------------------------------------------------------------


def damaged(text: str, chance: random.Random, others: Sequence[str], python: bool) -> str:
    """A text with one to four changes."""
    ways = [_cut, _double, _swap, _sign, _word, _other, _indent, _number, _nest, _end, _repeat, _rename]
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
        way = _odd if python and chance.random() < 0.25 else chance.choice(ways)
        text = way(text, chance, others)[:LARGEST_NOTEBOOK]
    return text


Way = Callable[[str, random.Random, Sequence[str]], str]


def _span(text: str, chance: random.Random, most: int) -> tuple[int, int]:
    start = chance.randint(0, len(text))
    return start, min(len(text), start + chance.randint(1, most))


def _line_span(text: str, chance: random.Random) -> tuple[list[str], int, int]:
    lines = text.splitlines(keepends=True) or [""]
    start = chance.randrange(len(lines))
    return lines, start, min(len(lines), start + chance.randint(1, 12))


def _cut(text: str, chance: random.Random, others: Sequence[str]) -> str:
    if chance.random() < 0.5:
        lines, start, end = _line_span(text, chance)
        return "".join(lines[:start] + lines[end:])
    start, end = _span(text, chance, 40)
    return text[:start] + text[end:]


def _double(text: str, chance: random.Random, others: Sequence[str]) -> str:
    lines, start, end = _line_span(text, chance)
    to = chance.randint(0, len(lines))
    return "".join(lines[:to] + lines[start:end] + lines[to:])


def _swap(text: str, chance: random.Random, others: Sequence[str]) -> str:
    words = [it.span() for it in re.finditer(r"\w+|[^\w\s]", text)]
    if len(words) < 2:
        return text
    (a, b), (c, d) = sorted(chance.sample(words, 2))
    return text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:]


def _sign(text: str, chance: random.Random, others: Sequence[str]) -> str:
    start, end = _span(text, chance, 2)
    return (
        text[:start]
        + "".join(chance.choices(SIGNS, k=chance.randint(1, 3)))
        + text[end if chance.random() < 0.5 else start :]
    )


def _word(text: str, chance: random.Random, others: Sequence[str]) -> str:
    words = [it.span() for it in re.finditer(r"\w+", text)] or [(0, 0)]
    start, end = chance.choice(words)
    return text[:start] + chance.choice(WORDS) + text[end:]


def _other(text: str, chance: random.Random, others: Sequence[str]) -> str:
    lines, start, end = _line_span(chance.choice(others), chance)
    mine = text.splitlines(keepends=True)
    to = chance.randint(0, len(mine))
    return "".join(mine[:to] + lines[start:end] + mine[to:])


def _indent(text: str, chance: random.Random, others: Sequence[str]) -> str:
    lines, start, end = _line_span(text, chance)
    by = chance.choice(("    ", "\t", " ", ""))
    return "".join(
        lines[:start] + [by + it.lstrip(" \t") if not by else by + it for it in lines[start:end]] + lines[end:]
    )


def _number(text: str, chance: random.Random, others: Sequence[str]) -> str:
    numbers = [it.span() for it in re.finditer(r"\b\d[\d_.e]*\b", text)] or [(0, 0)]
    start, end = chance.choice(numbers)
    return (
        text[:start]
        + chance.choice(("0", "-1", "9" * 5000, "1e400", "0x" + "f" * 3000, "2**10000", "1_000_000_000_000"))
        + text[end:]
    )


def _nest(text: str, chance: random.Random, others: Sequence[str]) -> str:
    start, end = _span(text, chance, 30)
    opening, closing = chance.choice(
        ("()", "[]", "{}", ("(lambda: ", ")"), ("-", ""), ("not ", ""), ("f(", ")"), ("a.", ""), ("${", "}"))
    )
    times = chance.choice((1, 3, 50, 400, 5000))
    return text[:start] + opening * times + text[start:end] + closing * times + text[end:]


def _end(text: str, chance: random.Random, others: Sequence[str]) -> str:
    place = chance.randint(0, len(text))
    return (
        text[:place]
        if chance.random() < 0.7
        else text.replace("\n", chance.choice(("\r\n", "\r", "\n\n", "\x0c\n", "\\\n")))
    )


def _repeat(text: str, chance: random.Random, others: Sequence[str]) -> str:
    lines, start, end = _line_span(text, chance)
    return "".join(lines[:start] + lines[start:end] * chance.choice((2, 20, 200)) + lines[end:])


def _rename(text: str, chance: random.Random, others: Sequence[str]) -> str:
    words = re.findall(r"\b[A-Za-z_]\w+\b", text) or ["x"]
    return re.sub(rf"\b{chance.choice(words)}\b", chance.choice(words), text)


def _odd(text: str, chance: random.Random, others: Sequence[str]) -> str:
    lines, start, _ = _line_span(text, chance)
    margin = re.match(r"[ \t]*", lines[start])
    assert margin is not None
    new = [f"{margin[0]}{line}\n" for line in chance.choice(ODD).split("|")]
    return "".join(lines[:start] + new + lines[start:])


def damaged_notebook(text: str, chance: random.Random, others: Sequence[str]) -> str:
    """Damage in a cell, or in the JSON around the cells."""
    if chance.random() < 0.3:
        return damaged(text, chance, others, python=False)
    try:
        whole = json.loads(text)
        cell = chance.choice([it for it in whole["cells"] if it["cell_type"] == "code"])
        source = "".join(cell["source"])
    except (ValueError, KeyError, TypeError, IndexError):
        return damaged(text, chance, others, python=False)
    cell["source"] = damaged(source, chance, others, python=True).splitlines(keepends=True)
    return json.dumps(whole, indent=chance.choice((1, 1, 1, None)))


def encoded(text: str, chance: random.Random) -> bytes:
    """A text as bytes, now and then in another encoding than it says, or with bytes that are none."""
    data = text.encode("utf-8", "surrogatepass" if chance.random() < 0.5 else "replace")
    which = chance.random()
    if which < 0.02:
        return text.encode("utf-16", "replace")
    if which < 0.04:
        return b"\xef\xbb\xbf" + data
    if which < 0.06:
        return (
            b"# -*- coding: " + chance.choice((b"latin-1", b"utf-7", b"rot13", b"idna", b"nosuch")) + b" -*-\n" + data
        )
    if which < 0.09:
        place = chance.randint(0, len(data))
        return data[:place] + chance.randbytes(3) + data[place:]
    return data


# --- what is done with a mutant ----------------------------------------------------------------------------------


class Broken(Exception):  # noqa: N818
    """Something that must hold does not."""


@dataclass(slots=True)
class Told:
    """What became of a mutant."""

    surface: str
    source: str
    seconds: float = 0.0  # CPU time of a check
    whole: float = 0.0  # and of all that was done
    kind: str = ""
    findings: int = 0
    fixed: int = 0
    problems: int = 0
    fault: str = ""
    peak: int = 0  # bytes that the process held at most


class Feeder:
    """Makes the mutant of a number, and feeds t4lint with it."""

    def __init__(self, seed: int, files: Sequence[Path], journal: Sequence[str]) -> None:
        self.seed = seed
        self.files = files
        self.journal = journal
        self.projects = projects()
        self.programs = sorted((ROOT / "fixtures").glob("*/bad_*.py"))

    def feed(self, number: int, folder: Path) -> Told:
        chance = random.Random(f"{self.seed} {number}")
        surface = chance.choices(list(SHARES), weights=list(SHARES.values()))[0]
        told = Told(surface, "")
        feed = getattr(self, f"_{surface}")
        began = time.process_time()
        try:
            feed(chance, folder, told)
        except Exception:
            told.fault = traceback.format_exc()
        told.whole = time.process_time() - began
        told.seconds = told.seconds or told.whole
        return told

    def _text(self, file: Path) -> str:
        return file.read_bytes().decode("utf-8", "replace")

    def _mutant(self, file: Path, chance: random.Random) -> bytes:
        others = [self._text(chance.choice(self.files)) for _ in range(2)]
        text = self._text(file)
        if file.suffix == ".ipynb":
            return encoded(damaged_notebook(text, chance, others), chance)
        if file.suffix == ".py" and chance.random() < 0.4:  # with faults in it, so that there is something to find
            text += "\n" + self._text(chance.choice(self.programs))
        return encoded(damaged(text, chance, others, file.suffix == ".py"), chance)

    def _file(self, chance: random.Random, folder: Path, told: Told) -> None:
        file = chance.choice(self.files)
        told.source, told.kind = "/".join(file.parts[-4:]), file.suffix or file.name
        (folder / file.name).write_bytes(self._mutant(file, chance))
        _lint(folder, [folder / file.name], chance, told)

    def _project(self, chance: random.Random, folder: Path, told: Told) -> None:
        project = chance.choice(self.projects)
        shutil.copytree(project, folder, dirs_exist_ok=True)
        (folder / "pyproject.toml").touch()
        file = chance.choice(sorted(it for it in folder.rglob("*") if it.is_file() and it.name != "expect.json"))
        told.source = f"{project.parent.name}/{project.name}/{file.relative_to(folder).as_posix()}"
        told.kind = file.suffix or file.name
        file.write_bytes(self._mutant(file, chance))
        _lint(folder, [folder], chance, told)

    def _settings(self, chance: random.Random, folder: Path, told: Told) -> None:
        from t4lint.asked import Asked, Flags
        from t4lint.engine import check
        from t4lint.ruleset import BadOption, BadRules, UnknownRule
        from t4lint.settings import Nearest

        told.source = told.kind = "t4lint.toml"
        (folder / "t4lint.toml").write_bytes(encoded(damaged(SETTINGS, chance, [SETTINGS], python=False), chance))
        (folder / "sub").mkdir()
        shutil.copy(chance.choice(self.programs), folder / "sub" / "train.py")
        nearest = Nearest()
        asked = Asked(Flags(), nearest.loaded(folder), nearest, folder)
        if asked.base.problems:
            told.problems = len(asked.base.problems)
            return
        try:
            report = asked.with_problems(check([folder], asked.options()))
        except (UnknownRule, BadOption, BadRules):
            told.problems = len(asked.rule_problems())
            if not told.problems:
                raise Broken("the settings name no place of what is wrong with them") from None
            return
        told.findings, told.problems = len(report.findings), len(report.problems)

    def _journal(self, chance: random.Random, folder: Path, told: Told) -> None:
        from t4lint.devices import find_target
        from t4lint.engine import rules
        from t4lint.record.journal import read
        from t4lint.record.launch import Outcome, Recording
        from t4lint.record.observe import trace_of
        from t4lint.verify import memory_of, notes_of, problems_of

        told.source = told.kind = "journal"
        lines = list(self.journal)
        for _ in range(chance.randint(1, 8)):
            at = chance.randrange(len(lines))
            lines[at] = _damaged_record(lines[at], chance)
        (folder / "journal").write_bytes(encoded("\n".join(lines), chance))
        journal = read(folder / "journal")
        outcome = Outcome("finished", 0, "", "", 0)
        recording = Recording(("python", "train.py"), folder, folder, journal, outcome, 1.0, "", "")
        target = find_target("t4")
        trace = trace_of(recording, target)
        memory_of(recording, target), notes_of(recording, target), problems_of(recording)
        told.problems = journal.corrupt
        for rule in rules():
            if rule.verifiable:
                told.findings += sum(it.when.holds is True for it in rule.judge(trace))

    def _editor(self, chance: random.Random, folder: Path, told: Told) -> None:
        from lsprotocol import types
        from pygls.workspace import PositionCodec

        from t4lint.lsp import actions, hover
        from t4lint.lsp.buffers import Buffer
        from t4lint.lsp.diagnostics import Documents, problem_diagnostics, shown
        from t4lint.lsp.results import Wishes, results_of

        file = chance.choice(self.files)
        told.source, told.kind = "/".join(file.parts[-4:]), file.suffix or file.name
        if file.suffix == ".ipynb":
            file = self.programs[0]
        path = folder / file.name
        text = self._mutant(file, chance).decode("utf-8", "replace")
        buffers = {path: Buffer(path.as_uri(), path, text)}
        results = results_of(path, folder, {path: text}, Wishes(inlay_hints=True), fixes=True)
        codec = PositionCodec(chance.choice(list(types.PositionEncodingKind)))
        documents = Documents(results, buffers, codec)
        found = shown(results, documents)
        problem_diagnostics(results, documents)
        editor = actions.Editor(results, buffers, codec, shows_pages=True)
        list(actions.actions(editor, found[:3], types.CodeActionContext([])))
        start = types.Position(0, 0)
        list(
            hover.hints(
                types.Range(start, types.Position(text.count("\n") + 1, 0)), path.as_uri(), results.arguments, documents
            )
        )
        for _ in range(3):
            at = types.Position(chance.randint(0, text.count("\n") + 1), chance.randint(0, 60))
            hover.hover(at, path.as_uri(), found, results.arguments, documents)
        told.findings, told.problems = len(found), len(results.problems)


SETTINGS = """\
target = "kaggle-2xt4"
select = ["all"]
ignore = ["launch", "unused-training-flag"]
extend-select = ["loop"]
exclude = ["old/**", "*.bak"]
min-confidence = "possible"
fail-on = "note"
severity = { fp32-training = "note", data = "warning" }
versions = { torch = "2.4", transformers = "4.51.0" }
per-file-ignores = { "tests/**" = ["precision"], "*.sh" = ["all"] }
rules = { too-many-dataloader-workers = { per-cpu = 2 } }

[[overrides]]
paths = ["sub/**"]
target = "t4"
ignore = ["attention"]
"""


def _damaged_record(line: str, chance: random.Random) -> str:
    """A record with another value somewhere, or a line with damage."""
    if chance.random() < 0.3:
        return damaged(line, chance, [line], python=False)
    try:
        record = json.loads(line)
    except ValueError:
        return line
    holder: Any = record
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return line
        key = chance.choice(keys)
        if isinstance(holder[key], (dict, list)) and holder[key] and chance.random() < 0.7:
            holder = holder[key]
            continue
        holder[key] = chance.choice(
            (None, -1, 0, 1e308, 10**30, "", "x" * 10_000, [], {}, [[]], True, "\x1b[31m", float("nan"))
        )
        return json.dumps(record)


def _lint(folder: Path, paths: list[Path], chance: random.Random, told: Told) -> None:
    """Lint, render, fix, hide; raise `Broken` where what must hold does not."""
    from t4lint import __version__
    from t4lint.changes import OnlyNew, fix, write
    from t4lint.engine import Options, check, text_of
    from t4lint.report import outputs
    from t4lint.suppress import UNUSED, add_ignores

    options = Options(cwd=folder, min_confidence="possible", extend_select=("all",))
    began = time.process_time()
    report = check(paths, options)
    told.seconds = time.process_time() - began
    told.findings, told.problems = len(report.findings), len(report.problems)
    for finding in report.findings:
        _placed(finding, text_of(finding.location.path, options, {}) or "")
    for name in chance.sample(RENDERED, 3):
        outputs.render(report, outputs.Output(name), version=__version__)
    if not report.findings or chance.random() > 1 / FIXED_EVERY:
        return
    nothing = OnlyNew(None, (), None, folder, "possible")
    whole = {path: _parses(folder / path) for path in report.sources if path.endswith(".py")}
    done = fix(paths, options, nothing, unsafe=True)
    write(done, paths, options, nothing)
    told.fixed = len(done.outcome.fixed)
    for path in done.outcome.after:
        if whole.get(path) and not _parses(folder / path):
            raise Broken(f"the fixed {path} does not parse")
    again = fix(paths, options, nothing, unsafe=True)
    if again.outcome.after and told.fixed:
        raise Broken(f"fixed again: {sorted({it.rule for it in again.outcome.fixed})}")
    report = check(paths, options)
    texts = add_ignores(report, lambda path: text_of(path, options, report.sources), "why")
    shown = {display for display in texts if display in report.checked}
    left = check(paths, Options(cwd=folder, min_confidence="possible", extend_select=("all",), texts=texts))
    open_ones = [it for it in left.findings if it.location.path in shown and it.rule != UNUSED.name]
    if open_ones and not left.problems:
        raise Broken(
            f"a comment does not hide {open_ones[0].rule} in {open_ones[0].location.path}:{open_ones[0].location.line}"
        )


def _placed(finding: Any, text: str) -> None:
    """A finding stands in its file. In a notebook lines are the file's, columns those of the cell."""
    where = finding.location
    lines = re.split(r"\r\n|\r|\n", text)
    if not 1 <= where.line <= where.end_line <= len(lines):
        raise Broken(f"{finding.rule} at line {where.line} to {where.end_line} of {len(lines)}")
    if where.cell is None and not 1 <= where.column <= len(lines[where.line - 1]) + 1:
        raise Broken(f"{finding.rule} at column {where.column} of {lines[where.line - 1]!r}")


def _parses(file: Path) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError, OSError):
        return False
    return True


# --- processes ---------------------------------------------------------------------------------------------------


def _worker(pipe: Connection, feeder: Feeder, limit: float, memory: int) -> None:
    """Take numbers until there are no more. The kernel ends a process that takes far too long, or too much memory."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while (number := pipe.recv()) is not None:
        ends = int(time.process_time() + 2 * TIMES_LIMIT * limit) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (ends, resource.RLIM_INFINITY))
        with tempfile.TemporaryDirectory(prefix="fuzz") as name:
            told = feeder.feed(number, Path(name))
        told.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        pipe.send(told)


def _told(feeder: Feeder, numbers: Sequence[int], limit: float, memory: int, jobs: int) -> Iterator[tuple[int, Told]]:
    """What became of each mutant; a process that dies is a fault of the mutant that it had."""
    told: queue.Queue[tuple[int, Told] | None] = queue.Queue()

    def work(part: Sequence[int]) -> None:
        waiting = list(reversed(part))
        while waiting:
            _one_process(feeder, waiting, limit, memory, told.put)
        told.put(None)

    for job in range(jobs):
        threading.Thread(target=work, args=(numbers[job::jobs],), daemon=True).start()
    open_ones = jobs
    while open_ones:
        one = told.get()
        if one is None:
            open_ones -= 1
        else:
            yield one


def _one_process(
    feeder: Feeder, waiting: list[int], limit: float, memory: int, tell: Callable[[tuple[int, Told]], None]
) -> None:
    """Feed one process until it has had enough, or dies."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_worker, args=(there, feeder, limit, memory))
    process.start()
    there.close()
    for _ in range(min(BETWEEN_RESTARTS, len(waiting))):
        number = waiting.pop()
        here.send(number)
        try:
            tell((number, here.recv()))
        except EOFError:
            process.join()
            fault = f"the process ended: {process.exitcode} (-24: took over {2 * TIMES_LIMIT} times the limit)"
            tell((number, Told("?", "?", fault=fault)))
            return
    here.send(None)
    process.join()


@dataclass(slots=True)
class Summary:
    """What all mutants together came to."""

    limit: float
    count: int = 0
    surfaces: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    findings: int = 0
    found_in: int = 0
    fixed: int = 0
    refused: int = 0
    seconds: list[tuple[float, int, str]] = field(default_factory=list)
    whole: float = 0.0
    peak: int = 0
    faults: list[tuple[int, str, str]] = field(default_factory=list)

    def add(self, number: int, told: Told) -> None:
        self.count += 1
        self.surfaces[told.surface] += 1
        if told.surface == "file":
            self.kinds[told.kind] += 1
        self.findings += told.findings
        self.found_in += bool(told.findings)
        self.fixed += told.fixed
        self.refused += bool(told.problems)
        self.whole = max(self.whole, told.whole)
        self.seconds.append((told.seconds, number, told.source))
        self.peak = max(self.peak, told.peak)
        if not told.fault and (told.seconds > self.limit or told.whole > TIMES_LIMIT * self.limit):
            told.fault = f"took {told.seconds:.1f} CPU seconds, with fixes {told.whole:.1f}"
        if told.fault:
            self.faults.append((number, told.source, told.fault))

    def text(self, seed: int, files: int) -> str:
        ordered = sorted(self.seconds, reverse=True)
        times = [it[0] for it in ordered]
        kinds = ", ".join(f"{kind} {count}" for kind, count in self.kinds.most_common())
        surfaces = ", ".join(f"{name} {count}" for name, count in self.surfaces.most_common())
        slow = "\n".join(f"* {seconds:.2f} s: {source} (number {number})" for seconds, number, source in ordered[:5])
        faults = "\n".join(
            f"### {number}: {source}\n\n```text\n{fault.rstrip()}\n```\n" for number, source, fault in self.faults
        )
        return f"""\
# Fuzzing

<!-- Written by scripts/fuzz.py: do not edit. -->

{self.count} mutants (seed {seed}) from {files} real files and {len(projects())} projects of the fixtures.

| | |
| --- | --- |
| by surface | {surfaces} |
| real files by kind | {kinds} |
| with findings | {self.found_in} ({self.findings} findings, {self.fixed} of them fixed) |
| refused, or refused in part, with a reason | {self.refused} |
| CPU seconds of a check | median {times[len(times) // 2]:.2f}, 99th percentile {times[len(times) // 100]:.2f}, most {times[0]:.2f} |
| CPU seconds with all fixes tried, applied and tried again | most {self.whole:.2f} |
| memory of a process that took {BETWEEN_RESTARTS} mutants | at most {self.peak / 2**20:.0f} MiB |
| **faults** | **{len(self.faults)}** (exceptions, over {self.limit:g} s, broken promises) |

The slowest:

{slow}

{faults}"""


def recorded() -> list[str]:
    """The journal of a run of an example, as lines."""
    if importlib.util.find_spec("torch") is None:
        return [json.dumps({"v": 1, "k": "torch", "t": 0.0, "pid": 1})]
    from t4lint.record.launch import Limits, record

    recording = record(
        [sys.executable, "verify_me.py"], cwd=ROOT / "examples", steps=2, timeout=120, limits=Limits(2, 120, device="phantom")
    )  # fmt: skip
    return [it.model_dump_json() for it in recording.journal.records]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--mutants", type=int, default=10_000, help="how many (of real files; other surfaces come on top)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--only", type=int, help="only this number; its folder is kept")
    parser.add_argument("--corpus", type=Path, nargs="*", default=[])
    parser.add_argument("--limit", type=float, default=2.0, help="CPU seconds of a mutant")
    parser.add_argument("--memory", type=int, default=4096, help="MiB of address space of a process")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--log", type=Path, help="a Markdown file to write")
    args = parser.parse_args()
    files = corpus([folder.resolve() for folder in args.corpus])
    feeder = Feeder(args.seed, files, recorded())
    if args.only is not None:
        folder = Path(tempfile.mkdtemp(prefix="fuzz"))
        told = feeder.feed(args.only, folder)
        print(f"{folder}\n{told.source}: {told.seconds:.2f} s\n{told.fault or 'no fault'}")
        return bool(told.fault)
    total = args.mutants * sum(SHARES.values()) // SHARES["file"]
    summary = Summary(args.limit)
    for number, told in _told(
        feeder, range(args.first, args.first + total), args.limit, args.memory * 2**20, args.jobs
    ):
        summary.add(number, told)
        if told.fault:
            print(f"{number}: {told.source}: {told.fault.strip().splitlines()[-1]}", flush=True)
    text = summary.text(args.seed, len(files))
    if args.log:
        args.log.write_text(text.rstrip() + "\n", encoding="utf-8")
    print(text)
    return bool(summary.faults)


if __name__ == "__main__":
    sys.exit(main())
