"""What `torch.cuda` answers: a card of the target's, its memory as the ledger has it, streams and events that do nothing."""

from __future__ import annotations

import sys
from typing import Any

from . import backend
from .ledger import Ledger
from .tell import Card

CUDA_VERSION = "12.8"  # what torch.version.cuda says where the build has none
CUDNN_VERSION = 91002


class Properties:
    """`torch.cuda.get_device_properties`. Limits of blocks and registers: CUDA C++ Programming Guide, table of 7.x."""

    def __init__(self, card: Card) -> None:
        self.name = self.gcnArchName = card.name
        self.major, self.minor = card.capability
        self.total_memory = card.total_memory
        self.multi_processor_count = card.processors
        self.shared_memory_per_block_optin = self.shared_memory_per_multiprocessor = card.shared
        self.shared_memory_per_block = 48 << 10
        self.regs_per_multiprocessor = 65536
        self.max_threads_per_multi_processor = 1024 if card.capability == (7, 5) else 2048
        self.max_threads_per_block = 1024
        self.warp_size = 32
        self.L2_cache_size = 4 << 20
        self.is_integrated = self.is_multi_gpu_board = 0
        self.uuid = "phantom"
        self.pci_bus_id, self.pci_device_id, self.pci_domain_id = 0, 4, 0

    def __repr__(self) -> str:
        return f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, phantom)"


class Event:
    """An event that has always happened."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.cuda_event = 0

    def record(self, stream: Any = None) -> None: ...
    def synchronize(self) -> None: ...
    def wait(self, stream: Any = None) -> None: ...

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: Any) -> float:
        return 1.0  # milliseconds; a phantom has no time


class Nothing:
    """A context that does nothing: a device, a stream."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __enter__(self) -> Nothing:
        return self

    def __exit__(self, *args: object) -> None: ...


class Stream(Nothing):
    """A stream on which everything is done already."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.cuda_stream = self.priority = self.stream_id = self.device_index = 0
        self.device_type = 1

    def synchronize(self) -> None: ...
    def wait_stream(self, stream: Any) -> None: ...
    def wait_event(self, event: Any) -> None: ...

    def record_event(self, event: Any = None) -> Any:
        return event or Event()

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    @property
    def device(self) -> Any:
        return sys.modules["torch"].device("cuda", self.device_index)


class Graph(Nothing):
    """A CUDA graph: what it would capture runs as it is."""

    def capture_begin(self, *args: Any, **kwargs: Any) -> None: ...
    def capture_end(self) -> None: ...
    def replay(self) -> None: ...
    def reset(self) -> None: ...
    def pool(self) -> tuple[int, int]:
        return (0, 0)


class Fine:
    """Libraries of CUDA that tools of profiling call into (NVTX, the runtime): each function says that it went well."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: 0


def install(torch: Any, card: Card, ledger: Ledger) -> None:
    """Replace what asks the driver; what only computes on the answers (capability, name, bf16) stays torch's own."""
    cuda = torch.cuda
    for name, value in _answers(torch, card, ledger).items():
        if hasattr(cuda, name):
            setattr(cuda, name, value)
    for name, value in _memory(card, ledger).items():
        setattr(cuda, name, value)
        if hasattr(cuda.memory, name):
            setattr(cuda.memory, name, value)
    _random(torch)
    _native(torch)
    functions = sys.modules.get("torch.nn.parallel._functions")
    if functions is not None:
        functions._get_stream = lambda device: Stream()  # type: ignore[attr-defined]
    torch.Tensor.record_stream = lambda self, stream: None
    _accelerator(torch)
    torch.version.cuda = torch.version.cuda or CUDA_VERSION
    torch.backends.cudnn.is_available = lambda: True
    torch.backends.cudnn.version = lambda: CUDNN_VERSION


def _accelerator(torch: Any) -> None:
    """`torch.accelerator`, which came with torch 2.6, asks C++."""
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None:
        return
    cuda = torch.cuda
    answers = {
        "is_available": lambda: True, "device_count": cuda.device_count, "synchronize": cuda.synchronize,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": cuda.current_device, "current_device_idx": cuda.current_device,
        "set_device_index": cuda.set_device, "set_device_idx": cuda.set_device,
        "current_stream": cuda.current_stream, "set_stream": cuda.set_stream, "device_index": Nothing,
        "empty_cache": cuda.empty_cache, "memory_allocated": cuda.memory_allocated,
        "max_memory_allocated": cuda.max_memory_allocated, "memory_reserved": cuda.memory_reserved,
        "max_memory_reserved": cuda.max_memory_reserved, "memory_stats": cuda.memory_stats,
        "reset_peak_memory_stats": cuda.reset_peak_memory_stats,
    }  # fmt: skip
    for name, value in answers.items():
        if hasattr(accelerator, name):
            setattr(accelerator, name, value)


