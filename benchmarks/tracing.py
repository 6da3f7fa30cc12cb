"""Trace the memory of training steps on a CUDA GPU that is not there.

Tensors are fakes (`FakeTensorMode`) that say `cuda`, so that autocast, the choice of attention kernels and the optimizers
behave as on a T4, and nothing is computed or allocated. Two patches make autograd run for such tensors on a torch without
CUDA: a device guard that does nothing, and `CUDAHooks` that answer "there is one device". The places of the virtual
functions are read from the headers that torch ships. This is a tool of benchmarks and of the script that builds the table
of blocks: run it in a process of its own. It was tried on torch 2.13 (CPU wheel, Linux).

Exact on the CPU allocator for transformers (within 1e-6, and 0.7 % for ResNet-50, see docs/memory.md); what it cannot see is
memory allocated inside kernels: workspaces of cuBLAS and cuDNN.
"""

from __future__ import annotations

import ctypes
import re
import weakref
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
import torch._subclasses.fake_tensor as fake_tensor
from torch.utils._python_dispatch import TorchDispatchMode

from t4lint.phantom import kernels

GRANULE = 512  # bytes that CUDA's caching allocator rounds to (c10/cuda/CUDACachingAllocator.cpp, kMinBlockSize)
CUDA = 1  # c10::DeviceType
_HEADERS = Path(torch.__file__).parent / "include" / "ATen" / "detail"
_LIBRARIES = Path(torch.__file__).parent / "lib"
_alive: list[Any] = []  # what C++ points at must never be freed


def install() -> None:
    """Make this process believe in a T4. Not to be undone."""
    _install_guard()
    _install_hooks()
    kernels.install()  # else the backward of SiLU counts five tensors that no GPU makes
    _answer_as_a_t4()
    fake_tensor.FakeTensorMode.avoid_device_init = property(lambda self: True)  # type: ignore[assignment]
    torch.utils.weakref = _NoReferences  # type: ignore[attr-defined]  # else `module.to("cuda")` refuses fakes
    torch.nn.functional.scaled_dot_product_attention = _attention


# --- C++ ----------------------------------------------------------------------------------------------------------


def _install_guard() -> None:
    library = ctypes.CDLL(str(_LIBRARIES / "libc10.so"))
    registry = (ctypes.c_void_p * 32).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
    if registry[CUDA]:
        return
    nothing = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_void_p)(lambda self: 0)
    address = ctypes.cast(nothing, ctypes.c_void_p).value
    table = (ctypes.c_void_p * 64)(*[address] * 64)
    guard = ctypes.c_void_p(ctypes.addressof(table))
    _alive.extend([library, nothing, table, guard])
    registry[CUDA] = ctypes.addressof(guard)
    torch._C._ensureCUDADeviceGuardSet()


def _virtual_functions(header: str) -> list[str]:
    text = re.sub(r"//[^\n]*", "", (_HEADERS / header).read_text())
    names = re.findall(r"virtual\s+(?:[\w:&<>\*,\s]+?)\s*[\s&\*]([~\w]+)\s*\(", text)
    return [name for name in names if not name.startswith("~")]


def _install_hooks() -> None:
    general, own = _virtual_functions("AcceleratorHooksInterface.h"), _virtual_functions("CUDAHooksInterface.h")
    order = ["", "", *general, *(name for name in own if name not in general)]  # two destructors come first
    library = ctypes.CDLL(str(_LIBRARIES / "libtorch_cpu.so"))
    getter = library["_ZN2at6detail12getCUDAHooksEv"]
    getter.restype = ctypes.c_void_p
    hooks = ctypes.cast(getter(), ctypes.POINTER(ctypes.c_void_p))
    before = ctypes.cast(hooks[0] - 16, ctypes.POINTER(ctypes.c_void_p))  # offset and type stand before the table
    table = (ctypes.c_void_p * (len(order) + 18))(*[before[i] for i in range(len(order) + 2)])
    this = ctypes.c_void_p
    yes = ctypes.CFUNCTYPE(ctypes.c_bool, this)(lambda self: True)
    yes_of = ctypes.CFUNCTYPE(ctypes.c_bool, this, ctypes.c_int8)(lambda self, device: True)
    one = ctypes.CFUNCTYPE(ctypes.c_int8, this)(lambda self: 1)
    zero = ctypes.CFUNCTYPE(ctypes.c_int8, this)(lambda self: 0)
    nothing = ctypes.CFUNCTYPE(None, this)(lambda self: None)
    answers = {
        "hasCUDA": yes, "isBuilt": yes, "isAvailable": yes, "hasPrimaryContext": yes_of,
        "deviceCount": one, "getCurrentDevice": zero, "init": nothing,
    }  # fmt: skip
    for name, answer in answers.items():
        table[order.index(name) + 2] = ctypes.cast(answer, ctypes.c_void_p).value
    _alive.extend([library, table, *answers.values()])
    hooks[0] = ctypes.addressof(table) + 16


