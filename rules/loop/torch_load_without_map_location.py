"""A checkpoint is restored without `map_location`, by several processes.

## What happens on a T4

`torch.load` puts each tensor back onto the device that it was saved from, which is `cuda:0` for a checkpoint that the first process
wrote. Every process then fills the first card with its own copy, and takes a CUDA context there as well; on two cards of 14.6 GiB
that ends a run that trained before it was resumed. In one process the weights are on the card twice until the checkpoint is dropped.

## How to fix it

`torch.load(path, map_location="cpu")`: `load_state_dict` copies to where the model is.

## When it is right to ignore it

When the file holds no tensors from a GPU, or only one process reads it. In a program of one process it is reported on request only.

## Sources

* torch 2.13 documentation of `torch.load`, which says that storages go back to the device they came from
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import AddArgument, Candidate, Edit, rule
from t4lint.trace import Call, Fact, Launch, ProcessGroup, Trace, Value, Wrap
from t4lint.trace.questions import any_launch


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    yield AddArgument(candidate.event, "map_location", '"cpu"', callee="load")


@rule(
    name="torch-load-without-map-location",
    severity="warning",
    summary="A checkpoint goes back to the GPU that it was saved from",
    message="This checkpoint is restored onto the GPU that it was saved from: {where}.",
    help='Pass `map_location="cpu"`; `load_state_dict` copies to where the model is.',
    triggers=("torch.load", "load("),
    reads=(Call, Launch, ProcessGroup, Wrap),
    fix="safe",
    fixes=_fixes,
    fix_title="Load into host memory first",
)
def torch_load_without_map_location(trace: Trace) -> Iterator[Candidate]:
    several = _several(trace)
    for call in trace.all(Call):
        if call.function != "torch.load":
            continue
        unset = call.arguments.get("map_location", Value(None)).equals(None)
        unset &= call.arguments.get("mmap", Value(None)).test(lambda on: not on)
        restored = call.arguments.get("restores", Value(unknown="what is done with it")).equals(True)
        from_gpu = Fact(True, (Value("the checkpoint is presumed to come from a GPU", likely=True),))
        where = "all processes fill the first card" if several else "its weights are there twice until it is dropped"
        yield Candidate(
            call,
            unset & restored & from_gpu,
            severity=None if several else "note",
            words={"where": where},
            on_request=not several,
        )


def _several(trace: Trace) -> bool:
    """Is there more than one process for certain? A wrapper in a program started plainly does not make it so."""
    more = any_launch(
        trace,
        lambda launch: (
            launch.nodes.test(lambda count: count > 1) | launch.processes_per_node.test(lambda count: count > 1)
        ),
    )
    if more.holds is not None and any(True for _ in trace.all(Launch)):
        return more.holds
    return any(wrap.how.it in ("ddp", "fsdp") for wrap in trace.all(Wrap)) and any(
        True for _ in trace.all(ProcessGroup)
    )
