"""DDP sends gradients in float32 over a slow network, although the arithmetic runs in 16 bits.

## What happens on a T4

Autocast makes the matrix products 16-bit, not the parameters, and DDP sends gradients in the dtype of the parameters: 4
bytes each, 8 on the wire of an all-reduce. T4 machines have 3 to 10 Gbit/s. A hook that sends fp16 halves the time.

## How to fix it

`model.register_comm_hook(None, default_hooks.fp16_compress_hook)` after wrapping (from
`torch.distributed.algorithms.ddp_comm_hooks import default_hooks`); with accelerate
`DistributedDataParallelKwargs(comm_hook=DDPCommunicationHookType.FP16)`. The Trainer has no argument for it: ZeRO-1 in fp16
sends as little. Take fp16 rather than bf16, whose 8 bits of precision lose more of the gradient.

## When it is right to ignore it

Where the network keeps up with the GPUs: one node, few trained parameters (LoRA), many tokens a step. The hook rounds each
gradient to 11 bits (a relative error of 2e-4 where it was tried) and divides before it adds; a loss scale that is far
too large can still overflow. Off by default: `ddp-across-nodes` speaks where the network is the slower part, and names this
remedy.

## Sources

* torch 2.13 `ddp_comm_hooks/default_hooks.py`; buckets are float32 under autocast, counted on two ranks
  (`tests/test_distributed_claims.py`); accelerate 1.15 `DistributedDataParallelKwargs`
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import NOT_SAID, Autocast, Call, Engine, Fact, Launch, Step, Trace, Wrap
from t4lint.trace.questions import several_nodes, sustained_gbps

FAST = 25  # Gbit/s
WORTH_IT = 0.1  # of the arithmetic's time
SIXTEEN_BIT = ("fp16", "bf16")


@rule(
    name="fp32-gradients-on-slow-network",
    severity="note",
    summary="DDP sends float32 gradients over a slow network",
    message="DDP sends 4 bytes for each gradient over {network}, although the arithmetic runs in 16 bits.",
    help="Register `fp16_compress_hook`, which sends 2 bytes each.",
    triggers=(
        "DistributedDataParallel",
        "DDP",
        "nnodes",
        "num_machines",
        "replicas",
        "numNodes",
        "Trainer",
        "accelerate",
    ),
    reads=(Wrap, Launch, Step, Engine, Autocast, Call),
    default=False,
)
def fp32_gradients_on_slow_network(trace: Trace) -> Iterator[Candidate]:
    rate, step = sustained_gbps(trace), next(trace.all(Step), None)
    hooked = any(_hook(call) for call in trace.all(Call))
    for wrap in trace.all(Wrap):
        if step is None:
            continue
        yield Candidate(
            wrap,
            wrap.how.equals("ddp")
            & several_nodes(trace)
            & Fact(not hooked and "peft" not in trace.imported)
            & _mixed(trace)
            & _float32(wrap, step)
            & rate.test(lambda gbps: gbps < FAST)
            & _worth_it(step),
            words={"network": f"{rate.it:g} Gbit/s" if rate.known else "the network"},
            related=(step,),
        )


def _hook(call: Call) -> bool:
    said = call.arguments.get("hook", call.arguments.get("comm_hook", NOT_SAID))
    return call.role in ("register_comm_hook", "DistributedDataParallelKwargs") and said != NOT_SAID and said.it != "NO"


def _mixed(trace: Trace) -> Fact:
    by_engine = trace.ever(Engine, lambda engine: engine.mixed_precision.within(SIXTEEN_BIT))
    return by_engine | trace.ever(Autocast, lambda region: region.enabled.equals(True))


def _float32(wrap: Wrap, step: Step) -> Fact:
    if wrap.gradient_bytes.known:
        return wrap.gradient_bytes.equals(4)
    return step.gradients.test(lambda names: "float32" in names)


def _worth_it(step: Step) -> Fact:
    """Does the exchange take a part of the step that counts? Where that is not known, it may."""
    wire, compute = step.communication.it, step.compute.it
    if not (isinstance(wire, tuple) and isinstance(compute, tuple)):
        return Fact(True)
    return Fact(wire[0] > WORTH_IT * compute[1], (step.communication, step.compute))
