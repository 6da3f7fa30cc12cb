"""Started in front of the command on Linux: namespaces of its own, overlays over what it may write, no network.

A script of its own, for any Python: `enclose.py PLAN COMMAND...`, where PLAN is JSON: {"overlays": [[folder, upper,
work], ...], "network": bool, "cwd": folder, ...}. Without a command it only tries, and exits with 0 where the kernel
allows it. Limits are set here too, so that they hold for the command and all of its children.
"""

# os.path is loaded anyway; pathlib would cost the start of each run.
# ruff: noqa: PTH123

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import struct
import sys
from typing import Any

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x04000000, 0x10000000, 0x40000000
MS_REC, MS_PRIVATE = 16384, 1 << 18
PR_SET_PDEATHSIG = 1
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
FAILED = 125  # the exit code for "could not enclose": the launcher then takes the copy

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: Any) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def enclose(plan: dict[str, Any]) -> None:
    """Enter the namespaces and mount the overlays; raises OSError where the kernel does not allow it."""
    user, group = os.getuid(), os.getgid()
    flags = CLONE_NEWUSER | CLONE_NEWNS
    if not plan["network"]:
        flags |= CLONE_NEWNET | CLONE_NEWUTS
    _call("unshare", flags)
    with contextlib.suppress(OSError):  # not there on old kernels
        _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")
    _call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    for folder, upper, work in plan["overlays"]:
        _overlay(folder, upper, work)
    if not plan["network"]:
        _loopback()


def _overlay(folder: str, upper: str, work: str) -> None:
    options = f"lowerdir={_quoted(folder)},upperdir={_quoted(upper)},workdir={_quoted(work)}"
    # userxattr (5.11+): what overlayfs keeps about a file, where we are not the machine's own root
    for extra in (",userxattr", ""):
        try:
            _call("mount", b"overlay", os.fsencode(folder), b"overlay", 0, os.fsencode(options + extra))
        except OSError:
            if not extra:
                raise
        else:
            return


def _quoted(path: str) -> str:
    """Commas and colons divide the options of a mount."""
    return path.replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")


def _loopback() -> None:
    """The only network that is left. Ranks find each other there, also by the machine's name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        asked = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(probe, SIOCGIFFLAGS, asked))[1]
        fcntl.ioctl(probe, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))
    socket.sethostname("localhost")


def settle(parent: int) -> None:
    """No core files of what dies; where memory runs out the kernel takes this first; it does not outlive t4lint."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(OSError):
        _write("/proc/self/oom_score_adj", "1000")
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            _call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit(FAILED)


def main() -> None:
    plan = json.loads(sys.argv[1])
    command = sys.argv[2:]
    if plan["overlays"] or not plan["network"]:
        try:
            enclose(plan)
        except OSError as error:
            sys.stderr.write(f"{error}\n")
            sys.exit(FAILED)
    if not command:
        return
    os.chdir(plan["cwd"])
    settle(plan["parent"])
    try:
        os.execvp(command[0], command)
    except OSError as error:
        _write(plan["failed"], str(error.strerror))
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main()
