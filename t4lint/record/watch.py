"""A run seen from outside: its output, its memory, how far it is, and the end of all its processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

BOUND = 64 * 2**20  # bytes of output from which the older part is thrown away
ROUNDS = 50  # looks for processes that are left
LEAST_FREE = 256 * 2**20  # bytes of disk below which a run is ended
LINGERS = "it was stopped and did not end"
LINGER = 60.0  # seconds after the last record of a run that was stopped, before it is ended
SHARE = 0.92  # of the machine's memory that a run may take where no limit is given


@dataclass(frozen=True, slots=True)
class Moment:
    """How far a run is. `place`: the program's own line that was reached last, as `path:line`, or ""."""

    phase: str = "starting"
    step: int = 0
    place: str = ""


def moment(journal: Path) -> Moment:
    """From the last whole line of the journal."""
    try:
        with journal.open("rb") as file:
            file.seek(max(0, journal.stat().st_size - 8192))
            lines = file.read().split(b"\n")[:-1]
        last = json.loads(lines[-1])
        place = ":".join(str(part) for part in last["u"][0]) if last.get("u") else ""
        return Moment(str(last["ph"]), int(last["st"]), place)
    except (OSError, ValueError, LookupError, TypeError):
        return Moment()


class Output:
    """The program's two streams go to files, so that it never waits for us; only the end of them is kept."""

    def __init__(self, folder: Path, kept: int) -> None:
        self.folder = folder
        self.kept = kept
        self.older: dict[str, bytes] = {}

    @contextmanager
    def opened(self) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
        with (self.folder / "stdout").open("ab") as out, (self.folder / "stderr").open("ab") as err:
            yield out, err

    def bound(self) -> None:
        """A program that prints without end does not fill the disk: the streams are opened for appending."""
        for name in ("stdout", "stderr"):
            path = self.folder / name
            if path.stat().st_size > BOUND:
                self.older[name] = self._end(path)
                os.truncate(path, 0)

    def tail(self, name: str) -> str:
        path = self.folder / name
        data = self._end(path) if path.exists() else b""
        if len(data) < self.kept:
            data = self.older.get(name, b"")[len(data) - self.kept :] + data if name in self.older else data
        return data.decode(sys.getdefaultencoding(), "replace")

    def _end(self, path: Path) -> bytes:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - self.kept))
            return file.read()


# --- what a run takes --------------------------------------------------------------------------------------------


class Machine:
    """Memory of all processes of a run together, and the disk that it writes to."""

    def __init__(self, scratch: Path, memory: int) -> None:
        self.scratch = scratch
        self.given = memory
        self.memory = memory or int(_total_memory() * SHARE)
        self.disk = shutil.disk_usage(scratch).free > 2 * LEAST_FREE
        self.looked = 0.0

    def exceeded(self, group: int) -> str:
        """Why the run has to end, or "". A look at the memory costs some: one a second."""
        now = time.monotonic()
        if now - self.looked < 1.0 and not self.given:
            return ""
        self.looked = now
        if self.disk and shutil.disk_usage(self.scratch).free < LEAST_FREE:
            return "the disk is full"
        if self.memory and _resident(group) > self.memory and _proportional(group) > self.memory:
            return f"it took more than {self.memory / 2**30:.3g} GiB of memory"
        return ""


class Silence:
    """A run that was stopped and does not end: the exit was raised in a thread, or one rank waits for another."""

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        self.read = 0
        self.stopped = False
        self.since = 0.0

    def too_long(self, now: float) -> str:
        """Why the run has to end, or "". `now` is in seconds."""
        new = self._new()
        if new:
            self.since = now
            self.stopped = self.stopped or b'"k":"stop"' in new
        return LINGERS if self.stopped and now - self.since > LINGER else ""

    def _new(self) -> bytes:
        try:
            with self.journal.open("rb") as file:
                file.seek(self.read)
                new = file.read()
        except OSError:
            return b""
        self.read += len(new)
        return new


def _total_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0


def _resident(group: int) -> int:
    page = os.sysconf("SC_PAGE_SIZE")
    return sum(int(words[1]) * page for pid in _descendants(group) if len(words := _read(pid, "statm").split()) > 1)


def _proportional(group: int) -> int:
    """Pages that several processes share count once; slower to ask for."""
    found = 0
    for pid in _descendants(group):
        for line in _read(pid, "smaps_rollup").splitlines():
            if line.startswith("Pss:"):
                found += int(line.split()[1]) * 1024
    return found


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _descendants(group: int) -> list[int]:
    """The process and all below it, in whatever session they are; none where there is no /proc."""
    parents: dict[int, list[int]] = {}
    for pid in _pids():
        words = _read(pid, "stat").rpartition(")")[2].split()
        if len(words) > 1:
            parents.setdefault(int(words[1]), []).append(pid)
    found, left = [], [group]
    while left:
        pid = left.pop()
        found.append(pid)
        left += parents.get(pid, [])
    return found


def _pids() -> list[int]:
    try:
        return [int(name) for path in Path("/proc").iterdir() if (name := path.name).isdigit()]
    except OSError:
        return []


# --- the end -----------------------------------------------------------------------------------------------------


def end_all(group: int, mark: str) -> None:
    """End what is left: the group, and whoever left it but still carries this journal's name in its environment.

    All are stopped first, so that a program that forks faster than it can be killed comes to rest.
    """
    _signal_group(group, signal.SIGSTOP)
    for _ in range(ROUNDS):
        left = [pid for pid in _pids() if _marked(pid, mark)]
        if not left:
            break
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in left:
                _signal(pid, number)
        _signal_group(group, signal.SIGKILL)
        time.sleep(0.01)
    _signal_group(group, signal.SIGKILL)


def _marked(pid: int, mark: str) -> bool:
    try:
        if mark.encode() not in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            return False
    except OSError:  # gone, another user's, or no /proc
        return False
    return _read(pid, "stat").rpartition(")")[2].split()[:1] != ["Z"]


def _signal(pid: int, number: int) -> None:
    with suppress(OSError):
        os.kill(pid, number)


def _signal_group(group: int, number: int) -> None:
    with suppress(OSError):  # nobody is left in it
        os.killpg(group, number)
