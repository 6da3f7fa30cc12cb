"""What t4lint costs beside other tools: CPU seconds and peak memory of whole processes, in interleaved pairs, in one run.

    python -m benchmarks.compare [--corpus FOLDER] [--environments FOLDER] [--rounds 3] [--growth 1,10,50] [--write docs]

The corpus is that of `scripts/corpus.py` (fetched if it is not there); the tools are those of `benchmarks/tools.py`, each pinned in
an environment of its own. In each round t4lint and another command run in turn on the same files, so that a machine whose speed
drifts slows both; a ratio is the median over the pairs. Three inputs: one file of about 500 lines that imports nothing of its
project, a whole project, and for growth the first files of the corpus up to so many thousand lines. `cold` is without, `warm` with
the results of an earlier run. With --write a table and a plot go into a folder. Ends with the bars of the design.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.measuring import Measured, measured
from benchmarks.tools import TOOLS, command, install

ROOT = Path(__file__).resolve().parent.parent
ONE_FILE = range(450, 551)  # lines
SECONDS = 900  # of one command
ONE_FILE_COLD, ONE_FILE_WARM = 0.6, 0.08  # CPU seconds: the bars
TIMES_PARSE, TIMES_FASTER = 2.0, 10.0
WARM_FILES, WARM_TREE = 1500, 0.5
EACH = "import sys\nfor file in open(sys.argv[1]).read().split('\\n'):\n  try: parse(open(file, 'rb').read())\n  except Exception: pass"
PARSE = {
    "ast.parse": f"from ast import parse\n{EACH}",
    "libcst.parse_module": f"from libcst import parse_module as parse\n{EACH}",
}


@dataclass(slots=True)
class Pairs:
    """t4lint and another command on one input, measured in turn."""

    name: str
    own: list[Measured] = field(default_factory=list)
    other: list[Measured] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """CPU seconds of the other command for one of t4lint's."""
        return [other.cpu / own.cpu for own, other in zip(self.own, self.other, strict=True)]

    def row(self, lines: int) -> str:
        if not self.other:
            return f"| {self.name} | | | | did not end within {SECONDS} s, or failed |"
        cpu, memory = median(it.cpu for it in self.other), median(it.memory for it in self.other)
        low, high = min(self.ratios), max(self.ratios)
        return (
            f"| {self.name} | {cpu:.2f} s | {1000 * cpu / lines:.3f} s | {memory / 2**20:.0f} MiB |"
            f" {median(self.ratios):.2f} ({low:.2f} to {high:.2f}) |"
        )


@dataclass(slots=True)
class Bench:
    """One run of the benchmark: where things are, and which tools are there."""

    work: Path
    environments: Path
    rounds: int
    missing: dict[str, str] = field(default_factory=dict)

    def own(self, folder: Path, *, warm: bool = False, workers: int = 1) -> Measured | None:
        """t4lint on a folder, with one process; `warm`: its results may be there."""
        cache = self.work / "cache"
        if not warm:
            shutil.rmtree(cache, ignore_errors=True)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "T4LINT_CACHE_DIR": str(cache)}
        environment.pop("T4LINT_NO_CACHE", None)
        words = [sys.executable, "-m", "t4lint", ".", "--exit-zero", "--workers", str(workers)]
        return measured(words, cwd=folder, environment=environment, seconds=SECONDS).measured

    def parse(self, how: str, files: Sequence[Path], folder: Path) -> Measured | None:
        listed = self.work / "files"
        listed.write_text("\n".join(map(str, files)), encoding="utf-8")
        return measured([sys.executable, "-c", PARSE[how], str(listed)], cwd=folder, seconds=SECONDS).measured

    def tool(self, name: str, folder: Path) -> Measured | None:
        tool = next(tool for tool in TOOLS if tool.name == name)
        done = measured([*command(self.environments, tool), "."], cwd=folder, seconds=SECONDS)
        if done.code not in (0, 1, 2, *range(3, 32)):  # linters exit with findings in many ways, never with a signal
            self.missing.setdefault(name, done.errors.strip()[-200:])
            return None
        return done.measured

    def pairs(self, folder: Path, files: Sequence[Path]) -> Iterator[Pairs]:
        """Each other command in turn with t4lint, cold."""
        for name in [*PARSE, *(tool.name for tool in TOOLS if tool.name not in self.missing)]:
            found = Pairs(name)
            for _ in range(self.rounds):
                own = self.own(folder)
                other = self.parse(name, files, folder) if name in PARSE else self.tool(name, folder)
                if own is None or other is None:
                    break
                found.own.append(own)
                found.other.append(other)
            yield found


def python_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def count(files: Sequence[Path]) -> int:
    return sum(file.read_bytes().count(b"\n") for file in files)


