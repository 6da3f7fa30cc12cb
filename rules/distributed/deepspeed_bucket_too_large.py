"""DeepSpeed's buckets for gradients take one to two GiB of the card, whatever the size of the model.

## What happens on a T4

ZeRO allocates a buffer of `reduce_bucket_size` elements in full at the first backward, two of them with `overlap_comm`. The
default of 5e8 elements is 0.93 GiB in 16 bits, 1.86 GiB for two, of the 14.6 GiB that a T4 has. It was chosen for larger
cards and faster links; runs that fit before die at the first backward.

One buffer is a note, two are a warning; so is one where the prediction says that the card is nearly full. Where the prediction
says that everything fits beside the buffers, nothing is reported.

## How to fix it

`"reduce_bucket_size": 1e8` (0.19 GiB), and the same for `allgather_bucket_size`. With the Trainer `"auto"` takes the square
of the hidden size, which is small.

## When it is right to ignore it

When there is memory to spare that the prediction does not know of (`t4lint fit` shows it). `"auto"` and smaller buckets are not
reported.

## Sources

* DeepSpeed 0.19.6, `stage_1_and_2.py` (`setup_buckets`) and `stage3.py` (one buffer); defaults in `zero/config.py`. The
  allocation needs a GPU and is not shown here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, Edit, SetValue, rule
from t4lint.trace import FALSE, TRUE, Fact, Step, Trace, Value, Wrap

LARGE = 500_000_000  # elements
SMALL = 100_000_000
BYTES = 2  # an element in 16 bits, the least


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    if candidate.blame is not None and not candidate.words["default"]:
        yield SetValue(candidate.blame, str(SMALL))


@rule(
    name="deepspeed-bucket-too-large",
    severity="warning",
    summary="DeepSpeed's gradient buckets take one to two GiB",
    message="`reduce_bucket_size` is {size:.0e} elements{default}: {gib:.2f} GiB of the card in {buffers}, from the first "
    "backward on.",
    help='Set `"reduce_bucket_size": 1e8`.',
    triggers=("zero_optimization", "zero_stage", "stage", "deepspeed"),
    reads=(Wrap, Step),
    fix="safe",
    fixes=_fixes,
    fix_title="Take buckets of 1e8 elements",
)
def deepspeed_bucket_too_large(trace: Trace) -> Iterator[Candidate]:
    for wrap in trace.all(Wrap):
        written = wrap.options.get("reduce_bucket_size")
        if written is None:
            continue
        size = _number(written)
        two = wrap.options["overlap_comm"].it is True and wrap.how.it != "zero3"
        taken = (size.it or 0) * BYTES * (2 if two else 1)
        tight = _tight(trace, taken)
        whole = wrap.options["contiguous_gradients"].test(lambda value: value is not False, if_unknown=True)
        yield Candidate(
            wrap,
            size.test(lambda elements: elements >= LARGE)
            & whole
            & Fact(wrap.how.it in ("zero1", "zero2", "zero3"))
            & (TRUE if tight.holds is None else tight),
            blame=written,
            severity=None if two or tight.holds else "note",
            words={
                "size": size.it or 0,
                "default": ", DeepSpeed's default" if any(o.how == "default" for o in written.origins) else "",
                "buffers": "two buffers" if two else "a buffer",
                "gib": taken / 2**30,
            },
        )


def _tight(trace: Trace, taken: float) -> Fact:
    """Is the card too full for the buffers for certain, or has it room for certain? Else unknown."""
    gpu, peaks = trace.target.gpu, [step.peak.it for step in trace.all(Step)]
    bands = [band for band in peaks if isinstance(band, tuple)]
    if gpu is None or not bands:
        return Fact(None)
    if max(low for low, _ in bands) + taken > gpu.usable_bytes:
        return TRUE
    return FALSE if max(high for _, high in bands) + taken <= gpu.usable_bytes else Fact(None)


def _number(value: Value) -> Value:
    """YAML gives `5e8` as text."""
    if not value.known or (isinstance(value.it, (int, float)) and not isinstance(value.it, bool)):
        return value
    try:
        return Value(float(str(value.it)), value.origins)
    except ValueError:
        return Value(unknown="the size of the bucket is no number", origins=value.origins)
