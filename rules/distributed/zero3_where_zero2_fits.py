"""ZeRO-3 shards the weights too, although the training state fits with ZeRO-2.

## What happens on a T4

ZeRO-3 sends 6 bytes for each parameter in every micro-batch to gather the weights twice and to scatter the gradients; ZeRO-2
sends 2, and 2 once a step. Between T4 nodes the difference is seconds a step. What it buys is memory, and where
`2 P + 18 P / n` bytes fit beside the activations, it is not needed.

## How to fix it

`"stage": 2`, and if the gradients fit as well `"stage": 1`, which does not repeat its traffic while accumulating.

## When it is right to ignore it

When the activations need the room; the estimate counts states only. Inside one node it is reported on request only.
Programs with offload or adapters are not judged.

## Sources

* DeepSpeed 0.19.6, `estimate_zero2_model_states_mem_needs`; documentation of the stages' traffic
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Fact, Launch, Step, Trace, Value, Wrap
from t4lint.trace.questions import parameters_of, ranks_of

CARD = 13e9  # bytes that a T4 leaves to states, beside activations and the CUDA context
WHOLE, DIVIDED = 2, 18  # bytes a parameter of ZeRO-2 on each rank, and divided among them


@rule(
    name="zero3-where-zero2-fits",
    severity="warning",
    summary="ZeRO-3 although ZeRO-2 fits",
    message="With ZeRO-2 the training state fits{size}, so ZeRO-3 only adds traffic: 6 bytes a parameter and micro-batch "
    "instead of 2.",
    help='Use `"stage": 2` if the activations leave room.',
    triggers=("stage", "deepspeed"),
    reads=(Wrap, Launch, Step),
)
def zero3_where_zero2_fits(trace: Trace) -> Iterator[Candidate]:
    parameters, ranks = parameters_of(trace), ranks_of(trace)
    across = any(launch.nodes.known and launch.nodes.it > 1 for launch in trace.all(Launch))
    known = parameters.known and ranks.known
    state = parameters.it * (WHOLE + DIVIDED / max(ranks.it, 1)) if known else 0.0
    fits = Fact(state <= CARD if known else None, (parameters, ranks))
    for wrap in trace.all(Wrap):
        yield Candidate(
            wrap,
            wrap.how.equals("zero3")
            & _stays_on_card(wrap)
            & ranks.test(lambda number: number > 1)
            & fits
            & Fact("peft" not in trace.imported),
            blame=wrap.how,
            severity=None if across else "note",
            words={"size": f": {state / 2**30:.1f} GiB on each of the {ranks.it} GPUs" if known else ""},
            on_request=not across,
        )


def _stays_on_card(wrap: Wrap) -> Fact:
    unsaid = Value(unknown="whether it offloads")
    optimizer, weights = wrap.options.get("offload_optimizer", unsaid), wrap.options.get("offload_param", unsaid)
    return optimizer.equals("none") & weights.equals("none")
