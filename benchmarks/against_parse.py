"""How long linting takes against parsing the same files with libcst: interleaved pairs in one process.

    python benchmarks/against_parse.py FOLDER [FOLDER ...]

CPU seconds (user and system) of this process. Each round parses every file once and lints the folder once, in turn; a
fresh session each time, so nothing is cached between rounds. Prints the ratio of each round and the slowest files.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median

import libcst as cst

from t4lint.engine import Options, Session, check
from t4lint.findings import Problem
from t4lint.sources.files import find, read

ROUNDS = 3


def texts_of(folder: Path) -> dict[Path, str]:
    found = {}
    for file in find([folder], problems=[]):
        document = read(file, str(file))
        if not isinstance(document, Problem) and document.kind == "python":
            found[file] = document.text
    return found


def parse_all(texts: dict[Path, str]) -> float:
    start = time.process_time()
    for text in texts.values():
        try:
            cst.parse_module(text)
        except Exception:
            continue
    return time.process_time() - start


def lint(folder: Path) -> float:
    start = time.process_time()
    check([folder], Options(cwd=folder))
    return time.process_time() - start


def slowest(folder: Path, count: int = 5) -> list[tuple[float, str]]:
    """The files whose own runs take longest."""
    session = Session(Options(cwd=folder))
    times = []
    for script in session.order(session.collect([folder])):
        start = time.process_time()
        session.check_script(script)
        times.append((time.process_time() - start, str(script.relative_to(folder))))
    return sorted(times, reverse=True)[:count]


def main(folders: list[str]) -> int:
    for name in folders:
        folder = Path(name).resolve()
        texts = texts_of(folder)
        lines = sum(text.count("\n") for text in texts.values())
        pairs = [(parse_all(texts), lint(folder)) for _ in range(ROUNDS)]
        ratios = [linted / max(parsed, 1e-9) for parsed, linted in pairs]
        parse, whole = median(p for p, _ in pairs), median(w for _, w in pairs)
        print(f"{folder.name}: {len(texts)} files, {lines} lines")
        print(
            f"  parse_module {parse:.2f} s, t4lint {whole:.2f} s, ratio {median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        )
        for seconds, path in slowest(folder):
            print(f"  {seconds:6.2f} s  {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
