"""Two patches below Python, so that a torch without a GPU lets CUDA-labelled fakes through autograd.

1. A device guard for CUDA. torch from 2.8 on brings one that does nothing; `_ensureCUDADeviceGuardSet` puts it in the
   place of a registered guard that reports no devices, and does nothing where none is registered: so one is, for that
   moment. Older ones get a guard of ours. In both it is told how many devices there are, and which one is chosen.
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
INDEX_BYTE = 8  # bits that the index is above the type
REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"  # c10::impl::device_guard_impl_registry
GET_HOOKS = "_ZN2at6detail12getCUDAHooksEv"  # at::detail::getCUDAHooks()
BEFORE = 2  # words before the first slot in a virtual table of the Itanium ABI: offset to top, type information
AFTER = 16  # slots that a later class may add
DESTRUCTORS = 2  # slots of a virtual destructor, the last of a guard's
ANSWERS = {
    "hasCUDA": 1, "isBuilt": 1, "isAvailable": 1, "hasPrimaryContext": 1, "init": 0,
    "compiledWithCuDNN": 0,  # from torch 2.15 on a build with it asks the driver when a convolution has no values
    "setCurrentDevice": 0,
}  # fmt: skip
CHOSEN = ("getCurrentDevice", "current_device", "exchangeDevice", "maybeExchangeDevice")  # of the hooks: an index
CHOSEN_BY_GUARD = ("getDevice", "exchangeDevice")  # a device
_slots: list[tuple[int, bool]] = []  # addresses of what says which device is chosen; True: a device, False: its index


class Unpatchable(RuntimeError):  # noqa: N818
    """This torch is built otherwise than what the patches know."""


def install(torch: Any, devices: int) -> None:
    """Both patches. Raises Unpatchable, or OSError and AttributeError of ctypes."""
    _guard(torch)
    _count(torch, devices)
    _hooks(torch, devices)


def choose(index: int) -> None:
    """From now on C++ takes this device where a program says none."""
    for address, whole in _slots:
        answer = native.constant(FIRST_DEVICE | index << INDEX_BYTE if whole else index)
        ctypes.c_void_p.from_address(address).value = answer


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


def _count(torch: Any, devices: int) -> None:
    """The guard in place gets a table of its own, with the number of devices and the one that is chosen."""
    registry = (ctypes.c_void_p * DEVICE_TYPES).in_dll(_library(torch, "libc10."), REGISTRY)
    guard = ctypes.cast(registry[CUDA] or 0, ctypes.POINTER(ctypes.c_void_p))
    order = _virtual(Path(torch.__file__).parent / "include" / "c10" / "core" / "impl" / "DeviceGuardImplInterface.h")
    if not guard or not {"deviceCount", *CHOSEN_BY_GUARD} <= set(order):
        raise Unpatchable("no device guard, or not one that is known")
    first = int(guard[0] or 0)
    old = ctypes.cast(first - BEFORE * native.POINTER, ctypes.POINTER(ctypes.c_void_p))
    entries = [int(old[index] or 0) for index in range(BEFORE + len(order) + DESTRUCTORS)]
    entries[BEFORE + order.index("deviceCount")] = native.constant(devices)
    table = native.table(entries) + BEFORE * native.POINTER
    _remember(table, order, CHOSEN_BY_GUARD, whole=True)
    guard[0] = table


def _remember(table: int, order: list[str], names: tuple[str, ...], *, whole: bool) -> None:
    _slots.extend((table + order.index(name) * native.POINTER, whole) for name in names if name in order)


def _stand_in(answer: int) -> int:
    """A guard of which each method returns the same; see FIRST_DEVICE."""
    methods = native.table([0] * BEFORE + [native.constant(answer)] * GUARD_METHODS)
    return native.table([methods + BEFORE * native.POINTER])


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
    table = native.table(entries) + BEFORE * native.POINTER
    _remember(table, order, CHOSEN, whole=False)
    hooks[0] = table
    choose(0)


def slots(headers: Path) -> list[str]:
    """Virtual methods of CUDAHooks in the order of its table: two destructors, the interface's, then its own."""
    base = _virtual(headers / "AcceleratorHooksInterface.h")
    own = _virtual(headers / "CUDAHooksInterface.h")
    return ["~deleting", "~complete", *base, *(name for name in own if name not in base)]


def _virtual(header: Path) -> list[str]:
    text = re.sub(r"//[^\n]*", "", header.read_text(encoding="utf-8"))
    found = re.findall(r"virtual\s+(?:[\w:&<>\*,\s]+?)\s*[\s&\*]([~\w]+)\s*\(", text)
    return [name for name in found if not name.startswith("~")]
