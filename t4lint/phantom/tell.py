"""What the phantom needs of the recorder that it is a device of."""

from __future__ import annotations

from typing import Any, Protocol

Place = tuple[str, int]


class Tell(Protocol):
    """Where things are written down, and where the program stands."""

    def fact(self, kind: str, **data: Any) -> None:
        """Write a fact that may repeat, with the person's own line."""

    def trouble(self, probe: str, error: BaseException) -> None:
        """A part of the phantom failed; the program goes on."""

    def phase(self) -> str:
        """setup, forward, backward or optimizer."""

    def step(self) -> int:
        """Optimizer steps so far."""

    def count(self, what: str) -> None:
        """Something that may happen thousands of times: only how often in each step is told."""

    def place(self) -> Place | None:
        """The person's own line that is running, as (path below the project, line)."""


class Card:
    """The GPU to be: its name, capability, total memory and context in bytes, processors, shared memory of a block."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.name: str = told["name"]
        self.capability: tuple[int, int] = (told["capability"][0], told["capability"][1])
        self.total_memory: int = told["total_memory"]
        self.context: int = told["context"]
        self.processors: int = told["processors"]
        self.shared: int = told["shared"]
        self.count: int = told.get("count", 1)

    @property
    def usable(self) -> int:
        """Bytes that torch's allocator can reserve."""
        return self.total_memory - self.context
