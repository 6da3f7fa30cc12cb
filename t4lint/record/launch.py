"""Run the user's own command, unchanged, in a sandbox of the project, and say how it ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol

from t4lint.devices import Gpu
from t4lint.record import notebook, watch
from t4lint.record.journal import Journal, Record, read
from t4lint.record.sandbox import Kind, Sandbox, moved, prepare, remove
from t4lint.sources.positions import PositionMap

Device = Literal["auto", "cuda", "phantom", "cpu"]
How = Literal[
    "finished", "stopped", "exception", "unsupported", "failed", "killed", "timeout", "not loaded", "not started"
]

NOT_LOADED = (
    "the recorder did not load in the program's process (Python finds it through PYTHONPATH, which its options -I, -E and "
    "-S switch off)"
)
GRACE = 10.0  # seconds between SIGTERM and SIGKILL
TAIL = 64 * 1024  # characters of the program's output that are kept
SOON = 1.0  # seconds from an operation that the phantom cannot do to the exception that it became
DRIVERLESS = ("AssertionError", "AttributeError", "NotImplementedError", "OSError", "RuntimeError")
LONGEST_LINE = 200  # characters of an exception's message
EVERY = 0.2  # seconds between two looks at the run
ROOT_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "t4lint.toml")

# Files through which a step of a GitHub workflow changes the steps after it: not for the program to write to.
OF_THE_RUNNER = ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")

_SECRET = re.compile(
    r"(^|_)(TOKEN|API_?KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?|ACCESS_KEY)(_|$)|^(AWS|AZURE|GCP|GOOGLE)_|_KEY$|^HF_TOKEN",
    re.IGNORECASE,
)
_OFFLINE = {
    "WANDB_MODE": "offline",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "COMET_MODE": "DISABLED",
    "CLEARML_OFFLINE_MODE": "1",
    "NEPTUNE_MODE": "offline",
}
_ALWAYS = {"WANDB_SILENT": "true", "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may use. `memory` is in bytes over all its processes, 0 for the machine's own limit.

    `synthetic`: data that are not here are made up, `columns` are what the person says of them: {data set: {column: type}}.
    """

    steps: int = 3
    timeout: float = 600.0
    memory: int = 0
    network: bool = False
    sandbox: Kind = "auto"
    device: Device = "auto"
    synthetic: bool = False
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


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
    """A run that was recorded. `root` is the project, `cwd` where the command was given; what it wrote is gone.

    `places` are the notebooks that ran as modules: where each line of them is written, by the path below the root.
    """

    command: tuple[str, ...]
    root: Path
    cwd: Path
    journal: Journal
    outcome: Outcome
    seconds: float
    stdout: str
    stderr: str
    notes: tuple[str, ...] = ()
    places: Mapping[str, PositionMap] = field(default_factory=dict)


class Listener(Protocol):
    """Somebody who shows how far a run is."""

    def starts(self, sandbox: Sandbox) -> None:
        """The sandbox is there; the command starts now."""

    def goes_on(self, seconds: float, now: watch.Moment) -> None:
        """Called several times a second."""

    def ends(self, recording: Recording) -> None:
        """It is over."""


