"""DeepSpeed's buckets for gradients take one to two GiB of the card, whatever the size of the model.

## What happens on a T4

ZeRO allocates a buffer of `reduce_bucket_size` elements in full at the first backward, two of them with `overlap_comm`. The
default of 5e8 elements is 0.93 GiB in 16 bits, 1.86 GiB for two, of the 14.6 GiB that a T4 has. It was chosen for larger
cards and faster links; runs that fit before die at the first backward.

## How to fix it

`"reduce_bucket_size": 1e8` (0.19 GiB), and the same for `allgather_bucket_size`. With the Trainer `"auto"` takes the square
of the hidden size, which is small.

## When it is right to ignore it

When there is memory to spare. `"auto"` and smaller buckets are not reported.

## Sources

* DeepSpeed 0.19.6, `stage_1_and_2.py` (`setup_buckets`) and `stage3.py` (one buffer); defaults in `zero/config.py`. The
  allocation needs a GPU and is not shown here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Fact, Trace, Value, Wrap

LARGE = 500_000_000  # elements
BYTES = 2  # an element in 16 bits, the least


@rule(
    name="deepspeed-bucket-too-large",
    severity="warning",
    summary="DeepSpeed's gradient buckets take one to two GiB",
    message="`reduce_bucket_size` is {size:.0e} elements{default}: {gib:.2f} GiB of the card in {buffers}, from the first "
    "backward on.",
    help='Set `"reduce_bucket_size": 1e8`.',
    triggers=("zero_optimization", "zero_stage", "stage", "deepspeed"),
    reads=(Wrap,),
)
def deepspeed_bucket_too_large(trace: Trace) -> Iterator[Candidate]:
    for wrap in trace.all(Wrap):
        size = wrap.options.get("reduce_bucket_size")
        if size is None:
            continue
        two = wrap.options["overlap_comm"].it is True and wrap.how.it != "zero3"
        whole = wrap.options["contiguous_gradients"].test(lambda value: value is not False, if_unknown=True)
        yield Candidate(
            wrap,
            _number(size).test(lambda elements: elements >= LARGE)
            & whole
            & Fact(wrap.how.it in ("zero1", "zero2", "zero3")),
            blame=size,
            words={
                "size": _number(size).it or 0,
                "default": ", DeepSpeed's default" if any(o.how == "default" for o in size.origins) else "",
                "buffers": "two buffers" if two else "a buffer",
                "gib": (_number(size).it or 0) * BYTES * (2 if two else 1) / 2**30,
            },
        )


def _number(value: Value) -> Value:
    """YAML gives `5e8` as text."""
    if not value.known or (isinstance(value.it, (int, float)) and not isinstance(value.it, bool)):
        return value
    try:
        return Value(float(str(value.it)), value.origins)
    except ValueError:
        return Value(unknown="the size of the bucket is no number", origins=value.origins)
