"""Two patches below Python, so that a torch without a GPU lets CUDA-labelled fakes through autograd.

1. A device guard for CUDA. torch from 2.8 on brings one that does nothing; `_ensureCUDADeviceGuardSet` puts it in the
   place of a registered guard that reports no devices, and does nothing where none is registered: so one is, for that
   moment. Older ones get a guard of ours.
2. `CUDAHooks`: its virtual table is replaced by a copy in which `hasCUDA` and the like say yes. Autograd then finds an
   accelerator, and a stream for it. The numbers of the slots come from the headers that this very torch ships.

Nothing here computes; with real CUDA tensors it would crash. Tried in a child process first (`start.works`).
"""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path
from typing import Any

from . import native

CUDA = 1  # c10::DeviceType::CUDA
DEVICE_TYPES = 32  # more than there are
GUARD_METHODS = 64  # more than a guard has
# 1 is the device cuda:0 as C++ returns it (type in the low byte, index in the next), its default stream (the same, and the
# second register is 0), one device, and true: all that the methods of c10::impl::DeviceGuardImplInterface return
FIRST_DEVICE = 1
REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"  # c10::impl::device_guard_impl_registry
GET_HOOKS = "_ZN2at6detail12getCUDAHooksEv"  # at::detail::getCUDAHooks()
BEFORE = 2  # words before the first slot in a virtual table of the Itanium ABI: offset to top, type information
AFTER = 16  # slots that a later class may add
ANSWERS = {
    "hasCUDA": 1, "isBuilt": 1, "isAvailable": 1, "hasPrimaryContext": 1, "init": 0,
    "compiledWithCuDNN": 0,  # from torch 2.15 on a build with it asks the driver when a convolution has no values
    "getCurrentDevice": 0, "current_device": 0, "setCurrentDevice": 0, "exchangeDevice": 0, "maybeExchangeDevice": 0,
}  # fmt: skip


class Unpatchable(RuntimeError):  # noqa: N818
    """This torch is built otherwise than what the patches know."""


def install(torch: Any, devices: int) -> None:
    """Both patches. Raises Unpatchable, or OSError and AttributeError of ctypes."""
    _guard(torch)
    _hooks(torch, devices)


def _library(torch: Any, name: str) -> ctypes.CDLL:
    folder = Path(torch.__file__).parent / "lib"
    ending = {"posix": ".so", "nt": ".dll"}.get(os.name, ".so")
    found = next((path for path in folder.glob(f"*{name}*") if path.name.endswith((ending, ".dylib"))), None)
    if found is None:
        raise Unpatchable(f"no {name} in {folder}")
    return ctypes.CDLL(str(found))


def _guard(torch: Any) -> None:
    ensure = getattr(torch._C, "_ensureCUDADeviceGuardSet", None)
    if ensure is not None and torch.cuda._is_compiled():
        ensure()
        return
    registry = (ctypes.c_void_p * DEVICE_TYPES).in_dll(_library(torch, "libc10."), REGISTRY)
    if ensure is None:
        registry[CUDA] = _stand_in(FIRST_DEVICE)
        return
    if registry[CUDA]:
        return
    stand_in = registry[CUDA] = _stand_in(0)
    ensure()
    if registry[CUDA] == stand_in:
        registry[CUDA] = None
        raise Unpatchable("the device guard was not replaced")


def _stand_in(answer: int) -> int:
    """A guard of which each method returns the same; see FIRST_DEVICE."""
    return native.table([native.table([native.constant(answer)] * GUARD_METHODS)])


def _hooks(torch: Any, devices: int) -> None:
    get = _library(torch, "libtorch_cpu.")[GET_HOOKS]
    get.restype = ctypes.c_void_p
    hooks = ctypes.cast(get(), ctypes.POINTER(ctypes.c_void_p))
    order = slots(Path(torch.__file__).parent / "include" / "ATen" / "detail")
    first = int(hooks[0] or 0)
    old = ctypes.cast(first - BEFORE * native.POINTER, ctypes.POINTER(ctypes.c_void_p))
    entries = [int(old[index] or 0) for index in range(BEFORE + len(order))] + [0] * AFTER
    for name, answer in {**ANSWERS, "deviceCount": devices, "getNumGPUs": devices}.items():
        if name in order:
            entries[BEFORE + order.index(name)] = native.constant(answer)
    if "hasCUDA" not in order:
        raise Unpatchable("no hasCUDA in CUDAHooksInterface.h")
    hooks[0] = native.table(entries) + BEFORE * native.POINTER


def slots(headers: Path) -> list[str]:
    """Virtual methods of CUDAHooks in the order of its table: two destructors, the interface's, then its own."""
    base = _virtual(headers / "AcceleratorHooksInterface.h")
    own = _virtual(headers / "CUDAHooksInterface.h")
    return ["~deleting", "~complete", *base, *(name for name in own if name not in base)]


def _virtual(header: Path) -> list[str]:
    text = re.sub(r"//[^\n]*", "", header.read_text(encoding="utf-8"))
    found = re.findall(r"virtual\s+(?:[\w:&<>\*,\s]+?)\s*[\s&\*]([~\w]+)\s*\(", text)
    return [name for name in found if not name.startswith("~")]