_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Within this, runs are told of to `listener`, or to nobody."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def record(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    steps: int = 3,
    timeout: float = 600.0,
    environment: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    python: str = sys.executable,
    texts: Mapping[Path, str] | None = None,
    measure: bool = False,
    gpu: Gpu | None = None,
    lines: Mapping[Path, Sequence[tuple[int, int]]] | None = None,
) -> Recording:
    """Run `argv` below `cwd` in a sandbox of the project, and stop it after `steps` optimizer steps (0: never).

    A notebook in the place of a command runs as a script, under `python`. `limits` stands for the other limits;
    `steps` and `timeout` hold in any case. `texts` stand in the place of files of the project, in the sandbox only;
    with `measure` each step tells its time, memory and loss. On another GPU than `gpu` its memory is capped to that one's
    and it answers as that one does. `lines` are the first and last lines of statements of which it is told whether they ran.
    """
    limits = replace(limits or Limits(), steps=steps, timeout=timeout)
    here = (cwd or Path.cwd()).resolve()
    root = project_root(here, argv)
    start = time.monotonic()
    try:
        scratch = _scratch(root)
    except OSError as error:
        outcome = Outcome("not started", None, f"no sandbox: {error}")
        return Recording(tuple(argv), root, here, Journal(()), outcome, 0.0, "", "")
    try:
        try:
            sandbox = prepare(root, scratch, limits.sandbox, limits.network)
            for path, text in (texts or {}).items():
                sandbox.put(path, text)
        except OSError as error:
            outcome = Outcome("not started", None, f"no sandbox: {error}")
            return Recording(tuple(argv), root, here, Journal(()), outcome, time.monotonic() - start, "", "")
        variables = child_environment(os.environ if environment is None else environment, root, sandbox.folder, limits)
        variables.update(_told(scratch, sandbox, limits))
        variables.update(_card(variables, limits.device, gpu))
        if measure:
            variables["T4LINT_MEASURE"] = "1"
        ready = notebook.ready(argv, here, root, sandbox.folder, scratch, python)
        if lines:
            plan = scratch / "lines.json"
            plan.write_text(json.dumps(_below(lines, root, ready.places if ready else {})), encoding="utf-8")
            variables["T4LINT_LINES"] = str(plan)
        inside = sandbox.folder / here.relative_to(root)
        command = ready.command if ready else [moved(word, root, sandbox.folder) for word in argv]
        run = _Run(command, ready.folder if ready else inside, variables, scratch, sandbox, limits)
        code = run.wait()
        journal = read(scratch / "journal.jsonl")
        places = ready.places if ready else {}
        outcome = classify(code, run.ended == "timeout", run.error, journal.records, timeout)
        if run.ended == watch.LINGERS:
            outcome = lingering(code, journal.records)
        elif run.ended not in ("", "timeout"):
            outcome = Outcome("killed", code, run.ended)
        made = Recording(
            command=tuple(argv),
            root=root,
            cwd=here,
            journal=journal,
            outcome=placed(outcome, places),
            seconds=time.monotonic() - start,
            stdout=run.output.tail("stdout"),
            stderr=run.output.tail("stderr"),
            notes=(*_notes(sandbox.links), *(ready.notes if ready else ())),
            places=places,
        )
    finally:
        remove(scratch)
    listener = _listener.get()
    if listener is not None:
        listener.ends(made)
    return made


def _scratch(root: Path) -> Path:
    """A folder of this run's own. Without a place for temporary files Python takes the working folder: that is the project's."""
    scratch = Path(tempfile.mkdtemp(prefix="t4lint-")).resolve()
    if root in scratch.parents:
        scratch.rmdir()
        raise OSError(
            f"temporary files would lie in the project ({scratch.parent}): set TMPDIR to a folder outside of it"
        )
    return scratch


def _told(scratch: Path, sandbox: Sandbox, limits: Limits) -> dict[str, str]:
    return {
        "T4LINT_JOURNAL": str(scratch / "journal.jsonl"),
        "T4LINT_STEPS": str(limits.steps),
        "T4LINT_ROOT": str(sandbox.folder),
        "T4LINT_ORIGINAL": str(sandbox.root),
        "T4LINT_LINKS": "1" if sandbox.links else "",
        **({"T4LINT_SYNTHETIC": "1", "T4LINT_COLUMNS": json.dumps(limits.columns)} if limits.synthetic else {}),
    }


def _card(given: Mapping[str, str], device: Device, gpu: Gpu | None) -> dict[str, str]:
    """What a GPU is to be: none at all for "cpu", else the target's, whose context is taken at its largest.

    A phantom says so of itself: nothing real is to be set up for it.
    """
    if device == "cpu":
        return {"CUDA_VISIBLE_DEVICES": ""}
    if gpu is None:
        return {}
    card = {
        "name": gpu.device_name,
        "capability": list(gpu.capability),
        "total_memory": gpu.total_memory,
        "context": gpu.context_bytes[1],
        "processors": gpu.sm_count,
        "shared": gpu.shared_memory_per_block,
    }
    found = {"T4LINT_CARD": json.dumps(card)}
    if device == "phantom":
        return {**found, "T4LINT_PHANTOM": "1"}
    if gpu.capability < (8, 0):
        # no TF32 before Ampere, and the workspace of cuBLAS that such GPUs have (NVIDIA cuBLAS documentation)
        defaults = {"NVIDIA_TF32_OVERRIDE": "0", "CUBLAS_WORKSPACE_CONFIG": ":4096:2:16:8"}
        found.update({name: value for name, value in defaults.items() if name not in given})
    return found


def _below(
    lines: Mapping[Path, Sequence[tuple[int, int]]], root: Path, places: Mapping[str, PositionMap]
) -> dict[str, list[tuple[int, int]]]:
    """By path below the root; for a notebook the lines of the module that runs in its place."""
    found: dict[str, list[tuple[int, int]]] = {}
    for path, ranges in lines.items():
        if root not in path.parents:
            continue
        below = path.relative_to(root).as_posix()
        positions = places.get(below)
        if positions is None:
            found[below] = sorted(set(ranges))
            continue
        written = {number: positions.locate(number, 1).line for number in range(1, positions.text.count("\n") + 1)}
        found[below] = [
            (number, number) for number, line in written.items() if any(first <= line <= last for first, last in ranges)
        ]
    return found