def _answers(torch: Any, card: Card, ledger: Ledger) -> dict[str, Any]:
    properties = Properties(card)
    stream = Stream()
    device = {"index": 0, "chosen": False}

    def set_device(chosen: Any) -> None:
        device["chosen"] = True
        index = chosen if isinstance(chosen, int) else torch.device(chosen).index
        device["index"] = index if index is not None and index >= 0 else device["index"]
        backend.choose(device["index"])

    def of(device: Any = None) -> Properties:
        return properties

    def nothing(*args: Any, **kwargs: Any) -> None: ...

    return {
        "is_available": lambda: True,
        "device_count": lambda: card.count,
        "_device_count_nvml": lambda: card.count,
        # by its first use: device meshes choose the GPU of a rank where nothing has been done yet
        "is_initialized": lambda: device["chosen"] or ledger.allocator.peak_allocated > 0,
        "_lazy_call": lambda function, **kwargs: function(),
        "_is_in_bad_fork": lambda: False,
        "_lazy_init": nothing,
        "init": nothing,
        "current_device": lambda: device["index"],
        "set_device": set_device,
        "synchronize": nothing,
        "get_device_properties": of,
        "_get_device_properties": of,
        "get_arch_list": lambda: [f"sm_{card.capability[0]}{card.capability[1]}"],
        "can_device_access_peer": lambda first, second: False,
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "stream": Nothing,
        "set_stream": nothing,
        "Stream": Stream,
        "Event": Event,
        "CUDAGraph": Graph,
        "graph": Nothing,
        "graph_pool_handle": lambda: (0, 0),
        "make_graphed_callables": lambda callables, *args, **kwargs: callables,
        "device": Nothing,
        "device_of": Nothing,
        "ipc_collect": nothing,
        "cudart": Fine,
        "check_error": nothing,
        "is_current_stream_capturing": lambda: False,
        "utilization": lambda device=None: 0,
        "is_tf32_supported": lambda: card.capability >= (8, 0),
    }


def _memory(card: Card, ledger: Ledger) -> dict[str, Any]:
    """Bytes, as the allocator has them."""
    allocator = ledger.allocator

    def reset(device: Any = None) -> None:
        allocator.window_allocated, allocator.window_reserved = allocator.allocated, allocator.reserved

    def stats(device: Any = None) -> dict[str, Any]:
        return {
            "allocated_bytes.all.current": allocator.allocated,
            "allocated_bytes.all.peak": allocator.window_allocated,
            "reserved_bytes.all.current": allocator.reserved,
            "reserved_bytes.all.peak": allocator.window_reserved,
            "active_bytes.all.current": allocator.allocated,
            "active_bytes.all.peak": allocator.window_allocated,
            "num_alloc_retries": 0,
            "num_ooms": int(ledger.over),
        }

    def free_and_total(device: Any = None) -> tuple[int, int]:
        return max(0, card.usable - allocator.reserved), card.total_memory

    def summary(*args: Any, **kwargs: Any) -> str:
        return "\n".join(f"{name}: {value}" for name, value in stats().items())

    return {
        "mem_get_info": free_and_total,
        "memory_allocated": lambda device=None: allocator.allocated,
        "max_memory_allocated": lambda device=None: allocator.window_allocated,
        "memory_reserved": lambda device=None: allocator.reserved,
        "max_memory_reserved": lambda device=None: allocator.window_reserved,
        "memory_cached": lambda device=None: allocator.reserved,
        "max_memory_cached": lambda device=None: allocator.window_reserved,
        "reset_peak_memory_stats": reset,
        "reset_max_memory_allocated": reset,
        "reset_max_memory_cached": reset,
        "reset_accumulated_memory_stats": lambda device=None: None,
        "memory_stats": stats,
        "memory_stats_as_nested_dict": lambda device=None: {},
        "memory_summary": summary,
        "memory_snapshot": lambda *args, **kwargs: [],
        "_record_memory_history": lambda *args, **kwargs: None,
        "_dump_snapshot": lambda *args, **kwargs: None,
        "_snapshot": lambda *args, **kwargs: {"segments": [], "device_traces": [[]]},
        "empty_cache": ledger.emptied,
        "set_per_process_memory_fraction": lambda fraction, device=None: None,
    }


