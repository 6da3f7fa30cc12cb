"""How long linting takes against parsing the same files with libcst: interleaved pairs in one process.

    python benchmarks/against_parse.py [--rounds 3] [--write FILE] FOLDER [FOLDER ...]

CPU seconds (user and system) of this process. Each round parses every file once and lints the folder once, in turn; a
fresh session each time, so nothing is cached between rounds. Prints a row of a table for each folder: the medians, the
ratio of each round, and the file whose own runs take longest. With --write the table goes into a file, between the lines
`<!-- table -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median

import libcst as cst

from t4lint.engine import Options, Session, check
from t4lint.findings import Problem
from t4lint.sources.files import find, read


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


def slowest(folder: Path) -> tuple[float, str, int]:
    """The file whose own runs take longest: seconds, its path and the number of its runs."""
    session = Session(Options(cwd=folder))
    found = (0.0, "", 0)
    for script in session.order(session.collect([folder])):
        start, runs = time.process_time(), len(session.runs)
        session.check_script(script)
        spent = time.process_time() - start
        found = max(found, (spent, str(script.relative_to(folder)), len(session.runs) - runs))
    return found


HEAD = """| project | files | lines | parse_module | t4lint | ratio (lowest to highest) | slowest file |
| --- | --- | --- | --- | --- | --- | --- |"""


def row(folder: Path, rounds: int) -> str:
    texts = texts_of(folder)
    lines = sum(text.count("\n") for text in texts.values())
    pairs = [(parse_all(texts), lint(folder)) for _ in range(rounds)]
    ratios = [linted / max(parsed, 1e-9) for parsed, linted in pairs]
    parse, whole = median(p for p, _ in pairs), median(w for _, w in pairs)
    seconds, path, runs = slowest(folder)
    name = folder.name.replace("+", "/")
    ratio = f"{median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"
    return (
        f"| {name} | {len(texts)} | {lines:,} | {parse:.2f} s | {whole:.2f} s | {ratio} |"
        f" {path}: {seconds:.2f} s, {runs} {'run' if runs == 1 else 'runs'} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    rows = [HEAD]
    print(HEAD)
    for folder in args.folders:
        rows.append(row(folder.resolve(), args.rounds))
        print(rows[-1], flush=True)
    if args.write is not None:
        before, _, rest = args.write.read_text(encoding="utf-8").partition("<!-- table -->\n")
        after = rest.partition("<!-- end -->")[2]
        table = "\n".join(rows)
        args.write.write_text(f"{before}<!-- table -->\n{table}\n<!-- end -->{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