def placed(outcome: Outcome, places: Mapping[str, PositionMap]) -> Outcome:
    """An exception in a notebook: the line of its file."""
    positions = places.get(outcome.path)
    if positions is None:
        return outcome
    where = positions.locate(outcome.line, 1)
    cell = "" if where.cell is None else f" (cell {where.cell + 1}, line {where.cell_line})"
    return replace(outcome, line=where.line, detail=outcome.detail + cell)


# --- the project -------------------------------------------------------------------------------------------------


def project_root(cwd: Path, argv: Sequence[str]) -> Path:
    """The nearest folder above `cwd`, or above the script where that lies elsewhere, that looks like a project's root."""
    root = _marked(cwd)
    for word in argv:
        script = cwd / word
        if word.endswith((".py", ".ipynb")) and script.is_file() and root not in script.resolve().parents:
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


def child_environment(
    given: Mapping[str, str], root: Path, folder: Path, limits: Limits | None = None
) -> dict[str, str]:
    """The user's environment without secrets, offline, and with the recorder on PYTHONPATH."""
    network = limits is not None and limits.network
    kept = {name: value for name, value in given.items() if network or not is_secret(name)}
    for name in OF_THE_RUNNER:
        kept.pop(name, None)
    kept.update(_ALWAYS if network else {**_ALWAYS, **_OFFLINE})
    site = str(Path(__file__).parent / "inside" / "site")
    path = [moved(entry, root, folder) for entry in given.get("PYTHONPATH", "").split(os.pathsep) if entry]
    kept["PYTHONPATH"] = os.pathsep.join([site, *path])
    return kept


def is_secret(name: str) -> bool:
    """Does the name of a variable look like a secret's?"""
    return bool(_SECRET.search(name))


# --- the run -----------------------------------------------------------------------------------------------------