def one_file(corpus: Path, work: Path) -> Path:
    """A training file of about 500 lines that imports nothing of its project, in a folder of its own."""
    import ast

    for file in python_files(corpus):
        text = file.read_text(encoding="utf-8", errors="replace")
        if text.count("\n") not in ONE_FILE or "torch" not in text or ".backward(" not in text:
            continue
        nodes = list(ast.walk(ast.parse(text)))
        own = {path.stem for path in (corpus / file.relative_to(corpus).parts[0]).rglob("*")}
        names = {alias.name.partition(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        froms = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        if any(node.level for node in froms) or (names | {str(it.module).partition(".")[0] for it in froms}) & own:
            continue
        (work / "one").mkdir()
        shutil.copy(file, work / "one" / "train.py")
        return work / "one"
    raise SystemExit("the corpus has no such file")


def first_lines(corpus: Path, lines: int, place: Path) -> Path:
    """The first projects of the corpus, up to so many lines, as one tree; the last one only in part."""
    taken = 0
    for project in sorted(corpus.iterdir()):
        if not project.is_dir() or project.name == "wheels":
            continue
        (place / project.name).mkdir(parents=True)
        shutil.copy(project / "pyproject.toml", place / project.name)
        for file in python_files(project):
            if taken >= lines:
                return place
            copied = place / file.relative_to(corpus)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copied)
            taken += count([file])
    return place


HEAD = (
    "| command | CPU | CPU for 1,000 lines | peak memory | CPU for one of t4lint's |\n| --- | --- | --- | --- | --- |"
)


def table(title: str, folder: Path, bench: Bench) -> tuple[list[str], dict[str, Pairs]]:
    """One input: t4lint cold and warm, then every other command."""
    files = python_files(folder)
    lines = count(files)
    text = [f"### {title}: {len(files)} files, {lines:,} lines", "", HEAD]
    found = {it.name: it for it in bench.pairs(folder, files)}
    colds = [own for it in found.values() for own in it.own]
    bench.own(folder)
    warms = [it for _ in range(bench.rounds) if (it := bench.own(folder, warm=True)) is not None]
    for name, some in (("t4lint, cold", colds), ("t4lint, warm", warms)):
        found[name] = Pairs(name, colds[: len(some)], some)
        cpu, memory = median(it.cpu for it in some), median(it.memory for it in some)
        text.append(f"| {name} | {cpu:.2f} s | {1000 * cpu / lines:.3f} s | {memory / 2**20:.0f} MiB | |")
    text += [found[name].row(lines) for name in found if not name.startswith("t4lint")]
    print("\n".join([*text, ""]), flush=True)
    return [*text, ""], found


def growth(corpus: Path, steps: Sequence[int], bench: Bench) -> list[tuple[int, Measured, Measured, Measured]]:
    """How the cost grows: lines, then t4lint cold, warm and `libcst.parse_module`."""
    found = []
    for step in steps:
        folder = first_lines(corpus, step * 1000, bench.work / f"growth-{step}")
        files = python_files(folder)
        cold, warm, parse = (
            bench.own(folder),
            bench.own(folder, warm=True),
            bench.parse("libcst.parse_module", files, folder),
        )
        shutil.rmtree(folder)
        if cold is None or warm is None or parse is None:
            print(f"{step},000 lines: did not end within {SECONDS} s", flush=True)
            break
        found.append((count_of := step * 1000, cold, warm, parse))
        print(
            f"{count_of:,} lines: cold {cold.cpu:.1f} s, warm {warm.cpu:.2f} s, parse_module {parse.cpu:.1f} s",
            flush=True,
        )
    return found


def growth_table(found: Sequence[tuple[int, Measured, Measured, Measured]]) -> list[str]:
    rows = [
        "| lines | t4lint, cold | t4lint, warm | parse_module | peak memory, cold |",
        "| --- | --- | --- | --- | --- |",
    ]
    rows += [
        f"| {lines:,} | {cold.cpu:.1f} s | {warm.cpu:.2f} s | {parse.cpu:.1f} s | {cold.memory / 2**20:.0f} MiB |"
        for lines, cold, warm, parse in found
    ]
    return rows


def plot(found: Sequence[tuple[int, Measured, Measured, Measured]], file: Path) -> bool:
    """Cost against size, as a picture; False where matplotlib is not there."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "t4lint"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2))
    thousands = [lines / 1000 for lines, *_ in found]
    for index, (name, style) in enumerate(
        (("t4lint, cold", "o-"), ("t4lint, unchanged", "s-"), ("libcst.parse_module", "^--"))
    ):
        axes.plot(thousands, [row[index + 1].cpu for row in found], style, label=name)
    axes.set(xscale="log", yscale="log", xlabel="thousand lines", ylabel="CPU seconds, whole process")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    return True


def bars(
    one: dict[str, Pairs], tree: dict[str, Pairs], lines: int, warm_tree: Measured | None, files: int
) -> list[str]:
    """The bars of the design, each with pass or fall short."""
    rows = ["| bar | measured | |", "| --- | --- | --- |"]

    def bar(name: str, value: float | None, good: bool, unit: str) -> None:
        said = "not measured" if value is None else "pass" if good else "falls short"
        rows.append(f"| {name} | {'' if value is None else f'{value:.2f}{unit}'} | {said} |")

    cold = median(it.cpu for it in one["t4lint, cold"].other)
    warm = median(it.cpu for it in one["t4lint, warm"].other)
    bar(f"one file of 500 lines, cold: at most {ONE_FILE_COLD} CPU s", cold, cold <= ONE_FILE_COLD, " s")
    bar(f"the same file unchanged: at most {ONE_FILE_WARM} CPU s", warm, warm <= ONE_FILE_WARM, " s")
    times = median(1 / ratio for ratio in tree["libcst.parse_module"].ratios)
    bar(f"a project, cold: at most {TIMES_PARSE:.0f} x libcst.parse_module", times, times <= TIMES_PARSE, " x")
    for tool in TOOLS:
        if tool.libcst:
            found = tree.get(tool.name)
            ratio = median(found.ratios) if found is not None and found.other else None
            good = ratio is not None and ratio >= TIMES_FASTER
            bar(f"at least {TIMES_FASTER:.0f} x faster than {tool.name}", ratio, good, " x")
    seconds = warm_tree.cpu if warm_tree is not None else None
    bar(
        f"{files:,} files unchanged: at most {WARM_TREE} s", seconds, seconds is not None and seconds <= WARM_TREE, " s"
    )
    return rows


def many_files(corpus: Path, place: Path) -> Path:
    """A tree of as many files as the bar for unchanged ones asks for."""
    taken = 0
    for project in sorted(corpus.iterdir()):
        for file in python_files(project) if project.name != "wheels" and project.is_dir() else []:
            if taken >= WARM_FILES:
                return place
            copied = place / file.relative_to(corpus)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copied)
            taken += 1
    return place


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=(__doc__ or "").split("\n", 1)[0])
    cache = Path(tempfile.gettempdir())
    parser.add_argument("--corpus", type=Path, default=cache / "t4lint-corpus")
    parser.add_argument("--environments", type=Path, default=cache / "t4lint-tools")
    parser.add_argument("--project", default="setfit-1.2.0", help="the project of the corpus that is the whole tree")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--growth", default="1,5,20,50,100,200,500", help="thousands of lines")
    parser.add_argument("--no-many", action="store_true", help="leave out the 1,500 unchanged files")
    parser.add_argument("--write", type=Path)
    args = parser.parse_args(arguments)
    corpus = args.corpus.resolve()
    if not (corpus / args.project).is_dir():
        fetched = subprocess.run([sys.executable, str(ROOT / "scripts" / "corpus.py"), str(corpus)], check=False)
        if fetched.returncode != 0:
            return fetched.returncode
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), args.environments.resolve(), args.rounds)
        for tool in TOOLS:
            if failed := install(bench.environments, tool):
                bench.missing[tool.name] = failed
                print(f"{tool.packages[0]} does not install here: {failed}", flush=True)
        first, one = table("One file", one_file(corpus, bench.work), bench)
        project = bench.work / "project"
        shutil.copytree(corpus / args.project, project)
        second, tree = table("A project", project, bench)
        warm: Measured | None = None
        if not args.no_many:
            many = many_files(corpus, bench.work / "many")
            if bench.own(many) is not None:
                warm = bench.own(many, warm=True)
        grown = growth(corpus, [int(it) for it in args.growth.split(",") if it], bench)
        verdict = bars(one, tree, count(python_files(project)), warm, WARM_FILES)
        print("\n".join(verdict))
        if args.write is not None:
            write(args.write, [*first, *second], grown, verdict, bench, args.project)
    return 0


def write(
    folder: Path,
    tables: list[str],
    grown: list[tuple[int, Measured, Measured, Measured]],
    verdict: list[str],
    bench: Bench,
    project: str,
) -> None:
    text = [
        "# What it costs, beside other tools", "",
        "Written by `python -m benchmarks.compare --write docs`: CPU seconds and peak memory of whole processes; each command in turn",
        f"with t4lint on the same files, {bench.rounds} rounds, medians; the last column is the median, the lowest and the highest ratio",
        f"over the pairs. t4lint with one process. The project is {project} of the corpus of `scripts/corpus.py`; the tools are pinned",
        "in `benchmarks/tools.py` and run with their default rules (TorchFix with all of its own, semgrep with one rule).", "",
        "## The bars", "", *verdict, "", "## The tables", "", *tables, "## How it grows", "", *growth_table(grown), "",
    ]  # fmt: skip
    if grown and plot(grown, folder / "cost.svg"):
        text += ["![CPU seconds against lines](cost.svg)", ""]
    text += [f"* {name} is not in the tables: {why}" for name, why in bench.missing.items()]
    (folder / "cost.md").write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
