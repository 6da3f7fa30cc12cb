"""A model is trained in `nn.DataParallel`.

## What happens on a T4

DataParallel drives all cards from one Python thread. At every step it copies the parameters to each card, and gathers
outputs and gradients on the first, which on T4s without NVLink goes through host memory. The first card holds more than
the others and runs out of memory first. Measured on two cards of the T4's generation, with NVLink: 9 % slower than one
process per card; two Kaggle T4s have been seen to be slower than one.

## How to fix it

`torchrun --nproc_per_node=2 train.py`, with `DistributedDataParallel(model, device_ids=[local_rank])` and a
`DistributedSampler`; or let accelerate do it.

## When it is right to ignore it

For evaluation, or where a few percent do not matter. One device id, a target with one GPU, and a guard such as
`torch.cuda.device_count() > 1` that the target does not pass are not reported. Where the target does not say how many GPUs
there are it is a note: with one, the wrapper does nothing.

## Sources

* transformers documentation (2023), 2x TITAN RTX: DataParallel 110.6 s, DistributedDataParallel 101.9 s for 200 steps
* xingyizhou/CenterNet#1046 (two Kaggle T4s); torch 2.13 documentation of DataParallel
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, NOT_SAID, Backward, Fact, Step, Trace, Wrap


@rule(
    name="nn-dataparallel",
    severity="warning",
    summary="Training in nn.DataParallel",
    message="`nn.DataParallel` runs all GPUs from one thread, copies the weights at every step, and fills GPU 0 first.",
    help="One process per GPU: `torchrun` with `DistributedDataParallel` and a `DistributedSampler`.",
    triggers=("DataParallel",),
    reads=(Wrap, Backward, Step),
)
def nn_dataparallel(trace: Trace) -> Iterator[Candidate]:
    trains = trace.ever(Backward) | trace.ever(Step)
    for wrap in trace.all(Wrap):
        if wrap.role != "engine":
            yield Candidate(
                wrap,
                wrap.how.equals("data_parallel") & _several(trace, wrap) & trains,
                severity="note" if trace.target.instance is None else None,
            )


def _several(trace: Trace, wrap: Wrap) -> Fact:
    """More than one card takes part: all in sight, or those that are named."""
    if trace.target.instance is not None and trace.target.gpus == 1:
        return FALSE
    named = wrap.options.get("device_ids", NOT_SAID)
    if named == NOT_SAID:
        return Fact(True)
    return named.test(lambda devices: devices is None or not hasattr(devices, "__len__") or len(devices) != 1)
