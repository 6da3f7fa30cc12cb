"""Several masks of -inf meet before a softmax, and a row that they cover entirely becomes NaN.

## What happens on a T4

`softmax` over a row of which every entry is -inf is NaN, and one NaN in attention is in every weight after the next
step. A causal mask alone leaves each row its diagonal; a second mask for padding can take that away, as left padding
does. It is no matter of fp16, but it shows up when a program is moved from an attention kernel that copes with it.

## How to fix it

Combine the masks as booleans and fill once with `torch.finfo(scores.dtype).min`, or give one boolean mask to
`scaled_dot_product_attention`.

## When it is right to ignore it

When no row can be covered entirely, or the NaN is replaced afterwards. The rule is off by default: it cannot know what the
masks cover.

## Sources

* torch 2.13, executed: `softmax` of a row of -inf
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Operation, Trace
from t4lint.trace.questions import first_of_each


@rule(
    name="softmax-over-fully-masked-row",
    severity="warning",
    summary="Two masks of -inf before one softmax",
    message="Several masks of -inf meet here: a row that they cover entirely becomes NaN in the softmax.",
    help="Combine the masks as booleans and fill once with `torch.finfo(scores.dtype).min`.",
    triggers=("inf",),
    reads=(Operation,),
    default=False,
)
def softmax_over_fully_masked_row(trace: Trace) -> Iterator[Candidate]:
    for operation in first_of_each(trace, Operation):
        if operation.role == "masked softmax":
            yield Candidate(operation, operation.constant.test(lambda masks: masks >= 2))
