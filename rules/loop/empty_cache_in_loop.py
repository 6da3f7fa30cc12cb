"""`torch.cuda.empty_cache()` is called at every step.

## What happens on a T4

PyTorch keeps freed blocks for the next step, which needs the same sizes. `empty_cache` gives them back to the driver, so
the next step asks for all of them again with `cudaMalloc`, and both wait for the GPU. transformers had it in its training
loop for a while, measured the loss and took it out; the option that remained is documented as about 10 % slower. It
gives PyTorch itself no more memory.

## How to fix it

Drop the call. Against fragmentation set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`; against a lack of memory make
the micro-batch smaller.

## When it is right to ignore it

When another process on the same GPU needs the memory between steps. A call after an epoch, before an evaluation, or every
hundred steps costs little and is not reported, nor is one in a benchmark that builds another network in each round.

## Sources

* PyTorch 2.13 documentation of `torch.cuda.empty_cache`; huggingface/transformers#31372 and #31530; transformers 5.24
  `training_args.py` (`torch_empty_cache_steps`). It takes a GPU to see, so no test here can show it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from t4lint.rule import Candidate, DropStatement, Edit, rule
from t4lint.trace import Backward, Call, Fact, Forward, Trace, Value, unknown

WHOLE_LOOP = ("Trainer", "Lightning")
FUNCTION = "torch.cuda.empty_cache"


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    yield DropStatement(candidate.event)


@rule(
    name="empty-cache-in-loop",
    severity="warning",
    summary="The allocator's cache is emptied at every step",
    message="`torch.cuda.empty_cache()` runs at every training step: each step waits for the GPU and allocates all its memory again.",
    help="Drop the call, or make it once an epoch.",
    triggers=("empty_cache",),
    reads=(Backward, Call, Forward),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Drop the call",
)
def empty_cache_in_loop(trace: Trace) -> Iterator[Candidate]:
    """At every step: in the innermost loop of a backward, as often as it. Such a loop is traced for two iterations or more."""
    calls = [call for call in trace.all(Call) if call.function == FUNCTION]
    # an engine's own loop is inside one call: what is beside it in a loop over folds runs once a training
    backwards = Counter((it.key, it.loops) for it in trace.all(Backward) if it.engine not in WHOLE_LOOP)
    for call in {call.key: call for call in reversed(calls)}.values():
        times = sum(other.key == call.key and other.loops == call.loops for other in calls)
        most = max((count for (_, loops), count in backwards.items() if loops and loops == call.loops), default=0)
        every = Fact(most >= 2 and times >= most and not _built_anew(trace, call.loops))
        sometimes = [it for it in calls if it.key == call.key and (it.guards or not _each(it).known)]
        if sometimes and every.holds:
            every = Fact(None, (unknown("it is called under a test that is not decided"),))
        elif call.loops and not most and trace.never(Backward).holds is None:
            every = Fact(None, (unknown("a backward in this loop may not have been seen"),))
        yield Candidate(call, every)


def _built_anew(trace: Trace, loops: tuple[str, ...]) -> bool:
    """Does each round have a network of its own, as in a benchmark? No network is called in two of them."""
    calls = Counter(it.subject for it in trace.all(Forward) if it.loops == loops)
    return bool(calls) and max(calls.values()) == 1


def _each(call: Call) -> Value:
    """Does it run whenever the backward of its loop does? A witness that does not say so counts."""
    return call.arguments.get("each_iteration", Value(True))
