"""Checking the parts of an invocation at the same time: processes of this machine, or any `concurrent.futures.Executor`.

What is handed out are names of scripts; what comes back is plain data. It is passed on in the order of the parts, so neither the
report nor what is shown before it depends on how many hands there were.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from t4lint.sources import disk

if TYPE_CHECKING:
    from t4lint.engine import Options, Session, Step

Progress = Callable[[int, int], None]
"""Is told how many scripts are done, of how many."""

# Characters of scripts from which on processes are started, about a second's work; below that, starting them takes longer.
WORTH_IT = 150_000
JOBS_EACH = 6  # jobs for each worker: many even out how long they take, each costs a round trip


class WorkersError(ValueError):
    """An executor that was asked for cannot be had; the message is for people."""


class Job(NamedTuple):
    """Parts to check. A process that was forked from the one that asks has the session already, by its name."""

    session: str
    paths: tuple[Path, ...]
    options: Options | None
    parts: tuple[tuple[Path, ...], ...]


class Done(NamedTuple):
    """What the parts of a job gave, and what that rests on."""

    steps: list[list[Step]]
    asked: disk.Asked


_sessions: dict[str, Session] = {}


def work(job: Job) -> Done:
    """Check the parts of a job, in whatever process this is."""
    from t4lint.engine import rare_collections

    with rare_collections(), disk.watched() as asked:
        session = _session(job)
        return Done([session.check_part(part) for part in job.parts], asked)


def _session(job: Job) -> Session:
    from t4lint.engine import Session

    if job.session not in _sessions:
        assert job.options is not None
        session = Session(job.options)
        session.ordered(session.collect(job.paths))  # the launches of all projects are read
        _sessions.clear()  # of one invocation at a time
        _sessions[job.session] = session
    return _sessions[job.session]


@dataclass(slots=True)
class Workers:
    """Helpers for `engine.check`. `executor` None: processes of this machine, as many as `count`, where that is worth it."""

    executor: Executor | None = None
    count: int = 1
    progress: Progress | None = None

    def check(self, session: Session, paths: Sequence[Path], parts: Sequence[Sequence[Path]]) -> Iterator[list[Step]]:
        """What each part gives, in their order."""
        sizes = sizes_of(session, parts)
        alone = len(parts) < 2 or (self.count < 2 and self.executor is None) or session.options.watch is not None
        if alone or (self.executor is None and (sum(sizes) < WORTH_IT or max(sizes) > 0.9 * sum(sizes))):
            yield from self.alone(session, parts)
        elif self.executor is not None:
            yield from self.together(self.executor, session, paths, list(zip(sizes, parts, strict=True)), self.count)
        else:
            name = _name(session)
            _sessions[name] = session  # the processes start with it
            try:
                with _processes(min(self.count, len(parts))) as pool:
                    yield from self.together(pool, session, paths, list(zip(sizes, parts, strict=True)), self.count)
            finally:
                _sessions.pop(name, None)

    def takes_long(self, session: Session, parts: Sequence[Sequence[Path]]) -> bool:
        """The same with any executor and any number of processes."""
        return len(parts) > 1 and sum(sizes_of(session, parts)) >= WORTH_IT

    def alone(self, session: Session, parts: Sequence[Sequence[Path]]) -> Iterator[list[Step]]:
        total, done = sum(map(len, parts)), 0
        for part in parts:
            yield session.check_part(part)
            done += len(part)
            self.tell(done, total)

    def together(
        self,
        pool: Executor,
        session: Session,
        paths: Sequence[Path],
        parts: list[tuple[int, Sequence[Path]]],
        count: int,
    ) -> Iterator[list[Step]]:
        forked = self.executor is None and _forks()
        waiting: dict[Future[Done], tuple[tuple[Path, ...], ...]] = {}
        found: dict[tuple[Path, ...], list[Step]] = {}
        following = iter([tuple(part) for _, part in parts])
        first = next(following, None)
        total, done = sum(len(part) for _, part in parts), 0
        for batch in batches(parts, count * JOBS_EACH):
            options = None if forked else session.options
            job = Job(_name(session), tuple(paths), options, batch)
            waiting[pool.submit(work, job)] = batch
        try:
            for future in as_completed(waiting):
                batch = waiting[future]
                found |= zip(batch, self.result(future, session, batch), strict=True)
                done += sum(map(len, batch))
                self.tell(done, total)
                while first is not None and first in found:
                    yield found.pop(first)
                    first = next(following, None)
        except BaseException:
            for future in waiting:
                future.cancel()
            raise

    def result(self, future: Future[Done], session: Session, batch: tuple[tuple[Path, ...], ...]) -> list[list[Step]]:
        """What a job gave. A worker that has died, of too little memory say, is no reason to give up: it is done here."""
        try:
            found = future.result()
        except BrokenExecutor:
            return [session.check_part(part) for part in batch]
        disk.note_all(found.asked)
        return found.steps

    def tell(self, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(done, total)


def sizes_of(session: Session, parts: Sequence[Sequence[Path]]) -> list[int]:
    """The characters of the scripts of each part."""
    return [sum(len(session.data.get(script, "")) for script in part) for part in parts]


def batches(parts: list[tuple[int, Sequence[Path]]], wanted: int) -> Iterator[tuple[tuple[Path, ...], ...]]:
    """Parts in batches of about the same size: first those that are large by themselves, then the others in their order."""
    most = sum(size for size, _ in parts) / max(wanted, 1)
    batch: list[tuple[Path, ...]] = []
    held = 0
    for size, part in sorted(parts, key=lambda it: min(most / 2 - it[0], 0.0)):
        if batch and held + size > most:
            yield tuple(batch)
            batch, held = [], 0
        batch.append(tuple(part))
        held += size
    if batch:
        yield tuple(batch)


def _name(session: Session) -> str:
    return f"{os.getpid()} {id(session)}"


def _forks() -> bool:
    return sys.platform == "linux"


def _processes(count: int) -> Executor:
    """Processes of this machine. Where it is safe they are forked, and so start with all that was read."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    return ProcessPoolExecutor(count, multiprocessing.get_context("fork" if _forks() else "spawn"))


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def executor(place: str) -> tuple[Executor, int]:
    """The executor that `dask://HOST:PORT` or `module:function` (which makes one) stands for, and how many hands it has."""
    kind, separator, rest = place.partition("://")
    if separator and kind == "dask":
        return _dask(rest)
    module, colon, name = place.partition(":")
    if separator or not colon:
        raise WorkersError(f"{place!r} is no executor: write dask://HOST:PORT, or module:function for one of your own")
    try:
        made = getattr(importlib.import_module(module), name)()
    except Exception as error:  # of whatever it runs
        raise WorkersError(f"{place} gives no executor: {type(error).__name__}: {error}") from error
    if not isinstance(made, Executor):
        raise WorkersError(f"{place} gives a {type(made).__name__}, not a concurrent.futures.Executor")
    return made, getattr(made, "_max_workers", None) or cores()


def _dask(address: str) -> tuple[Executor, int]:
    try:
        from distributed import Client
    except ImportError:
        raise WorkersError("a Dask cluster needs an extra: pip install 't4lint[dask]'") from None
    try:
        client = Client(f"tcp://{address}", timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise WorkersError(f"there is no Dask scheduler at {address}: {error}") from None
    count = sum(int(worker["nthreads"]) for worker in client.scheduler_info()["workers"].values())
    made: Executor = client.get_executor()
    return made, max(count, 1)
