"""Several ranks, each with a phantom of its own: groups that exchange nothing, and the buckets that DDP would take."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_map

from .membrane import CUDA, Membrane

BUCKETS = "DDP bucket"


def install(membrane: Membrane) -> None:
    """NCCL becomes torch's own group that only answers."""
    distributed: Any = torch.distributed
    if not distributed.is_available():
        return
    module = distributed.distributed_c10d
    original = module.init_process_group

    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        _collectives()
        world = int(os.environ.get("WORLD_SIZE") or kwargs.get("world_size") or 1)
        rank = int(os.environ.get("RANK") or kwargs.get("rank") or 0)
        return original(backend="fake", rank=max(rank, 0), world_size=max(world, 1), store=FakeStore())

    module.init_process_group = distributed.init_process_group = init_process_group
    module.is_nccl_available = distributed.is_nccl_available = lambda: True
    _meshes()
    _replicas(membrane)


def _collectives() -> None:
    """Shapes of what groups exchange: torch brings them in a module that it loads by itself, older ones in a tool's."""
    if importlib.util.find_spec("torch.distributed._meta_registrations") is None:
        with contextlib.suppress(ImportError):
            importlib.import_module("torch.distributed._tools.fake_collectives")


def _meshes() -> None:
    """A mesh of devices chooses the GPU of its rank where nothing has been done on one yet. With a group that only answers
    torch leaves that out (from 2.13 on, device_mesh.py)."""
    mesh = torch.distributed.device_mesh.DeviceMesh
    setup = getattr(mesh, "_setup_world_group_and_device", None)
    if setup is None:
        return

    def setup_world_group_and_device(self: Any) -> Any:
        if self.device_type == CUDA and not torch.cuda.is_initialized():
            rank = os.environ.get("LOCAL_RANK") or os.environ.get("RANK") or 0
            torch.cuda.set_device(int(rank) % max(1, torch.cuda.device_count()))
        return setup(self)

    mesh._setup_world_group_and_device = setup_world_group_and_device


def _replicas(membrane: Membrane) -> None:
    """DDP's reducer works on values in C++. Here: the module as it is, and a copy of the gradients in buckets.

    With `gradient_as_bucket_view` the gradients are views of the buckets, so that nothing is added.
    """

    class DistributedDataParallel(torch.nn.Module):  # type: ignore[misc]
        """The module, and memory for the buckets."""

        def __init__(self, module: Any, device_ids: Any = None, *args: Any, **kwargs: Any) -> None:
            super().__init__()
            self.module = module
            self.device_ids = device_ids
            self.require_backward_grad_sync = True
            trained = [it for it in module.parameters() if it.requires_grad and it.device.type == CUDA]
            self._buckets: list[Any] = []
            if not kwargs.get("gradient_as_bucket_view"):
                sizes: dict[Any, int] = {}
                for it in trained:
                    sizes[it.dtype] = sizes.get(it.dtype, 0) + it.numel()
                self._buckets = [torch.empty(count, dtype=dtype, device=CUDA) for dtype, count in sizes.items()]

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            if self.device_ids:  # as DDP does with one device
                args, kwargs = tree_map(self._moved, (args, kwargs))
            return self.module(*args, **kwargs)

        def _moved(self, value: Any) -> Any:
            there = isinstance(value, torch.Tensor) and value.device.type == CUDA
            device = self.device_ids[0]
            device = device if isinstance(device, (str, torch.device)) else torch.device(CUDA, device)
            return value.to(device) if isinstance(value, torch.Tensor) and not there else value

        @contextlib.contextmanager
        def no_sync(self) -> Iterator[None]:
            before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
            try:
                yield
            finally:
                self.require_backward_grad_sync = before

        def register_comm_hook(self, state: Any, hook: Any) -> None: ...

    parallel = torch.nn.parallel
    parallel.DistributedDataParallel = parallel.distributed.DistributedDataParallel = DistributedDataParallel
