"""A large layer has a dimension that is no multiple of 8.

## What happens on a T4

The tensor cores of a T4 work on tiles of 8 fp16 numbers. With a dimension such as a vocabulary of 50257 cuBLAS pads or
takes a slower kernel for the product with that layer.

## How to fix it

Round the dimension up: a vocabulary of 50304, `model.resize_token_embeddings(n, pad_to_multiple_of=8)`.

## When it is right to ignore it

For a pretrained model whose shape is given, and where the layer is a small part of the work. The rule is off by default;
it looks at layers of 512 and more.

## Sources

* transformers 5.24 documentation of `pad_to_multiple_of`; NVIDIA's guide to matrix multiplication (2023). How much it brings on a
  T4 was not measured here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Autocast, Engine, Model, Operation, Trace
from t4lint.trace.questions import first_of_each, in_fp16


@rule(
    name="dims-not-multiple-of-8",
    severity="note",
    summary="A large layer whose size is no multiple of 8, in fp16",
    message="{size} is no multiple of 8, so the tensor cores of a T4 are used in part for this layer.",
    help="Round the size up to a multiple of 8.",
    triggers=("Linear", "Embedding"),
    reads=(Operation, Autocast, Engine, Model),
    default=False,
    fix="unsafe",
)
def dims_not_multiple_of_8(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or not in_fp16(trace):
        return
    for operation in first_of_each(trace, Operation):
        if operation.role == "layer":
            size = operation.constant
            yield Candidate(operation, size.test(lambda it: it % 8 != 0), blame=size, words={"size": size.it})
