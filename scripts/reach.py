"""How many public training scripts reach two optimizer steps on the phantom, and what stops the others.

    python scripts/reach.py WORK [--mirror FOLDER] [--only WORD] [--jobs 2] [--write docs/reach.md]

Fetches the repositories of scripts/reach.txt at their commits into WORK (from GitHub, or from bare clones below --mirror, as
FOLDER/OWNER+NAME/repo), writes made-up files where a script needs some of its own, and runs each command unmodified, offline,
with `--device phantom --synthetic`, for two optimizer steps. Results are kept in WORK/results.json: a second call with --only
runs only what it names again. Scripts whose data, weights or packages cannot be had here are counted apart.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from packaging.requirements import Requirement

HERE = Path(__file__).resolve().parent
STEPS = 2
APART = ("data", "package")  # kinds of ends that say nothing of the phantom
WORDS = {
    "reached": "reached two optimizer steps",
    "data": "its data or weights cannot be had here",
    "package": "a package that it needs cannot be had here",
    "program": "the program itself fails here, as it does without t4lint",
    "stopped": "the phantom or a stand-in stopped it",
}


@dataclass(frozen=True)
class Script:
    """One line of the list."""

    repository: str
    commit: str
    folder: str
    data: str
    command: str

    @property
    def name(self) -> str:
        return f"{self.repository}/{'' if self.folder == '.' else self.folder + '/'}: {self.command}"


@dataclass(frozen=True)
class Result:
    """How a run ended. `cpu` and `wall` in seconds, `memory` in bytes of the largest process, `peak` in bytes on the phantom."""

    script: str
    kind: str
    why: str
    cpu: float
    wall: float
    memory: int
    peak: int
    stand_ins: tuple[str, ...] = ()


def scripts(text: str) -> Iterator[Script]:
    """The lines of the list."""
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            where, folder, data, command = (part.strip() for part in line.split("|", 3))
            repository, _, commit = where.partition("@")
            yield Script(repository, commit, folder, data, command)


def fetched(script: Script, work: Path, mirror: Path | None) -> Path:
    """The repository at its commit, as plain files."""
    folder = work / script.repository.replace("/", "+")
    if (folder / ".git").exists():
        return folder
    folder.mkdir(parents=True)
    source = mirror / folder.name / "repo" if mirror is not None else None
    if source is None or not source.exists():
        source = work / f"{folder.name}.git"
        subprocess.run(["git", "init", "-q", "--bare", str(source)], check=True)
        url = f"https://github.com/{script.repository}"
        subprocess.run(["git", "-C", str(source), "fetch", "-q", "--filter=blob:limit=20m", url], check=True)
    _unpack(source, script.commit, folder)
    (folder / ".git").mkdir()  # the root of a project
    return folder


def _unpack(source: Path, commit: str, folder: Path) -> None:
    """The files of a commit; those that a partial clone lacks, which are large, are left out."""
    listed = subprocess.run(
        ["git", "-C", str(source), "ls-tree", "-r", "-z", commit], capture_output=True, check=True
    ).stdout
    entries = [entry.split(b"\t", 1) for entry in listed.split(b"\0") if entry]
    blobs = [(meta.split()[2], name.decode()) for meta, name in entries if meta.split()[1] == b"blob"]
    asked = subprocess.Popen(
        ["git", "-C", str(source), "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert asked.stdin is not None and asked.stdout is not None
    for number, name in blobs:
        asked.stdin.write(number + b"\n")
        asked.stdin.flush()
        head = asked.stdout.readline().split()
        if head[1] == b"missing":
            continue
        data = asked.stdout.read(int(head[2]))
        asked.stdout.read(1)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    asked.stdin.close()
    asked.wait()


def run_one(script: Script, folder: Path, timeout: float) -> Result:
    """Run it in this process's child, and judge how it ended. Imports t4lint, and is called in a process of its own."""
    from t4lint.devices import find_target
    from t4lint.record.launch import Limits, record
    from t4lint.verify import memory_of

    cwd = folder / script.folder
    for item in script.data.split():
        kind, _, place = item.partition(":")
        if kind == "needs":
            if lacks(place):
                return Result(script.name, "package", f"it needs {place}", 0, 0, 0, 0)
            continue
        if not (cwd / place).exists() or kind != "mnist":
            subprocess.run([sys.executable, str(HERE / "synthetic_data.py"), kind, str(cwd / place)], check=True)
    words = shlex.split(script.command)
    command = [sys.executable, *words[1:]] if words[0] == "python" else words
    target = find_target("t4")
    start = time.monotonic()
    recording = record(
        command, cwd=cwd, steps=STEPS, timeout=timeout, gpu=target.gpu, limits=Limits(device="phantom", synthetic=True)
    )
    wall = time.monotonic() - start
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    records = recording.journal.records
    memory = memory_of(recording, target) or {}
    peak = memory.get("peak_allocated", 0)
    kind, why = judged(recording.outcome.how, recording.outcome.detail, recording.stderr, records)
    stand_ins = {f"{it.d.get('what')} {it.d.get('name')}" for it in records if it.k == "stand_in"}
    print(recording.stderr[-3000:], file=sys.stderr)
    return Result(
        script.name, kind, why, round(used.ru_utime + used.ru_stime, 1), round(wall, 1), used.ru_maxrss * 1024,
        peak if isinstance(peak, int) else 0, tuple(sorted(stand_ins)),
    )  # fmt: skip


