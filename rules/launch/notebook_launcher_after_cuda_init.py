"""`notebook_launcher` forks processes after the notebook has touched CUDA.

## What happens on a T4

The launcher forks the notebook's own process. CUDA does not survive a fork: what was opened before it ends in `Cannot
re-initialize CUDA in forked subprocess`, or `CUDA error: initialization error`, on the first use in each process.
Moving a model to the GPU opens it, but so do `torch.cuda.is_available()`, building `TrainingArguments` or an
`Accelerator`, and importing bitsandbytes or unsloth.

## How to fix it

Move all of that into the function that is launched, and restart the kernel. Or write the script with `%%writefile
train.py` and start it with `!accelerate launch --num_processes 2 train.py`.

## When it is right to ignore it

With one process the function is called without a fork, and nothing is reported; nor where the number of processes is not
known. `torch.cuda.device_count()` alone is harmless.

## Sources

* accelerate 0.20 to 1.15, `launchers.py`; torch 2.13, `torch.cuda.is_available` (it calls cudaGetDeviceCount unless
  `PYTORCH_NVML_BASED_CUDA_CHECK=1`)
* huggingface/accelerate#3524, #3833, #1751
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Engine, EnvironmentVariable, Event, Fact, Model, Predicate, Trace, Value

ASKING = {
    "torch.cuda.is_available", "torch.cuda.get_device_name", "torch.cuda.get_device_properties", "torch.cuda.mem_get_info",
    "torch.cuda.get_device_capability",
}  # fmt: skip
IMPORTED = ("bitsandbytes", "unsloth")


@rule(
    name="notebook-launcher-after-cuda-init",
    severity="error",
    summary="notebook_launcher forks after CUDA was touched",
    message="`notebook_launcher` forks {processes} processes after {what}: CUDA does not survive a fork.",
    help="Move it into the launched function and restart the kernel, or write the script to a file and use `accelerate launch`.",
    triggers=("notebook_launcher",),
    reads=(Call, Predicate, Model, Engine, EnvironmentVariable),
)
def notebook_launcher_after_cuda_init(trace: Trace) -> Iterator[Candidate]:
    before: list[Event] = []
    for event in trace.events:
        if not isinstance(event, Call) or event.function != "accelerate.notebook_launcher":
            before.append(event)
            continue
        touched, what, cause = _touched(trace, before)
        count = event.arguments.get("num_processes", Value(unknown="the launcher chooses how many processes"))
        if event.arguments.get("function", Value(unknown="not given")).equals(None).holds:
            touched = Fact(False)  # training has run already: that is another rule's
        several = count.test(lambda number: None if number is None else isinstance(number, int) and number > 1)
        yield Candidate(
            event,
            several & touched,
            words={"processes": count.it, "what": what},
            related=(cause,) if cause is not None else (),
        )


def _touched(trace: Trace, before: list[Event]) -> tuple[Fact, str, Event | None]:
    """Has something in this process opened CUDA, or what accelerate refuses to fork with?"""
    by_nvml = any(
        isinstance(event, EnvironmentVariable) and event.name == "PYTORCH_NVML_BASED_CUDA_CHECK" for event in before
    )
    for event in before:
        if isinstance(event, Predicate) and event.function in ASKING:
            if event.function != "torch.cuda.is_available" or not by_nvml:
                return Fact(True), f"`{event.function}()` was called", event
        elif isinstance(event, Model) and event.device.known and event.device.it == "cuda" and event.role == "load":
            return Fact(True), "a model was loaded to the GPU", event
        elif isinstance(event, Engine) and (event.role == "Accelerator" or event.role.endswith("TrainingArguments")):
            return Fact(True), f"an `{event.role}` was built", event
    for library in IMPORTED:
        if library in trace.imported:
            return Fact(True), f"{library} was imported", None
    return Fact(False), "", None
