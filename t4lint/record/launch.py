"""Run the user's own command, unchanged, in a copy of the project, and say how it ended."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from t4lint.record.journal import Journal, Record, read

How = Literal["finished", "stopped", "exception", "failed", "killed", "timeout", "not loaded", "not started"]

GRACE = 10.0  # seconds between SIGTERM and SIGKILL
LARGE = 100 * 2**20  # bytes from which a file is linked instead of copied
BUDGET = 2 * 2**30  # bytes that are copied at most; what comes after them is linked
TAIL = 64 * 1024  # characters of the program's output that are kept

SKIPPED = {
    ".git", ".hg", ".svn", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".tox", ".nox", "node_modules",
    ".t4lint_cache", ".ipynb_checkpoints",
}  # fmt: skip
ROOT_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "t4lint.toml")

_SECRET = re.compile(
    r"(^|_)(TOKEN|API_?KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?|ACCESS_KEY)(_|$)|^(AWS|AZURE|GCP|GOOGLE)_|_KEY$|^HF_TOKEN",
    re.IGNORECASE,
)
_SETTINGS = {
    "WANDB_MODE": "offline",
    "WANDB_SILENT": "true",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "COMET_MODE": "DISABLED",
    "CLEARML_OFFLINE_MODE": "1",
    "NEPTUNE_MODE": "offline",
    "PYTHONDONTWRITEBYTECODE": "1",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the run ended. `path` and `line` are where an exception left the person's own code, below the root."""

    how: How
    exit_code: int | None
    detail: str = ""
    path: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Recording:
    """A run that was recorded. `root` is the project, `cwd` where the command was given; the copy is gone."""

    command: tuple[str, ...]
    root: Path
    cwd: Path
    journal: Journal
    outcome: Outcome
    seconds: float
    stdout: str
    stderr: str
    notes: tuple[str, ...] = ()


def record(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    steps: int = 3,
    timeout: float = 600.0,
    environment: Mapping[str, str] | None = None,
) -> Recording:
    """Run `argv` below `cwd` in a copy of the project, and stop it after `steps` optimizer steps (0: never)."""
    here = (cwd or Path.cwd()).resolve()
    root = project_root(here, argv)
    start = time.monotonic()
    scratch = Path(tempfile.mkdtemp(prefix="t4lint-")).resolve()
    try:
        copy = scratch / "project"
        links = copy_project(root, copy)
        variables = child_environment(os.environ if environment is None else environment, root, copy)
        variables.update(
            T4LINT_JOURNAL=str(scratch / "journal.jsonl"),
            T4LINT_STEPS=str(steps),
            T4LINT_ROOT=str(copy),
            T4LINT_ORIGINAL=str(root),
            T4LINT_LINKS="1" if links else "",
        )
        command = [moved(word, root, copy) for word in argv]
        code, timed_out, error = _run(command, copy / here.relative_to(root), variables, scratch, timeout)
        journal = read(scratch / "journal.jsonl")
        _end_stragglers(journal, variables["T4LINT_JOURNAL"])
        return Recording(
            command=tuple(argv),
            root=root,
            cwd=here,
            journal=journal,
            outcome=classify(code, timed_out, error, journal.records, timeout),
            seconds=time.monotonic() - start,
            stdout=_tail(scratch / "stdout"),
            stderr=_tail(scratch / "stderr"),
            notes=_notes(links),
        )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


# --- the project and its copy ------------------------------------------------------------------------------------


def project_root(cwd: Path, argv: Sequence[str]) -> Path:
    """The nearest folder above `cwd`, or above the script where that lies elsewhere, that looks like a project's root."""
    root = _marked(cwd)
    for word in argv:
        script = cwd / word
        if word.endswith(".py") and script.is_file() and root not in script.resolve().parents:
            shared = Path(os.path.commonpath([root, script.resolve().parent]))
            # A script elsewhere: only a folder that holds both can be copied, and `/` or a home folder is no project.
            return shared if shared not in (Path(shared.anchor), Path.home()) else root
    return root


def _marked(folder: Path) -> Path:
    for candidate in (folder, *folder.parents):
        if candidate in (Path.home(), Path(candidate.anchor)):
            break
        if any((candidate / mark).exists() for mark in ROOT_MARKS):
            return candidate
    return folder


def copy_project(root: Path, copy: Path) -> list[Path]:
    """Copy what a run may touch. Returns the files that are only linked."""
    links: list[Path] = []
    left = BUDGET
    copy.mkdir(parents=True)
    for folder, folders, files in os.walk(root):
        source = Path(folder)
        target = copy / source.relative_to(root)
        for name in list(folders):
            if name in SKIPPED:
                folders.remove(name)
            elif (source / name / "pyvenv.cfg").exists() or (source / name).is_symlink():
                folders.remove(name)  # an environment is read, not written; a link stays what it is
                (target / name).symlink_to((source / name).resolve(), target_is_directory=True)
            else:
                (target / name).mkdir(exist_ok=True)
        for name in files:
            left -= _copy_file(source / name, target / name, left, links)
    return links


