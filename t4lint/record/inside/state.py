"""Where the run stands: steps, micro-batches, math since the last step, names of objects."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from typing import Any


class Region:
    """An autocast region as asked for. `dtype` is "none" where it was asked to be off."""

    __slots__ = ("context", "device", "dtype")

    def __init__(self, context: Any, device: str, dtype: str) -> None:
        self.context, self.device, self.dtype = context, device, dtype


class Regions(threading.local):
    """The nest of autocast regions of this thread; autocast state is thread-local in torch too."""

    def __init__(self) -> None:
        self.stack: list[Region] = []

    @property
    def dtype(self) -> str:
        """The dtype asked for by the innermost region, or "none"."""
        return self.stack[-1].dtype if self.stack else "none"


class State:
    """One process. Plain attributes: probes read and write them on hot paths."""

    def __init__(self) -> None:
        self.step = 0
        self.micro = 0
        self.phase = "setup"
        self.backwards = 0  # since the last step
        self.depth = 0  # of nested backward calls
        self.reentrant = False  # activation checkpointing runs the forward without grad
        self.compiled = False
        self.scalers_stepping: list[str] = []
        self.scales = ""  # the engine that scales the loss of this backward by itself
        self.closure = False  # a step is being taken that runs the forward and the backward itself
        self.engine_step: Any = None  # the step of an engine that is being taken
        self.asked: dict[str, float] = {}  # FLOPs since the last step, by the dtype that CUDA would use
        self.ran: dict[str, float] = {}  # the same by the dtype that was used here
        self.asked_without_grad: dict[str, float] = {}
        self.ran_without_grad: dict[str, float] = {}
        self.forward: dict[str, float] = {}  # FLOPs since the last backward, by asked dtype
        self.forward_ran: dict[str, float] = {}  # the same by the dtype that was used here
        self.region = ""  # the autocast dtype of the last forward, "" before any since the last backward
        self.last_region = "none"
        self.entered = ""  # the autocast dtype of the last region entered since the last backward
        self.regions = Regions()
        self.stepped: set[str] = set()
        self.replicas: weakref.WeakSet[Any] = weakref.WeakSet()  # modules that DDP keeps alike
        self.taken: weakref.WeakSet[Any] = weakref.WeakSet()  # models that a trainer has been given
        self.forward_in_no_sync = False  # the last forward of one of them
        self.counts: Counter[str] = Counter()  # since the last step: copies, waits, calls of attention by kernel

    @property
    def in_no_sync(self) -> bool:
        return any(not replica.require_backward_grad_sync for replica in list(self.replicas))

    def math(self, asked: bool) -> dict[str, float] | None:
        """Share of FLOPs by dtype since the last step, or None where nothing was seen."""
        table = dict(self.asked if asked else self.ran)
        if self.reentrant or not table:
            for dtype, flops in (self.asked_without_grad if asked else self.ran_without_grad).items():
                table[dtype] = table.get(dtype, 0.0) + flops
        total = sum(table.values())
        return {dtype: round(flops / total, 6) for dtype, flops in sorted(table.items())} if total else None

    def flops(self) -> dict[str, dict[str, float]]:
        """FLOPs of forward products and convolutions since the last step, by dtype."""
        return {"asked": dict(self.asked), "ran": dict(self.ran)}

    def forget_math(self) -> None:
        for table in (
            self.asked,
            self.ran,
            self.asked_without_grad,
            self.ran_without_grad,
            self.forward,
            self.forward_ran,
        ):
            table.clear()


class Names:
    """Names for objects in order of appearance: `optimizer#0`, `optimizer#1`."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.count = 0
        self.known: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def of(self, thing: Any) -> str:
        name = self.known.get(thing)
        if name is None:
            name = self.known[thing] = f"{self.kind}#{self.count}"
            self.count += 1
        return name


state = State()
configured: dict[str, Any] = {}  # by engine: the site where what it makes of DeepSpeed was configured
optimizers = Names("optimizer")
scalers = Names("scaler")
