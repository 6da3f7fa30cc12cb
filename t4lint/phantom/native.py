"""A few native functions that return a constant, and memory for tables of them, both outside of Python's own life.

torch calls into what is built here until the very end of the process, after Python has torn its modules down: a ctypes
callback or array that dies with its module is a segmentation fault at exit. So this memory is never given back.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import struct
import sys
from typing import Any

PROT_READ, PROT_WRITE, PROT_EXEC = 1, 2, 4
MAP_PRIVATE, MAP_ANONYMOUS = 2, {"linux": 0x20, "darwin": 0x1000}
PAGE = 16384  # the largest page size of the systems that this runs on
POINTER = ctypes.sizeof(ctypes.c_void_p)


def table(entries: list[int]) -> int:
    """The address of an array of pointers that lives as long as the process."""
    array = (ctypes.c_void_p * len(entries))(*entries)
    _keep_forever(array)
    return ctypes.addressof(array)


@functools.cache
def constant(value: int) -> int:
    """The address of a function that takes anything and returns a small number (or a bool, or nothing)."""
    code = _machine_code(value)
    if code is not None:
        address = _executable(code)
        if address:
            return address
    # no such memory to be had (SELinux, macOS): a callback, which needs the interpreter alive
    callback = ctypes.CFUNCTYPE(ctypes.c_ssize_t)(lambda: value)
    _keep_forever(callback)
    return int(ctypes.cast(callback, ctypes.c_void_p).value or 0)


def _keep_forever(thing: Any) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _machine_code(value: int) -> bytes | None:
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        return b"\xb8" + struct.pack("<i", value) + b"\x31\xd2\xc3"  # mov eax, value; xor edx, edx; ret
    if machine in ("aarch64", "arm64"):
        return struct.pack("<III", 0x52800000 | value << 5, 0xD2800001, 0xD65F03C0)  # mov w0, value; mov x1, 0; ret
    return None


def _executable(code: bytes) -> int:
    """Map a page, fill it, make it executable; 0 where that is not allowed."""
    if sys.platform not in MAP_ANONYMOUS:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    flags = MAP_PRIVATE | MAP_ANONYMOUS[sys.platform]
    page = libc.mmap(None, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0)
    if page in (None, ctypes.c_void_p(-1).value):
        return 0
    ctypes.memmove(page, code, len(code))
    return int(page) if libc.mprotect(page, PAGE, PROT_READ | PROT_EXEC) == 0 else 0
