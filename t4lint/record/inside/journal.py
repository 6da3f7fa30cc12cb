"""The journal: append-only JSON lines, one write an event, so that it survives SIGKILL.

A repeated fact is written at counts 1, 2, 4, 8, ...; order-sensitive events of the first optimizer steps each time.
"""

from __future__ import annotations

import enum
import json
import os
import sys
import time
from collections import Counter
from typing import Any

from .frames import Site
from .state import state

VERSION = 1
LONGEST = 500  # characters of a string
EVERY_STEP = 8  # optimizer steps whose order-sensitive events are all written
EACH = 64  # events of one place that are all written, where there may be very many
EVERY_MICRO = 512  # the same in micro-batches, for a program that never steps


class _Journal:
    def __init__(self) -> None:
        self.file: int | None = None
        self.path = ""
        self.inode = (0, 0)
        self.home = 0  # the process that opened it
        self.counts: Counter[str] = Counter()


_journal = _Journal()


def open_journal(path: str) -> None:
    """Every process appends to the same file."""
    _journal.path = path
    _journal.home = os.getpid()
    _open()


def _open() -> None:
    _journal.file = os.open(_journal.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    _journal.inode = _inode(_journal.file)


def _inode(file: int) -> tuple[int, int]:
    found = os.fstat(file)
    return found.st_dev, found.st_ino


def _write(line: bytes) -> None:
    """A program may close files that it has not opened; a new one of its own may then have our number."""
    try:
        ours = _journal.file is not None and _inode(_journal.file) == _journal.inode
    except OSError:
        ours = False
    if not ours:
        _open()
    if _journal.file is not None:
        os.write(_journal.file, line)


def emit(kind: str, site: Site | None = None, n: int = 1, **data: Any) -> None:
    """Write one event. Never raises."""
    if _journal.file is None or _in_loader_worker():
        return
    try:
        record = {
            "v": VERSION, "k": kind, "t": round(time.time(), 6), "pid": os.getpid(), "rank": rank(),
            "st": state.step, "mi": state.micro, "ph": state.phase, "n": n,
            "u": list(site.user) if site else [], "e": site.engine if site else "",
            "lib": list(site.library) if site and site.library else None,
            "d": {name: plain(value) for name, value in data.items()},
        }  # fmt: skip
        _write((json.dumps(record, separators=(",", ":")) + "\n").encode())
    except Exception:  # a full disk, an odd object: the user's program goes on
        pass


def fact(kind: str, site: Site | None, without: dict[str, Any] | None = None, **data: Any) -> None:
    """Write a fact that may repeat. `without` is data that does not make it another fact."""
    key = f"{kind}|{site.user[:1] if site else ''}|{sorted((name, str(plain(value))) for name, value in data.items())}"
    _journal.counts[key] += 1
    n = _journal.counts[key]
    if n & (n - 1) == 0:
        emit(kind, site, n, **data, **(without or {}))


def ordered(kind: str, site: Site | None, **data: Any) -> None:
    """Write an event whose order matters: each time in the first steps, as a fact later."""
    if state.step < EVERY_STEP and state.micro < EVERY_MICRO:
        emit(kind, site, **data)
    else:
        fact(kind, site, None, **data)


def bounded(kind: str, site: Site | None, **data: Any) -> None:
    """Write an event whose order matters, of which there may be very many: the first of each place, later some."""
    place = f"{kind}|{site.user[:1] if site else ''}|each"
    _journal.counts[place] += 1
    if _journal.counts[place] <= EACH:
        emit(kind, site, **data)
    else:
        fact(kind, site, None, **data)


def trouble(probe: str, error: BaseException) -> None:
    """A probe failed: write it once, for whoever repairs it."""
    fact("trouble", None, probe=probe, error=f"{type(error).__name__}: {error}")


def plain(value: Any, depth: int = 0) -> Any:
    """What JSON can carry. An object that it cannot becomes `{"?": its type}`."""
    if isinstance(value, enum.Enum):
        return plain(value.value, depth)
    if value is None or isinstance(value, (bool, int, float)):
        return value if type(value) in (type(None), bool, int, float) else {"?": type(value).__name__}
    if isinstance(value, str):
        return str(value)[:LONGEST]
    if type(value).__module__ == "torch":
        if type(value).__name__ == "dtype":
            return str(value).removeprefix("torch.")
        if type(value).__name__ == "device":
            return str(value)
    if depth < 3 and type(value) in (list, tuple) and len(value) <= 64:
        return [plain(item, depth + 1) for item in value]
    if depth < 3 and type(value) is dict and len(value) <= 256:
        return {str(name): plain(item, depth + 1) for name, item in value.items()}
    if isinstance(value, os.PathLike):
        return os.fspath(value) if isinstance(os.fspath(value), str) else {"?": "bytes"}
    return {"?": type(value).__name__}


def rank() -> int | None:
    """The rank of this process, from the launcher or from the process group."""
    given = os.environ.get("RANK", "")
    if given.isdigit():
        return int(given)
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_initialized():
            return int(distributed.get_rank())
    except Exception:  # half-imported, or built without distributed
        pass
    return None


def _in_loader_worker() -> bool:
    """DataLoader workers inherit the probes by fork: what they do is not the training program."""
    worker = sys.modules.get("torch.utils.data._utils.worker")
    return worker is not None and getattr(worker, "_worker_info", None) is not None