def lacks(requirement: str) -> bool:
    """Is what a repository asks for not installed, or in another version?"""
    wanted = Requirement(requirement)
    try:
        return not wanted.specifier.contains(importlib.metadata.version(wanted.name))
    except importlib.metadata.PackageNotFoundError:
        return True


PACKAGE = re.compile(
    r"ModuleNotFoundError|No module named|requires the .* library|pip install|is not installed|cannot import name"
)
VERSION = re.compile(r"^\s*assert .*__version__", re.MULTILINE)  # the program wants another version than there is
DATA = re.compile(
    r"FileNotFoundError|No such file|(?:path|file|folder|directory)\b.* does not exist|Dataset not found|couldn't connect"
    r"|Connection|urlopen error|name resolution",
    re.IGNORECASE,
)


def judged(how: str, detail: str, stderr: str, records: object) -> tuple[str, str]:
    """The kind of end, and why."""
    assert isinstance(records, tuple)
    steps = max((it.st for it in records), default=0)
    stepped = sum(it.k == "step" for it in records)
    on_phantom = any(it.k == "card" and it.d.get("phantom") for it in records)
    if on_phantom and (how == "stopped" or (how == "finished" and max(steps, stepped) >= STEPS)):
        return "reached", ""
    last = next(
        (line.strip() for line in reversed(stderr.splitlines()) if re.match(r"\s*[\w.]*(Error|Exception)\b", line)), ""
    )
    why = f"{how}: {detail or last}"[:300]
    lacking = [it.d for it in records if it.k == "lacking"]
    if lacking:
        return "data", f"{lacking[-1].get('what')} {lacking[-1].get('name')}"
    said = f"{detail}\n{last}"
    if PACKAGE.search(said) or ("AssertionError" in said and VERSION.search(stderr)):
        return "package", why
    return ("data" if DATA.search(said) and how != "timeout" else "stopped"), why


# --- all of them -------------------------------------------------------------------------------------------------