def _random(torch: Any) -> None:
    """Seeds and states: the CPU's generator stands for the card's."""
    kept = {"state": torch.zeros(16, dtype=torch.uint8)}

    def nothing(*args: Any, **kwargs: Any) -> None: ...

    def keep(state: Any, device: Any = "cuda") -> None:
        kept["state"] = state

    answers = {
        "manual_seed": nothing, "manual_seed_all": nothing, "seed": nothing, "seed_all": nothing,
        "initial_seed": lambda: 0,
        "get_rng_state": lambda device="cuda": kept["state"].clone(), "set_rng_state": keep,
        "get_rng_state_all": lambda: [kept["state"].clone()], "set_rng_state_all": nothing,
    }  # fmt: skip
    for name, value in answers.items():
        setattr(torch.cuda, name, value)
        if hasattr(torch.cuda.random, name):
            setattr(torch.cuda.random, name, value)
    original = torch.Generator

    class Kind(type(original)):  # type: ignore[misc]
        """Generators of the CPU are made by the original, and are generators."""

        def __instancecheck__(cls, it: Any) -> bool:
            return isinstance(it, original)

    class Generator(original, metaclass=Kind):  # type: ignore[misc, valid-type]
        """A generator that says it is on the device that it was asked for."""

        def __new__(cls, device: Any = "cpu") -> Any:
            asked = torch.device(device)
            if asked.type != "cuda":
                return original(device)
            made = original.__new__(cls, "cpu")
            made.asked = asked
            return made

        def __init__(self, device: Any = "cpu") -> None: ...

        @property
        def device(self) -> Any:
            return self.asked

    Generator.__name__ = Generator.__qualname__ = "Generator"
    torch.Generator = Generator
    torch.cuda.default_generators = (torch.default_generator,)


def _native(torch: Any) -> None:
    """Functions of the CUDA build that Python code of torch calls by name: this build has none, or they ask the driver."""

    def _scatter(tensor: Any, devices: Any, sizes: Any = None, dim: int = 0, streams: Any = None) -> Any:
        parts = tensor.split(list(sizes), dim) if sizes else tensor.chunk(len(devices), dim)
        return tuple(part.to(_device(torch, device)) for part, device in zip(parts, devices, strict=False))

    functions: dict[str, Any] = {
        "_cuda_getCurrentRawStream": lambda device=0: 0,
        "_cuda_getDevice": lambda: 0,
        "_cuda_setDevice": lambda device: None,
        "_cuda_synchronize": lambda: None,
        "_cuda_emptyCache": lambda: None,
        "_cuda_isInBadFork": lambda: False,
        "_cuda_isCurrentStreamCapturing": lambda: False,
        "_cuda_getDeviceCount": lambda: 1,
        "_cuda_getArchFlags": lambda: "",
        "_scatter": _scatter,
        "_gather": lambda tensors, dim, device=None: torch.cat([it.to(_device(torch, device)) for it in tensors], dim),
        "_broadcast_coalesced": lambda tensors, devices, size: [
            [it.to(_device(torch, device)) for it in tensors] for device in devices
        ],
    }
    for name, value in functions.items():
        setattr(torch._C, name, value)
    if hasattr(torch.cuda, "nvtx"):
        torch.cuda.nvtx._nvtx = Fine()
    torch.amp.is_autocast_available = torch.amp.autocast_mode.is_autocast_available = lambda device: True
    for module in (getattr(torch.cuda.amp, "common", None), torch.amp.grad_scaler):
        if hasattr(module, "amp_definitely_not_available"):
            module.amp_definitely_not_available = lambda: False  # type: ignore[union-attr]


def _device(torch: Any, index: Any) -> Any:
    """DataParallel speaks of devices as numbers: -1 is the CPU."""
    if index is None or not isinstance(index, int):
        return torch.device("cuda" if index is None else index)
    return torch.device("cuda", index) if index >= 0 else torch.device("cpu")
