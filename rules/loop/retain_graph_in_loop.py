"""`retain_graph=True` for the only backward of an iteration.

## What happens on a T4

The buffers of a graph are freed by its backward. With `retain_graph=True` they stay until the loss is overwritten, which
is after the next forward has made its own: two sets of activations are alive at once, and the batch that fits on the card
is half as large. Where the loss, or a tensor of the last step, is kept, they are never freed at all.

## How to fix it

Drop the argument. If the error `Trying to backward through the graph a second time` comes back, a tensor is carried from
one step to the next: `.detach()` it there.

## When it is right to ignore it

When several losses share one graph and the other backward is not seen here, or when gradients of gradients are taken.

## Sources

* torch 2.13 `Tensor.backward`, executed: the old graph is alive during the next forward, and gone with `retain_graph=False`
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, DropArgument, Edit, rule
from t4lint.trace import FALSE, Backward, Call, Fact, Forward, Trace


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    if candidate.blame is not None:
        yield DropArgument(candidate.blame, "retain_graph")


@rule(
    name="retain-graph-in-loop",
    severity="warning",
    summary="The graph is kept after the only backward of an iteration",
    message="`retain_graph=True` keeps the activations of this step alive during the next one, although nothing else goes backward "
    "through them.",
    help="Drop `retain_graph=True`, and `.detach()` what is carried over to the next step.",
    triggers=("retain_graph",),
    reads=(Backward, Call, Forward),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Drop `retain_graph`",
)
def retain_graph_in_loop(trace: Trace) -> Iterator[Candidate]:
    """One place that goes backward in the whole nest of loops, once for each forward, and no gradients by hand."""
    backwards = {backward.key: backward for backward in trace.all(Backward)}
    by_hand = any(call.function == "torch.autograd.grad" for call in trace.all(Call))
    for backward in backwards.values():
        retained = backward.retain_graph.equals(True)
        alone = trace.never(
            Backward,
            lambda other, it=backward: Fact(other.key != it.key and bool(set(other.loops) & set(it.loops))),  # type: ignore[misc]
        )
        if not backward.loops or by_hand or not _once_a_forward(trace, backward):
            retained &= FALSE
        yield Candidate(backward, retained & alone, blame=backward.retain_graph)


def _once_a_forward(trace: Trace, backward: Backward) -> bool:
    """Does the innermost loop run a forward for each backward? A loop over several losses of one forward does not."""
    inside = [it for it in trace.all(Forward) if backward.loops[-1] in it.loops]
    again = sum(it.key == backward.key and it.loops == backward.loops for it in trace.all(Backward))
    return len(inside) >= again
