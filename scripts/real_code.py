"""What t4lint says on well-known training projects and on real launch files, as the two tables of docs/real-code.md.

    python scripts/real_code.py FOLDER [FOLDER ...]              the table of projects
    python scripts/real_code.py --launches FOLDER [FOLDER ...]   the table of launch files, by kind
    python scripts/real_code.py --unread FOLDER [FOLDER ...]     findings on launch files that nobody has read yet

Each folder is a checkout named `owner+name`. Nothing in it is run, and only figures are written. What a person who read a
finding on a launch file made of it stands in scripts/real_launches.csv: `right`, or `wrong` and why. A wrong one stays there
when it is no longer reported, so that the page says how many there were before.
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import t4lint
from t4lint.engine import Options, check
from t4lint.findings import Finding, Problem, Report
from t4lint.sources.configs import config_from, kind_of_config
from t4lint.sources.files import DEFAULT_EXCLUDES, SHELL_SUFFIXES
from t4lint.sources.fragments import STARTS

PAGE = Path(__file__).resolve().parents[1] / "docs/real-code.md"
READ = Path(__file__).with_name("real_launches.csv")
FAMILIES = ("distributed", "launch", "environment")
LARGEST = 500_000  # bytes: no launch file is larger
# Kinds of Kubernetes' manifests that start training, or say how it is started.
RUNS = re.compile(r"\w*(?:Job|JobSet|Pod|TrainingRuntime|RayCluster|StatefulSet)")
TRAINS = re.compile(r"torch|accelerate|deepspeed|train|mpirun|horovod")

HEAD = """\
# t4lint on well-known projects

<!-- Written by scripts/real_code.py: do not edit. -->

What `t4lint .` of version {version} counts in a checkout, for a T4. A project that is listed with a finding is not at
fault: most were written for other GPUs. Certain and likely findings are counted, by rule; a launch command in a shell
script or a README counts as a run of its own.

| project | commit | files | findings |
| --- | --- | ---: | --- |
"""

LAUNCHES = "\n## Launch files\n"
LAUNCH_HEAD = """
What the rules of the families {families} say on the launch files of {projects}. Each finding above a note was read by a
person: `right` is one that holds for that file on T4s. `wrong before` counts those that were wrong when they were first read,
`wrong now` those of them that are still reported.

