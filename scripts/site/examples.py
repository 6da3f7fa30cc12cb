"""Examples of the documentation, executed: programs, and what t4lint really prints for them."""

from __future__ import annotations

import difflib
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len

from t4lint.engine import Options, check, rules
from t4lint.language import ENGLISH, translated
from t4lint.report.text import render
from t4lint.report.wrap import wrapped

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
EXPECTATIONS = "expect.json"  # beside programs that take no comments: not a part of the program
WIDTH = 92  # cells of a line in a code block of the site, at the width of a laptop
SHOWN_LINES = 120  # of a program; longer ones say less than they cost to read
LANGUAGES = {
    ".py": "python", ".sh": "bash", ".ipynb": "json", ".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml",
    ".md": "markdown", ".txt": "text", ".cfg": "ini", ".ini": "ini",
}  # fmt: skip
_MARK = re.compile(
    r"[ \t]*(?:#|//)[ \t]*(?:expect|runs|target|extend-select):[^\n\"]*?(?=(?:\\n)?\"?,?$)", re.MULTILINE
)
OFF = frozenset(rule.name for rule in rules() if not rule.default)
_EXTENDED = re.compile(r"^#\s*extend-select:\s*(\S+)$", re.MULTILINE)
_TARGET = re.compile(r"#\s*target:\s*(\S+)")


@dataclass(frozen=True)
class Example:
    """A program of one or more files, by name, and what t4lint prints for it. `fixed` is the diff of its fix, or empty."""

    files: dict[str, str]
    output: str
    rules: frozenset[str]
    fixed: str = ""


def programs(rule: str, kind: str) -> list[Path]:
    """The fixtures of a rule that are `bad` or `good`, the easiest to read first: single files, Python, short ones."""
    found = [it for it in (FIXTURES / rule).glob(f"{kind}_*") if ".fixed" not in it.name]
    return sorted(found, key=lambda it: (it.is_dir(), it.suffix != ".py", _size(it), it.name))


def _size(program: Path) -> int:
    return sum(file.stat().st_size for file in _files(program))


def _files(program: Path) -> list[Path]:
    files = [program] if program.is_file() else sorted(it for it in program.rglob("*") if it.is_file())
    return [it for it in files if it.name != EXPECTATIONS]


def of_fixture(program: Path, rule: str, language: str = ENGLISH) -> Example:
    """A fixture without its marks, checked as its test does."""
    base = program.parent if program.is_file() else program
    texts = {it.relative_to(base).as_posix(): it.read_text(encoding="utf-8") for it in _files(program)}
    target = next((found[1] for text in texts.values() if (found := _TARGET.search(text))), "t4")
    plain = {name: without_marks(text) for name, text in texts.items()}
    named = {found for text in texts.values() for found in _EXTENDED.findall(text)} | ({rule} & OFF)
    output, found = printed(plain, language=language, target=target, extend=tuple(sorted(named)))
    return Example(plain, output, found, _fix(program, plain))


def without_marks(text: str) -> str:
    """A program without the comments that tests read."""
    lines = [_MARK.sub("", line) for line in text.splitlines()]
    kept = [new for old, new in zip(text.splitlines(), lines, strict=True) if new.strip() or not old.strip()]
    return "\n".join(kept).strip("\n") + "\n"


def _fix(program: Path, plain: dict[str, str]) -> str:
    """The diff between a program of one file and its fixed form, which a test holds to be what `--fix` makes of it."""
    fixed = program.with_name(f"{program.stem}.fixed{program.suffix}")
    if program.is_dir() or not fixed.is_file() or program.suffix == ".ipynb":
        return ""
    (name, before), after = next(iter(plain.items())), without_marks(fixed.read_text(encoding="utf-8"))
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm="", n=2)
    return "\n".join(lines)


def printed(
    files: dict[str, str], what: str = ".", *, language: str = ENGLISH, target: str = "t4", extend: tuple[str, ...] = ()
) -> tuple[str, frozenset[str]]:
    """What `t4lint WHAT` prints in a folder with these files, and the rules that it names."""
    folder = Path(tempfile.mkdtemp(prefix="t4lint-docs-"))
    try:
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        report = check(
            [folder / what], Options(target=target, cwd=folder, min_confidence="likely", extend_select=extend)
        )
        shown = translated(report, language)
        output = render(shown, colour=False, width=WIDTH, wrap=True)
        lines = [part for line in output.splitlines() for part in _as_a_terminal(line)]
        return "\n".join(lines), frozenset(it.rule for it in report.findings)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _as_a_terminal(line: str) -> list[str]:
    """The first line of a finding is as long as its message: a terminal breaks it."""
    return wrapped(line, WIDTH) if cell_len(line) > WIDTH and "|" not in line[:6] else [line]


def block(name: str, text: str) -> str:
    """A program as a code block with its name above it."""
    lines = text.rstrip("\n").split("\n")
    if len(lines) > SHOWN_LINES:
        lines = [*lines[:SHOWN_LINES], "..."]
    path = Path(name)
    language = LANGUAGES.get(path.suffix, "makefile" if path.name == "Makefile" else "")
    language = "dockerfile" if path.name.startswith("Dockerfile") else language or "text"
    fence = "````" if "```" in text else "```"
    return f'{fence}{language} title="{name}"\n' + "\n".join(lines) + f"\n{fence}\n"
