"""What is offloaded to the host does not fit into its memory.

## What happens on a T4

ZeRO-Offload and FSDP's CPU offload keep fp32 weights and both moments of Adam in host memory: 12 bytes a parameter at least,
16 to 18 with gradients, and half as much again for buffers. T4 machines have 12 to 32 GiB for the small types. The kernel
ends the process without a Python error when it runs out, often minutes into loading.

## How to fix it

A machine with more memory, more nodes (each holds its share with ZeRO-3), LoRA, or an 8-bit optimizer without offload.

## When it is right to ignore it

When swap or NVMe offload takes the rest. Hosts whose memory is not known are not judged: name the instance with `--target`.

## Sources

* DeepSpeed 0.19.6, `estimate_zero2_model_states_mem_needs` and `estimate_zero3_model_states_mem_needs`
* memory of the instances: tables of the providers in `t4lint/devices`
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Fact, Launch, Step, Trace, Value, Wrap
from t4lint.trace.questions import parameters_of, ranks_of

LEAST = 12  # bytes a parameter: fp32 weights and two moments
NEEDED = 16  # with fp32 gradients
TIGHT = 0.8  # of the host's memory


@rule(
    name="offload-exceeds-host-ram",
    severity="error",
    summary="CPU offload larger than the host's memory",
    message="Offload keeps about {gib:.0f} GiB on each node in host memory, and {target} has {ram:g} GiB.",
    help="Take a host with more memory, more nodes, LoRA, or an 8-bit optimizer instead of offload.",
    triggers=("offload",),
    reads=(Wrap, Launch, Step),
)
def offload_exceeds_host_ram(trace: Trace) -> Iterator[Candidate]:
    parameters, ranks = parameters_of(trace), ranks_of(trace)
    launch = next(trace.all(Launch), None)
    ram = trace.target.ram_gib
    for wrap in trace.all(Wrap):
        blame = _offloaded(wrap)
        if launch is None or ram is None or "peft" in trace.imported:
            continue
        if not (parameters.known and launch.nodes.known):  # how much each node keeps is not known
            continue
        share = parameters.it / max(launch.nodes.it, 1) / 2**30
        over = LEAST * share > ram
        yield Candidate(
            wrap,
            blame.equals("cpu") & Fact(NEEDED * share > TIGHT * ram, (parameters, ranks)),
            blame=blame,
            severity=None if over else "warning",
            words={"gib": NEEDED * share, "target": trace.target.name, "ram": ram},
        )


def _offloaded(wrap: Wrap) -> Value:
    """The option that sends the optimizer, or with FSDP all of it, to the host."""
    names = ("offload_param",) if wrap.how.it == "fsdp" else ("offload_optimizer",)
    return next((wrap.options[name] for name in names if name in wrap.options), Value(unknown="whether it offloads"))