| kind of file | files | with a finding | findings | notes | read | wrong before | wrong now |
| --- | ---: | ---: | --- | --- | ---: | ---: | ---: |
"""


# --- projects ------------------------------------------------------------------------------------------------------


def commit(folder: Path) -> str:
    done = subprocess.run(
        ["git", "-C", folder, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def row(folder: Path, result: Report) -> str:
    said = counted(finding.rule for finding in result.findings)
    if result.problems:
        said += f"; {len(result.problems)} files not read"
    return f"| {name_of(folder)} | {commit(folder)} | {result.files} | {said} |\n"


def name_of(folder: Path) -> str:
    return folder.name.replace("+", "/")


def counted(rules: Iterable[str]) -> str:
    return ", ".join(f"{rule} {count}" for rule, count in Counter(rules).most_common()) or "none"


# --- launch files --------------------------------------------------------------------------------------------------


class Said(NamedTuple):
    """A finding, by what does not change when a message does."""

    project: str
    path: str
    line: int
    rule: str

    @classmethod
    def of(cls, project: str, finding: Finding) -> Said:
        return cls(project, finding.location.path, finding.location.line, finding.rule)


def launch_files(folder: Path) -> Iterator[tuple[Path, str]]:
    """The files of a checkout that start training or configure it, each with its kind."""
    for file in sorted(folder.rglob("*")):
        skipped = DEFAULT_EXCLUDES & set(file.relative_to(folder).parts) or ".github" in file.parts
        if skipped or file.is_symlink() or not file.is_file() or file.stat().st_size > LARGEST:
            continue
        kind = kind_of(file)
        if kind:
            yield file, kind


def kind_of(file: Path) -> str:
    suffix = file.suffix.lower()
    if suffix not in (*SHELL_SUFFIXES, ".yaml", ".yml", ".json"):
        return ""
    text = file.read_text("utf-8", errors="replace")
    if suffix in SHELL_SUFFIXES:
        if not STARTS.search(text):
            return ""
        return "Slurm script" if "#SBATCH" in text or re.search(r"^\s*srun\b", text, re.MULTILINE) else "shell script"
    return config_kind(file, text)


def config_kind(file: Path, text: str) -> str:
    config = config_from(text, file, file.name)
    if isinstance(config, Problem):
        return ""
    for root in config.documents:
        entries = root.entries
        if {"apiVersion", "kind"} <= entries.keys():
            kind = str(entries["kind"].value)
            if RUNS.fullmatch(kind) and TRAINS.search(text):
                return f"Kubernetes {kind}"
            continue
        if "services" in entries and STARTS.search(text):
            return "docker compose"
        if "run" in entries and "resources" in entries:
            return "SkyPilot task"
        if entries.keys() >= {"type", "commands"}:
            return "dstack task"
        known = kind_of_config(root)
        if known:
            return f"{known} config"
    return ""


def read_before() -> dict[Said, str]:
    with READ.open(newline="", encoding="utf-8") as file:
        return {
            Said(it["project"], it["path"], int(it["line"]), it["rule"]): it["verdict"] for it in csv.DictReader(file)
        }


class Kind:
    """The sums of one row."""

    def __init__(self) -> None:
        self.files = 0
        self.findings: list[Said] = []
        self.notes: list[Said] = []


def launches(folders: list[Path]) -> tuple[dict[str, Kind], dict[Said, str]]:
    """What is said on launch files, by kind of file; and the kind of each file, for those that are no longer reported."""
    kinds: dict[str, Kind] = {}
    kind_by_file: dict[Said, str] = {}
    for folder in folders:
        files = {file.resolve(): kind for file, kind in launch_files(folder)}
        for kind in files.values():
            kinds.setdefault(kind, Kind()).files += 1
        if not files:
            continue
        found = check([folder], Options(cwd=folder, select=FAMILIES)).findings
        for finding in found:
            kind = files.get((folder / finding.location.path).resolve(), "")
            if kind:
                said = Said.of(name_of(folder), finding)
                (kinds[kind].notes if finding.severity == "note" else kinds[kind].findings).append(said)
        for file, kind in files.items():
            kind_by_file[Said(name_of(folder), file.relative_to(folder).as_posix(), 0, "")] = kind
        print(f"{name_of(folder)}: {len(files)} files, {len(found)} findings", file=sys.stderr, flush=True)
    return kinds, kind_by_file


def launch_table(folders: list[Path]) -> str:
    kinds, kind_by_file = launches(folders)
    read = read_before()
    wrong = [said for said, verdict in read.items() if verdict == "wrong"]
    projects = ", ".join(f"{name_of(folder)} ({commit(folder)})" for folder in folders)
    text = LAUNCHES + LAUNCH_HEAD.format(families=", ".join(FAMILIES), projects=projects)
    for name, kind in sorted(kinds.items()):
        now = set(kind.findings)
        before = {said for said in wrong if kind_by_file.get(Said(said.project, said.path, 0, "")) == name}
        files = len({(said.project, said.path) for said in kind.findings + kind.notes})
        cells = (
            name, kind.files, files, counted(said.rule for said in kind.findings), counted(said.rule for said in kind.notes),
            sum(said in read for said in now), len(before), len(before & now),
        )  # fmt: skip
        text += "| " + " | ".join(map(str, cells)) + " |\n"
    return text


def unread(folders: list[Path]) -> None:
    """Rows for scripts/real_launches.csv, without a verdict."""
    read = read_before()
    for kind in launches(folders)[0].values():
        for said in kind.findings:
            if said not in read:
                print(",".join(map(str, (*said, "", ""))))


# --- the page ------------------------------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    way = arguments.pop(0) if arguments[:1] in (["--launches"], ["--unread"]) else ""
    folders = sorted((Path(name).resolve() for name in arguments), key=lambda it: it.name.lower())
    if not folders:
        print(__doc__, file=sys.stderr)
        return 2
    if way == "--unread":
        unread(folders)
        return 0
    projects, mark, files = PAGE.read_text("utf-8").partition(LAUNCHES)
    if way == "--launches":
        mark, files = "", launch_table(folders)
    else:
        projects = HEAD.format(version=t4lint.__version__)
        for folder in folders:
            projects += row(folder, check([folder], Options(cwd=folder)))
    PAGE.write_text(projects + mark + files, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