def _copy_file(source: Path, target: Path, left: int, links: list[Path]) -> int:
    """Copy or link one file; returns the bytes that it took."""
    try:
        if not source.is_file():
            return 0
        size = source.stat().st_size
        if size > min(LARGE, left):
            target.symlink_to(source.resolve())
            links.append(source)
            return 0
        shutil.copy2(source, target)
        return size
    except OSError:  # unreadable: the run will meet the same
        return 0


def moved(word: str, root: Path, copy: Path) -> str:
    """A path into the project, alone or behind `--flag=`, becomes the same path in the copy."""
    flag, equals, value = word.partition("=")
    if equals and flag.startswith("-"):
        return flag + equals + moved(value, root, copy)
    if word == str(root) or word.startswith(str(root) + os.sep):
        return str(copy) + word[len(str(root)) :]
    return word


def child_environment(given: Mapping[str, str], root: Path, copy: Path) -> dict[str, str]:
    """The user's environment without secrets, offline, and with the recorder on PYTHONPATH."""
    kept = {name: value for name, value in given.items() if not is_secret(name)}
    kept.update(_SETTINGS)
    site = str(Path(__file__).parent / "inside" / "site")
    path = [moved(entry, root, copy) for entry in given.get("PYTHONPATH", "").split(os.pathsep) if entry]
    kept["PYTHONPATH"] = os.pathsep.join([site, *path])
    return kept


def is_secret(name: str) -> bool:
    """Does the name of a variable look like a secret's?"""
    return bool(_SECRET.search(name))


# --- the run -----------------------------------------------------------------------------------------------------


def _run(
    command: list[str], cwd: Path, variables: dict[str, str], scratch: Path, timeout: float
) -> tuple[int | None, bool, str]:
    """Exit code, whether the time was up, and why it could not start."""
    with (scratch / "stdout").open("wb") as out, (scratch / "stderr").open("wb") as err:
        try:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except OSError as error:
            return None, False, str(error)
        try:
            return process.wait(timeout), False, ""
        except subprocess.TimeoutExpired:
            _end_group(process)
            return process.returncode, True, ""
        except BaseException:  # Ctrl-C: the group does not get it from the terminal
            _end_group(process)
            raise


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, so that launchers end their children; then SIGKILL."""
    for number, wait in ((signal.SIGTERM, GRACE), (signal.SIGKILL, GRACE)):
        try:
            os.killpg(process.pid, number)
            process.wait(wait)
        except (ProcessLookupError, PermissionError):
            return
        except subprocess.TimeoutExpired:
            continue


def _end_stragglers(journal: Journal, mark: str) -> None:
    """Launchers start ranks in sessions of their own: end those that still run and carry this journal's name."""
    needle = f"T4LINT_JOURNAL={mark}".encode()
    for pid in {record.pid for record in journal.records if record.k == "process"}:
        try:
            if needle in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)
        except OSError:  # gone, another user's, or no /proc
            continue


def classify(code: int | None, timed_out: bool, error: str, records: Sequence[Record], timeout: float = 0.0) -> Outcome:
    """How the run ended, from its exit code and what the processes wrote."""
    processes = {record.pid for record in records if record.k == "process"}
    ended = {record.pid for record in records if record.k == "exit"}
    stopped = next((record for record in records if record.k == "stop"), None)
    raised = [record for record in records if record.k == "exception" and record.u]
    if error:
        return Outcome("not started", code, error)
    if timed_out:
        return Outcome("timeout", code, f"the run took longer than {timeout:g} s")
    if not processes:
        return Outcome("not loaded", code, "the recorder did not load in the program's process")
    if code == 0:
        if stopped is not None:
            return Outcome("stopped", code, f"stopped after {stopped.st} optimizer steps")
        return Outcome("finished", code, "the program ran to its end")
    if raised:
        last = raised[0]
        text = f"{last.d.get('type')}: {last.d.get('message')}".strip()
        return Outcome("exception", code, text, last.u[0][0], last.u[0][1])
    if (code is not None and code < 0) or code in (137, 143) or processes - ended:
        return Outcome("killed", code, f"a process was killed (exit code {code})")
    return Outcome("failed", code, f"the program ended with exit code {code}")


def _tail(path: Path) -> str:
    data = path.read_bytes() if path.exists() else b""
    return data[-TAIL:].decode(sys.getdefaultencoding(), "replace")


def _notes(links: list[Path]) -> tuple[str, ...]:
    if not links:
        return ()
    return (f"{len(links)} large files were linked into the copy, not copied, first {links[0].name}",)
