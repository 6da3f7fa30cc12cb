"""An environment variable is set after what reads it has already run.

## What happens on a T4

CUDA reads `CUDA_VISIBLE_DEVICES` once, at the first call into it: after `torch.cuda.is_available()` or a model on the GPU
the variable changes nothing, and the process keeps all cards. The allocator reads `PYTORCH_CUDA_ALLOC_CONF` at the first
use, NCCL its variables when it makes its communicators, and OpenMP `OMP_NUM_THREADS` when torch is imported. The line looks
as if it worked.

## How to fix it

Set it in the shell before the command, or as the first lines of the program, before torch is imported.

## When it is right to ignore it

When the variable is meant for processes that are started later, which inherit it.

## Sources

* torch 2.13 `torch/cuda/__init__.py`; `import torch` and `torch.cuda.device_count()` (by NVML) freeze nothing
* run with torch 2.13: `OMP_NUM_THREADS` set after the import leaves `torch.get_num_threads()` as it was. What CUDA and NCCL
  read needs a GPU and is not shown here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import (
    FALSE,
    Call,
    Copy,
    DeviceChoice,
    EnvironmentVariable,
    Event,
    Fact,
    Model,
    Predicate,
    ProcessGroup,
    Trace,
    Value,
    Wrap,
)

ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
# Questions that torch answers by NVML or from what it was built with: CUDA stays untouched.
HARMLESS = ("torch.cuda.device_count",)
STARTS_PROCESSES = ("accelerate.notebook_launcher", "torch.multiprocessing.spawn", "multiprocessing.Process.start")


@rule(
    name="env-var-set-too-late",
    severity="warning",
    summary="An environment variable set after its reader has run",
    message="`{name}` is set after {what}, which has already read it: here it changes nothing.",
    help="Set it before the command, or before torch is imported.",
    triggers=("CUDA_VISIBLE_DEVICES", "ALLOC_CONF", "NCCL_", "OMP_NUM_THREADS"),
    reads=(EnvironmentVariable, Predicate, Model, Copy, DeviceChoice, ProcessGroup, Wrap, Call),
)
def env_var_set_too_late(trace: Trace) -> Iterator[Candidate]:
    before: list[Event] = []
    for event in trace.events:
        if isinstance(event, Call) and event.function in STARTS_PROCESSES:
            before = []  # what follows runs in a fresh process
        if not isinstance(event, EnvironmentVariable) or event.set_in != "program":
            before.append(event)
            continue
        late, what, reader = _late(event, before)
        if event.name == "CUDA_VISIBLE_DEVICES" and event.value.it in ("-1", ""):
            late = FALSE  # no GPU is wanted, and none is used
        yield Candidate(
            event, late, words={"name": event.name, "what": what}, related=(reader,) if reader is not None else ()
        )


def _late(variable: EnvironmentVariable, before: list[Event]) -> tuple[Fact, str, Event | None]:
    """Has its reader run? With what it was, in words, and the event."""
    name = variable.name
    if name == "OMP_NUM_THREADS":
        return variable.after_torch.equals(True), "torch was imported", None
    if name == "CUDA_VISIBLE_DEVICES" or name in ALLOCATOR:
        for event in before:
            what = _opens_cuda(event)
            if what and (name == "CUDA_VISIBLE_DEVICES" or not isinstance(event, Predicate)):
                return Fact(True), what, event
        return FALSE, "", None
    if name.startswith(("NCCL_", "TORCH_NCCL_")):
        return _after_nccl(name, before)
    return FALSE, "", None


def _opens_cuda(event: Event) -> str:
    """How an event made the first call into CUDA, or an empty string."""
    if isinstance(event, Predicate):
        asks = event.function.startswith("torch.cuda.") and event.function not in HARMLESS
        return f"`{event.function}()` was called" if asks else ""
    if isinstance(event, Model):
        return "a model was put on the GPU" if _on_cuda(event.device) and event.role == "load" else ""
    if isinstance(event, DeviceChoice) and event.role in ("to", "set_device"):
        return "a model was put on the GPU" if event.role == "to" else "`torch.cuda.set_device` was called"
    if isinstance(event, Copy):
        return "a tensor was copied to the GPU" if _on_cuda(event.destination) else ""
    return ""


def _on_cuda(device: Value) -> bool:
    return device.known and str(device.it).startswith("cuda")


def _after_nccl(name: str, before: list[Event]) -> tuple[Fact, str, Event | None]:
    """torch's own variables are read with the process group, NCCL's with the first collective: DDP makes one."""
    made = False
    for event in before:
        if isinstance(event, ProcessGroup):
            nccl = event.backend.test(lambda backend: backend is None or "nccl" in str(backend))
            if name.startswith("TORCH_") and nccl.holds:
                return nccl, "the process group was made", event
            made = made or nccl.holds is True
        elif made and isinstance(event, Wrap) and event.how.it == "ddp" and event.role != "engine":
            return Fact(True, (event.how,)), "DistributedDataParallel has exchanged the weights", event
    return FALSE, "", None
