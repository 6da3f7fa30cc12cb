"""Start in a process: open the journal, say who we are, and wait for the libraries to be imported."""

# os.path is loaded anyway; pathlib would cost every process its import.
# ruff: noqa: PTH109

from __future__ import annotations

import atexit
import os
import sys
import traceback
from typing import Any

from . import (
    frames,
    guard,
    hooks_calls,
    hooks_deepspeed,
    hooks_lightning,
    hooks_torch,
    hooks_transformers,
    journal,
    libraries,
    lines,
    phantom,
    standin,
    stop,
)
from .finder import Finder, together

RANK_FACTS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR")
TOLD = ("NCCL_", "GLOO_", "CUDA_", "TORCH_", "PYTORCH_", "OMP_", "ACCELERATE_", "TOKENIZERS_", "DS_", "FSDP_")
HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.semaphore_tracker", "multiprocessing.forkserver")


def boot() -> None:
    """Called by `sitecustomize` in every Python process below the command."""
    if any(helper in " ".join(sys.orig_argv) for helper in HELPERS):
        return
    environ = os.environ
    copy, original = environ.get("T4LINT_ROOT", os.getcwd()), environ.get("T4LINT_ORIGINAL", "")
    journal.open_journal(environ["T4LINT_JOURNAL"])
    frames.set_roots([copy, original])
    stop.set_limit(int(environ.get("T4LINT_STEPS", "0")))
    journal.emit(
        "process",
        argv=sys.orig_argv,
        python=sys.version.split()[0],
        parent=os.getppid(),
        ranks={name: environ[name] for name in RANK_FACTS if name in environ},
        environment={name: value for name, value in environ.items() if name.startswith(TOLD)},
    )
    _watch_environment()
    if environ.get("T4LINT_LINKS"):
        guard.install(copy)
    if environ.get("T4LINT_LINES"):
        try:
            lines.install(environ["T4LINT_LINES"])
        except Exception as error:
            journal.trouble("lines", error)
    sys.meta_path.insert(
        0,
        Finder(
            together(
                hooks_torch.HOOKS,
                hooks_transformers.HOOKS,
                hooks_calls.HOOKS,
                hooks_lightning.HOOKS,
                hooks_deepspeed.HOOKS,
                phantom.HOOKS,
                standin.HOOKS,
            )
        ),
    )
    atexit.register(_at_exit, os.getpid())


def _watch_environment() -> None:
    """Variables that the program itself sets."""
    environ: Any = os._Environ
    original = environ.__setitem__

    def __setitem__(self: Any, key: Any, value: Any) -> None:  # noqa: N807 (stands for the method)
        original(self, key, value)
        try:
            if self is os.environ and isinstance(key, str) and key.startswith(TOLD):
                site = frames.look()
                if site.user and all(module in ("os", "_collections_abc") for module, _ in site.between):
                    loaded = "torch" in sys.modules
                    journal.fact("environment", site, name=key, value=value, after_torch=loaded)
        except Exception as error:
            journal.trouble("os.environ", error)

    environ.__setitem__ = __setitem__


def _at_exit(pid: int) -> None:
    """The end, and the exception that led to it. A forked child that inherits this says nothing."""
    if os.getpid() != pid:
        return
    try:
        libraries.tell()
        phantom.tell()
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if error is not None:
            _exception(error)
        journal.emit("exit", hard=False)
    except Exception as own:
        journal.trouble("exit", own)


def _exception(error: BaseException) -> None:
    """Where an uncaught exception left the person's own code; `own`: it was raised there, not in a library."""
    trail = []
    own = False
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = frames.below_root(frame.f_code.co_filename)
        own = path is not None
        if path is not None:
            trail.append((path, line))
    refused = _does_not_compile(error)
    if refused is not None:
        trail.append(refused)
        own = True
    site = frames.Site(trail[::-1], "", [], own, None)
    journal.emit("exception", site, type=type(error).__name__, message=str(error), own=own)


def _does_not_compile(error: BaseException) -> tuple[str, int] | None:
    """Where a file of the person's own is no Python: no frame of it has run."""
    if not isinstance(error, SyntaxError) or not error.filename or not error.lineno:
        return None
    path = frames.below_root(error.filename)
    return None if path is None else (path, error.lineno)
