"""Every storage on the phantom: when it came, how large it is, what made it, and what the peak is made of."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

from .allocator import Allocator, DoesNotFit, rounded
from .tell import Place, Tell

LARGEST = 8  # tensors of the peak that are told of
MOMENTS = 240  # of the whole run that are told of
WORKSPACE = 2 * 4096 * 1024 + 8 * 16 * 1024  # bytes: cuBLAS below Hopper, ":4096:2:16:8" (torch, CUDABlas workspaces)
KINDS = {"setup": "other", "forward": "activations", "backward": "temporary", "optimizer": "temporary"}


class _Entry:
    __slots__ = ("address", "kind", "operation", "place", "size")

    def __init__(self, address: int, size: int, kind: str, operation: str, place: Place | None) -> None:
        self.address, self.size, self.kind, self.operation, self.place = address, size, kind, operation, place


class Ledger:
    """One device. `limit` in bytes: beyond it the first place is told, and the run goes on."""

    def __init__(self, tell: Tell, limit: int) -> None:
        self.tell = tell
        self.limit = limit
        self.allocator = Allocator(limit)
        self.over = False
        self.peak_phase = "setup"
        self.phases: dict[str, int] = {}
        self.live: dict[int, _Entry] = {}  # by the storage's address
        self._watched: dict[int, Any] = {}
        self._events: list[tuple[bool, _Entry]] = []
        self._stretches: list[tuple[int, int, str]] = []  # the event from which on it is another step or phase
        self._workspaces: set[str] = set()
        self.optional: list[tuple[int, int]] = []  # (the event that it would come before, bytes)
        self._emptied: set[int] = set()  # the events that it came before

    def add(self, storage: Any, operation: str) -> None:
        """A storage that an operation has made, once."""
        key = storage._cdata
        size = storage.nbytes()
        if key in self.live or not size:
            return
        entry = self._take(size, operation)
        self.live[key] = entry
        self._watched[key] = weakref.ref(storage, lambda _: self._gone(key))

    def passing(self, size: int, operation: str) -> None:
        """Memory that an operation takes and gives back before it returns."""
        entry = self._take(size, operation)
        self._give(entry)

    def could_take(self, size: int) -> None:
        """Memory that an operation would take for its time where there is some, and can do without: not counted."""
        if size:
            self.optional.append((len(self._events), size))

    def emptied(self) -> None:
        """What is held and not used goes back to the driver."""
        self.allocator.release()
        self._emptied.add(len(self._events))

    def matmul(self) -> None:
        """The first product of a thread makes a workspace for cuBLAS that stays: forward and backward are two threads."""
        thread = "backward" if self.tell.phase() == "backward" else "forward"
        if thread not in self._workspaces:
            self._workspaces.add(thread)
            self._take(WORKSPACE, "workspace").kind = "workspace"

    def label(self, storage: Any, kind: str) -> None:
        """Say what a storage is: weights, gradients, optimizer."""
        entry = self.live.get(storage._cdata)
        if entry is not None:
            entry.kind = kind

    def summary(self) -> dict[str, Any]:
        """Bytes at the peak, by what they are, and the largest tensors."""
        at_peak = self._at_peak()
        components: dict[str, int] = {}
        tensors: dict[tuple[str, str, Place | None], list[int]] = {}
        for entry in at_peak:
            components[entry.kind] = components.get(entry.kind, 0) + entry.size
            tensors.setdefault((entry.kind, entry.operation, entry.place), []).append(entry.size)
        largest = sorted(tensors.items(), key=lambda item: -sum(item[1]))[:LARGEST]
        return {
            "allocated": self.allocator.peak_allocated,
            "reserved": self.allocator.peak_reserved,
            "limit": self.limit,
            "phase": self.peak_phase,
            "phases": dict(self.phases),
            "components": components,
            "largest": [
                {"kind": kind, "operation": operation, "at": place, "bytes": sum(sizes), "count": len(sizes)}
                for (kind, operation, place), sizes in largest
            ],
        }

    def moments(self) -> list[dict[str, Any]]:
        """What was there over the run, as bytes by kind: the fullest moment of each of some equal parts of each stretch.

        Kinds are those that the storages had in the end, so that a weight counts as one from the start.
        """
        found: list[dict[str, Any]] = []
        if not self._stretches:
            return found
        width = max(1, len(self._events) // MOMENTS)
        if not self._stretches:
            return found
        ends = [start for start, _, _ in self._stretches[1:]] + [len(self._events)]
        held: dict[str, int] = {}
        for (start, step, phase), end in zip(self._stretches, ends, strict=True):
            for first in range(start, end, width):
                fullest = self._fullest(held, first, min(first + width, end))
                found.append({"step": step, "in_phase": phase, "components": fullest})
        return found

    def _fullest(self, held: dict[str, int], first: int, end: int) -> dict[str, int]:
        """Apply events to what is `held`, and return what it was at its fullest."""
        total = most = sum(held.values())
        fullest = dict(held)
        for came, entry in self._events[first:end]:
            change = entry.size if came else -entry.size
            held[entry.kind] = held.get(entry.kind, 0) + change
            total += change
            if total > most:
                most, fullest = total, dict(held)
        return {kind: size for kind, size in fullest.items() if size}

    def reserved_with_optional(self) -> int:
        """Bytes at most, had all of that been taken where it fits: what a monitor of the card may see."""
        replay = Allocator(self.limit)
        addresses: dict[int, int] = {}
        wanted = iter([*self.optional, (len(self._events), 0)])
        at, size = next(wanted)
        for number, (came, entry) in enumerate([*self._events, (False, None)]):
            while at == number and size:
                with contextlib.suppress(DoesNotFit):
                    replay.free(replay.allocate(size))
                at, size = next(wanted)
            if entry is None:
                break
            if number in self._emptied:
                replay.release()
            if came:
                addresses[id(entry)] = _anyway(replay, entry.size)
            else:
                replay.free(addresses.pop(id(entry)))
        return replay.peak_reserved

    def _at_peak(self) -> list[_Entry]:
        """What was there when most was allocated."""
        current = peak = index = 0
        for number, (came, entry) in enumerate(self._events):
            current += entry.size if came else -entry.size
            if current > peak:
                peak, index = current, number + 1
        there: dict[int, _Entry] = {}
        for came, entry in self._events[:index]:
            if came:
                there[id(entry)] = entry
            else:
                there.pop(id(entry), None)
        return list(there.values())

    def _take(self, size: int, operation: str) -> _Entry:
        phase, step = self.tell.phase(), self.tell.step()
        if not self._stretches or self._stretches[-1][1:] != (step, phase):
            self._stretches.append((len(self._events), step, phase))
        try:
            address = self.allocator.allocate(size)
        except DoesNotFit as error:
            self._does_not_fit(size, error.wanted, phase)
            address = self.allocator.allocate(size)
        entry = _Entry(address, rounded(size), KINDS.get(phase, "other"), operation, self.tell.place())
        self._events.append((True, entry))
        now = self.allocator.allocated
        self.phases[phase] = max(self.phases.get(phase, 0), now)
        if now == self.allocator.peak_allocated:
            self.peak_phase = phase
        return entry

    def _give(self, entry: _Entry) -> None:
        self.allocator.free(entry.address)
        self._events.append((False, entry))

    def _gone(self, key: int) -> None:
        self._watched.pop(key, None)
        entry = self.live.pop(key, None)
        if entry is not None:
            self._give(entry)

    def _does_not_fit(self, size: int, wanted: int, phase: str) -> None:
        """Told once; from here on there is no limit, so that the whole need is known."""
        self.allocator.limit = None
        if not self.over:
            self.over = True
            self.tell.fact(
                "out_of_memory", bytes=size, segment=wanted, reserved=self.allocator.reserved, limit=self.limit,
                allocated=self.allocator.allocated, in_phase=phase,
            )  # fmt: skip


def _anyway(allocator: Allocator, size: int) -> int:
    try:
        return allocator.allocate(size)
    except DoesNotFit:
        allocator.limit = None
        return allocator.allocate(size)