# --- Python -------------------------------------------------------------------------------------------------------


class _NoReferences:
    ref = weakref.ref

    @staticmethod
    def getweakrefs(tensor: object) -> list[object]:
        return []


class _Stream:
    device = torch.device("cuda:0")
    cuda_stream = 0

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **keywords: None


class _Region:
    def __init__(self, *arguments: object) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def _answer_as_a_t4() -> None:
    cuda: Any = torch.cuda
    state = torch.zeros(16, dtype=torch.uint8)
    constants: dict[str, Any] = {
        "is_available": True, "device_count": 1, "is_initialized": True, "current_device": 0, "is_tf32_supported": False,
        "get_device_capability": (7, 5), "get_device_name": "Tesla T4", "is_current_stream_capturing": False,
        "get_rng_state": state, "get_rng_state_all": [state], "current_stream": _Stream(), "default_stream": _Stream(),
        "memory_allocated": 0, "is_bf16_supported": True,
    }  # fmt: skip
    for name in ("_lazy_init", "init", "set_device", "synchronize", "empty_cache", "manual_seed", "manual_seed_all",
                 "set_rng_state", "set_rng_state_all"):  # fmt: skip
        constants[name] = None
    for name, value in constants.items():
        setattr(cuda, name, lambda *arguments, _value=value, **keywords: _value)
    cuda.device = cuda.device_of = cuda.stream = _Region
    amp: Any = torch.amp
    amp.is_autocast_available = amp.autocast_mode.is_autocast_available = lambda device: True


_own_attention = torch.nn.functional.scaled_dot_product_attention


def _attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """The kernel that torch takes on compute capability 7.5 (aten/native/transformers/cuda/sdp_utils.cpp of 2.13)."""
    if torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
        query, key, value = (it.to(dtype) for it in (query, key, value))
        if attn_mask is not None and attn_mask.is_floating_point():
            attn_mask = attn_mask.to(dtype)
    if enable_gqa and query.shape[1] != key.shape[1]:
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    multiple = 8 if query.dtype == torch.float16 else 1
    efficient = query.dtype in (torch.float16, torch.float32) and query.dim() == 4
    if not efficient or any(it.shape[-1] % multiple or it.stride(-1) != 1 for it in (query, key, value)):
        return _own_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(~attn_mask, float("-inf"))
    if attn_mask is not None:
        attn_mask = attn_mask.expand(*query.shape[:3], key.shape[2])
    grad = torch.is_grad_enabled() and any(it.requires_grad for it in (query, key, value))
    return torch.ops.aten._scaled_dot_product_efficient_attention(
        query, key, value, attn_mask, grad, dropout_p, is_causal, scale=scale
    )[0]


# --- the trace ----------------------------------------------------------------------------------------------------


class Tracer(TorchDispatchMode):
    """Follows the storages of a device. `now` and `peak` are bytes, rounded as CUDA's allocator does."""

    def __init__(self, device: str = "cuda") -> None:
        super().__init__()
        self.device = device
        self.now = self.peak = 0
        self.phase = ""
        self.peaks: dict[str, int] = defaultdict(int)  # by phase
        self._sizes: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in torch.utils._pytree.tree_leaves(out):
            if isinstance(leaf, torch.Tensor) and leaf.device.type == self.device:
                self._add(leaf.untyped_storage())
        return out

    def _add(self, storage: Any) -> None:
        key = storage._cdata
        if key in self._sizes or not storage.nbytes():
            return
        size = -(-storage.nbytes() // GRANULE) * GRANULE
        self._sizes[key] = size
        self.now += size
        self.peak = max(self.peak, self.now)
        self.peaks[self.phase] = max(self.peaks[self.phase], self.now)
        weakref.finalize(storage, self._drop, key)

    def _drop(self, key: int) -> None:
        self.now -= self._sizes.pop(key, 0)
