"""CPU seconds and peak memory of a command, as the system counts them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Measured(NamedTuple):
    """`cpu`: user and system seconds of the process and the children that it waited for; `memory`: bytes of the largest one."""

    cpu: float
    wall: float
    memory: int


class Done(NamedTuple):
    """`measured` is None where the command had to be stopped."""

    measured: Measured | None
    code: int
    output: str
    errors: str


def measured(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str] | None = None, seconds: float = 600
) -> Done:
    """Run a command to its end, or stop it and its children after some seconds."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        start = time.monotonic()
        process = subprocess.Popen(
            list(command),
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        stopped = threading.Event()

        def stop() -> None:
            stopped.set()
            os.killpg(process.pid, signal.SIGKILL)

        timer = threading.Timer(seconds, stop)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        wall = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        kilobyte = 1 if sys.platform == "darwin" else 1024
        found = Measured(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * kilobyte)
        texts = []
        for stream in (output, errors):
            stream.seek(0)
            texts.append(stream.read().decode("utf-8", "replace"))
        return Done(None if stopped.is_set() else found, process.returncode, texts[0], texts[1])
