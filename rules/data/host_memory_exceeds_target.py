"""More goes into the host's memory than the machine has.

## What happens on a T4

Machines with a T4 are small beside the card too: Colab has 12.7 GiB, less than the GPU, and the smallest cloud instances 15 or 16.
`from_pretrained` without a `device_map` builds the whole model in host memory before it is moved, and a replay buffer of a million
stacked frames takes 26 GiB. The kernel then ends the process, without a Python error; a notebook just restarts.

## How to fix it

`device_map={"": 0}` loads straight onto the card, a 16-bit dtype halves it. Buffers: fewer entries, `uint8` frames without copies, or a
memory-mapped file.

## When it is right to ignore it

When the machine has swap space that is fast enough. Only targets whose memory is known are judged (`--target colab`, `kaggle`, or an
instance), and only sizes that can be computed.

## Sources

* memory of the machines: providers' documentation and logs, 2023 to 2026; numpy 2.4 and torch 2.13 for the bytes of an array,
  computed from shape and dtype; parameters of checkpoints: litgpt 0.5.13, transformers 5.24
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Allocation, Fact, Model, Step, Trace, Value, unknown
from t4lint.trace.questions import first_of_each, only_checkpoint

GIB = 2**30
FULL = 0.8  # of the memory: the system, Python and the CUDA libraries take the rest
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8}


@rule(
    name="host-memory-exceeds-target",
    severity="error",
    summary="More goes into host memory than the machine has",
    message="{what} takes {size:.1f} GiB of host memory, and {machine} has {ram:.1f} GiB: the process is killed.",
    help="Load straight onto the GPU (`device_map`), or keep less in memory.",
    triggers=("from_pretrained", "zeros(", "empty(", "ones("),
    reads=(Allocation, Model, Step),
)
def host_memory_exceeds_target(trace: Trace) -> Iterator[Candidate]:
    ram = (trace.target.ram_gib or 0) * GIB
    if not ram:
        return
    for array in first_of_each(trace, Allocation):
        yield _judged(array, array.size, "This array", ram, trace)
    steps = list(trace.all(Step))
    for model in first_of_each(trace, Model):
        if model.role == "load" and steps and only_checkpoint(trace) is not None:
            yield _judged(model, _model_bytes(model, steps[-1]), "Loading the model", ram, trace)


def _judged(event: Allocation | Model, size: Value, what: str, ram: float, trace: Trace) -> Candidate:
    over = size.test(lambda count: count > FULL * ram)
    exceeds = size.known and size.it > ram
    words = {"what": what, "size": (size.it or 0) / GIB, "machine": trace.target.name, "ram": ram / GIB}
    return Candidate(event, over, severity=None if exceeds else "warning", words=words)


def _model_bytes(model: Model, step: Step) -> Value:
    """Bytes of the weights where they are built in host memory."""
    on_host = model.device.equals("cpu") & model.quantization.equals("none") & model.device_map.equals(None)
    if on_host.holds is False:
        return Value(0)
    if on_host.holds is None:
        return unknown("where the model is loaded is not known")
    if not step.parameters.known or model.dtype.it not in BYTES:
        return unknown("the size of the model is not known")
    likely = Fact(True, (step.parameters, model.dtype)).likely
    return Value(step.parameters.it * BYTES[model.dtype.it], likely=likely)
