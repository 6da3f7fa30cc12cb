"""A loss or an output is summed up or collected over a loop together with its graph.

## What happens on a T4

`total += loss` keeps more than a number: the graph that made each loss stays alive until the sum is dropped. Where nothing goes
backward (an evaluation with gradients on) or the graph is retained, that is every activation of every batch: the card
fills up batch by batch and the run ends out of memory some way into the loop. After a plain `backward()` the activations are
freed, and what piles up is the skeleton of the graphs in host memory; Colab has 12.7 GB of it.

## How to fix it

Keep the number only: `total += loss.detach()`. It does not wait for the GPU, which `.item()` does. Outputs that are needed later:
`.detach().cpu()`.

## When it is right to ignore it

When the loop is short. What goes backward later, as the sum of several losses does, is not reported.

## Sources

* torch 2.13, executed over 30 batches of 72 MiB of activations: 2173 MiB more where nothing went backward, 2184 MiB with
  `retain_graph=True`, no more on the device after a backward but 240 kB of host memory a step for 180 modules, against 0.3 kB
  with `.detach()`
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, Edit, SetValue, rule
from t4lint.trace import FALSE, Backward, Fact, Keep, Trace, unknown
from t4lint.trace.questions import first_of_each

ATOM = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.[]()'\"")


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    kept = candidate.event.value if isinstance(candidate.event, Keep) else None
    if kept is not None and kept.known:
        text = kept.it if set(kept.it) <= ATOM else f"({kept.it})"
        yield SetValue(kept, f"{text}.detach()")


@rule(
    name="tensor-kept-across-steps",
    severity="warning",
    summary="A tensor is kept over the iterations of a loop together with its graph",
    message="What is {kept} here keeps its autograd graph: {harm}.",
    help="Keep `.detach()` of it, which does not wait for the GPU.",
    triggers=("+=", "append(", "= "),
    reads=(Backward, Keep),
    fix="safe",
    fixes=_fixes,
    fix_title="Detach what is kept",
)
def tensor_kept_across_steps(trace: Trace) -> Iterator[Candidate]:
    unseen = any(Backward in gap.could and not gap.outside for gap in trace.gaps)
    for keep in first_of_each(trace, Keep):
        same = [it for it in trace.all(Backward) if keep.loops and keep.loops[-1] in it.loops]
        retained = any(it.retain_graph.it is True for it in same)
        freed = bool(same) and not retained
        lives_on = keep.graph.equals(True) & ~keep.backward.equals(True)
        if not same and unseen:
            lives_on &= Fact(None, (unknown("a backward in this loop may not have been seen"),))
        elif not same:
            lives_on &= FALSE if _ends_with_the_step(trace, keep) else keep.batches.equals(True)
        yield Candidate(
            keep,
            lives_on,
            severity="note" if freed else None,
            words={"kept": "summed up" if keep.role == "sum" else "collected", "harm": HOST if freed else DEVICE},
        )


HOST = "the graphs of all steps pile up in host memory"
DEVICE = "the activations of every batch stay on the GPU until it is full"


def _ends_with_the_step(trace: Trace, keep: Keep) -> bool:
    """Does a backward of a loop around this one end it each time?"""
    return any(
        backward.loops and len(backward.loops) < len(keep.loops) and backward.loops == keep.loops[: len(backward.loops)]
        for backward in trace.all(Backward)
    )