def run(script: Script, args: argparse.Namespace) -> Result:
    """In a process of its own, so that what it used can be told."""
    folder = fetched(script, args.work, args.mirror)
    called = [
        sys.executable,
        __file__,
        str(args.work),
        "--one",
        json.dumps(asdict(script)),
        "--timeout",
        str(args.timeout),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": _path()}
    log = args.work / "logs" / f"{re.sub(r'[^A-Za-z0-9]+', '-', script.name)[:120]}.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("w", encoding="utf-8") as file:
        done = subprocess.run(
            called, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=file, text=True, check=False
        )
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return Result(script.name, "stopped", f"t4lint ended with {done.returncode}, see {log.name}", 0, 0, 0, 0)
    found = json.loads(lines[-1])
    return Result(**{**found, "stand_ins": tuple(found["stand_ins"])})


def _path() -> str:
    return os.pathsep.join(part for part in (str(HERE.parent), os.environ.get("PYTHONPATH", "")) if part)


def line(result: Result) -> str:
    """A result for the screen."""
    figures = f"{result.wall:6.1f} s wall {result.cpu:6.1f} s cpu {result.memory / 2**30:5.2f} GiB"
    return f"{result.kind:8} {figures}  {result.script[:110]}  {result.why}"


def table(results: list[Result], listed: int) -> str:
    """The page's table and its summary; `listed`: how many scripts the list has."""
    reached = [it for it in results if it.kind == "reached"]
    apart = [it for it in results if it.kind in APART]
    counted = len(results) - len(apart)
    share = f"{len(reached) / counted:.0%}" if counted else "none"
    quick = sum(it.cpu <= 60 for it in reached)
    small = sum(it.memory <= 2**30 for it in reached)
    rows = [
        f"{len(reached)} of {counted} scripts reach two optimizer steps ({share}); {len(apart)} more are counted apart, since their data, "
        f"weights or packages cannot be had offline. Of those that reach them {quick} take at most 60 s of CPU time and {small} at most "
        f"1 GiB in their largest process. {len(results)} of the {listed} scripts of the list have been run.",
        "",
        "| script | end | CPU s | GiB here | GiB on the phantom | what stood in, or what stopped it |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for it in results:
        said = it.why if it.kind != "reached" else ", ".join(it.stand_ins)
        cells = (
            f"`{it.script}`", it.kind, f"{it.cpu:.0f}", f"{it.memory / 2**30:.2f}", f"{it.peak / 2**30:.2f}" if it.peak else "",
            said[:160],
        )  # fmt: skip
        rows.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(rows)


def write(page: Path, results: list[Result], listed: int) -> None:
    """Between the page's two marks."""
    text = page.read_text(encoding="utf-8")
    before, rest = text.split("<!-- reach -->\n", 1)
    after = rest.split("<!-- end of reach -->", 1)[1]
    page.write_text(
        f"{before}<!-- reach -->\n\n{table(results, listed)}\n\n<!-- end of reach -->{after}", encoding="utf-8"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--mirror", type=Path)
    parser.add_argument("--list", type=Path, default=HERE / "reach.txt")
    parser.add_argument("--only", default="", help="a regular expression: run these again, and keep the other results")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for each script")
    parser.add_argument("--write", type=Path, help="put the table into this page")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.work = args.work.resolve()
    if args.one:
        script = Script(**json.loads(args.one))
        print(json.dumps(asdict(run_one(script, args.work / script.repository.replace("/", "+"), args.timeout))))
        return 0
    listed = list(scripts(args.list.read_text(encoding="utf-8")))
    args.work.mkdir(parents=True, exist_ok=True)
    kept_in = args.work / "results.json"
    kept = {it["script"]: Result(**{**it, "stand_ins": tuple(it["stand_ins"])}) for it in _kept(kept_in)}
    chosen = (
        [it for it in listed if re.search(args.only, it.name)]
        if args.only
        else [it for it in listed if it.name not in kept]
    )
    with ThreadPoolExecutor(args.jobs) as pool:
        for script in chosen:
            fetched(script, args.work, args.mirror)
        for result in pool.map(lambda one: run(one, args), chosen):
            kept[result.script] = result
            print(line(result), flush=True)
            _keep(kept_in, kept.values())
    results = [kept[it.name] for it in listed if it.name in kept]
    print(table(results, len(listed)).splitlines()[0])
    if args.write:
        write(args.write, results, len(listed))
    shutil.rmtree(args.work / "tmp", ignore_errors=True)
    return 0


def _keep(file: Path, results: Iterable[Result]) -> None:
    """Whole or not at all: the runs take long, and may be interrupted."""
    beside = file.with_suffix(".new")
    beside.write_text(json.dumps([asdict(it) for it in results], indent=1), encoding="utf-8")
    beside.replace(file)


def _kept(file: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    return found


if __name__ == "__main__":
    sys.exit(main())