class _Run:
    """One process group, and what ends it. `ended`: why it was ended from outside; `error`: why it did not start."""

    def __init__(
        self, command: list[str], cwd: Path, variables: dict[str, str], scratch: Path, sandbox: Sandbox, limits: Limits
    ) -> None:
        self.command, self.cwd, self.variables, self.limits, self.sandbox = command, cwd, variables, limits, sandbox
        self.scratch = scratch
        self.output = watch.Output(scratch, TAIL)
        self.machine = watch.Machine(scratch, limits.memory)
        self.mark = f"T4LINT_JOURNAL={variables['T4LINT_JOURNAL']}"
        self.ended = ""
        self.error = ""

    def wait(self) -> int | None:
        """Run to the end, or to a limit; afterwards nothing of it is left. Returns the exit code."""
        try:
            process = self._start()
        except OSError as error:
            self.error = not_started(self.command[0], error.strerror or str(error))
            return None
        try:
            with _asked_to_end():
                self._watch(process)
        except KeyboardInterrupt:
            self.ended = "interrupted"  # what was seen until then is reported; a second Ctrl-C ends us too
        finally:
            if process.poll() is None:
                _end_group(process)
            watch.end_all(process.pid, self.mark)
        failed = self.scratch / "failed"
        if failed.exists():
            self.error = not_started(self.command[0], failed.read_text(encoding="utf-8", errors="replace"))
            return None
        return process.returncode

    def _start(self) -> subprocess.Popen[bytes]:
        where = self.cwd if self.sandbox.kind == "copy" else self.sandbox.root
        command = self.sandbox.started(self.command, self.cwd, self.scratch / "failed")
        with self.output.opened() as (out, err):
            listener = _listener.get()
            if listener is not None:
                listener.starts(self.sandbox)
            return subprocess.Popen(
                command,
                cwd=where,
                env=self.variables,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        start = time.monotonic()
        listener = _listener.get()
        silence = watch.Silence(self.scratch / "journal.jsonl")
        while True:
            try:
                process.wait(EVERY)
            except subprocess.TimeoutExpired:
                pass
            else:
                return
            seconds = time.monotonic() - start
            self.output.bound()
            if seconds > self.limits.timeout:
                self.ended = "timeout"
            else:
                self.ended = self.machine.exceeded(process.pid) or silence.too_long(seconds)
            if self.ended:
                return
            if listener is not None:
                listener.goes_on(seconds, watch.moment(self.scratch / "journal.jsonl"))


def not_started(word: str, why: str) -> str:
    """Why a command did not start. A shell would have set a variable where the first word is an assignment."""
    assigned = re.match(r"[A-Za-z_]\w*=", word)
    return f"{word}: {why}; a variable is set with env: env {word} ..." if assigned else f"{word}: {why}"


@contextmanager
def _asked_to_end() -> Iterator[None]:
    """SIGTERM is like Ctrl-C: the run would outlive us. Only the main thread may say so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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


def classify(code: int | None, timed_out: bool, error: str, records: Sequence[Record], timeout: float = 0.0) -> Outcome:
    """How the run ended, from its exit code and what the processes wrote."""
    processes = {record.pid for record in records if record.k == "process"}
    ended = {record.pid for record in records if record.k == "exit"}
    stopped = next((record for record in records if record.k == "stop"), None)
    left = {record.pid for record in records if record.k == "stop"}  # what they raise is about being left
    raised = [record for record in records if record.k == "exception" and record.u and record.pid not in left]
    if error:
        return Outcome("not started", code, error)
    if timed_out:
        return Outcome("timeout", code, f"the run took longer than {timeout:g} s")
    if not processes:
        return Outcome("not loaded", code, NOT_LOADED)
    if code == 0:
        if stopped is not None:
            return Outcome("stopped", code, f"stopped after {stopped.st} optimizer steps")
        return Outcome("finished", code, "the program ran to its end")
    # pytest makes a failure of it; and what had left already may still be killed, by a timer of its own for example
    if stopped is not None and not raised and (code == 1 or stopped.pid in ended):
        return Outcome("stopped", code, f"stopped after {stopped.st} optimizer steps")
    if raised:
        last = raised[0]
        lacking = unsupported(records, last)
        if lacking:
            return Outcome("unsupported", code, lacking, last.u[0][0], last.u[0][1])
        text = f"{last.d.get('type')}: {last.d.get('message')}".strip()
        if last.d.get("type") == "EOFError" and "reading" in text:
            text = f"{text} (verify gives it no input to read)"
        return Outcome("exception", code, text, last.u[0][0], last.u[0][1])
    phantom = any(record.k == "card" and record.d.get("phantom") for record in records)
    if phantom and code is not None and code < 0 and not raised and processes <= ended:
        return Outcome("finished", code, "the program ran to its end")  # only a thread of autograd did not
    if (code is not None and code < 0) or code in (137, 143):
        return Outcome("killed", code, f"a process was killed ({_signal(code)}exit code {code})")
    if processes - ended and len(processes) > 1:
        return Outcome("killed", code, f"a process was killed (exit code {code})")
    outside = next((record for record in records if record.k == "exception" and not record.u), None)
    if outside is None:
        return Outcome("failed", code, f"the program ended with exit code {code}")
    said = _first_line(f"{outside.d.get('type')}: {outside.d.get('message')}")
    return Outcome("failed", code, f"{said}, outside of your own code")


def lingering(code: int | None, records: Sequence[Record]) -> Outcome:
    """It was left after its steps and went on: a thread that trained, or a rank that waits for the others."""
    steps = max((record.st for record in records if record.k == "stop"), default=0)
    return Outcome("stopped", code, f"stopped after {steps} optimizer steps; it did not end by itself")


def _first_line(text: str) -> str:
    """What fits on one line of a message that may be a page."""
    line = next(iter(text.strip().splitlines()), "").rstrip(" :,.")
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 3] + "..."


# what libraries say where they meet the missing driver behind a phantom
_DRIVER = re.compile(
    r"_cuda_\w+|compiled with CUDA|CUDA driver|NVIDIA driver|libcuda|CUDART|CUDAHooks|CUDAGuardImpl|ATen_cuda"
)


def unsupported(records: Sequence[Record], raised: Record) -> str:
    """Was the exception the phantom's own shortcoming, and not the program's? Says what it cannot do, or ""."""
    if not any(record.k == "card" and record.d.get("phantom") for record in records):
        return ""
    last = [record for record in records if record.k == "unsupported" and record.pid == raised.pid]
    message = str(raised.d.get("message"))
    if last and (raised.t - last[-1].t < SOON or str(last[-1].d.get("operation")) in message):
        return f"unsupported operation {last[-1].d.get('operation')}: the phantom has no values for it"
    if raised.d.get("type") in DRIVERLESS and (found := _DRIVER.search(message)):
        return f"unsupported operation: the phantom has no driver ({found.group()})"
    return ""


def _signal(code: int) -> str:
    try:
        name = signal.Signals(-code if code < 0 else code - 128).name
    except ValueError:
        return ""
    return f"{name}: out of memory? " if name == "SIGKILL" else f"{name}, "


def _notes(links: Sequence[Path]) -> tuple[str, ...]:
    if not links:
        return ()
    return (f"{len(links)} large files or folders were linked into the copy, not copied, first {links[0].name}",)
