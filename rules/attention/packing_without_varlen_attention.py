"""Several samples are packed into one sequence, and no kernel on a T4 keeps them apart for free.

## What happens on a T4

`packing=True` (in the default strategy), `padding_free=True` and `DataCollatorWithFlattening` lay samples one after the
other and rely on a FlashAttention kernel for sequences of different lengths, which a T4 does not have. Before
transformers 4.53 SDPA then attends from each sample to those before it, silently. Since 4.53 a mask is built from the
position ids, so samples stay apart, at the cost of a mask of packed length by packed length.

## How to fix it

Update transformers to 4.53 or later, or set `packing=False` and let the collator pad. Group samples by length
(`group_by_length=True`) to pad less.

## When it is right to ignore it

From 4.53 on, when the packed length is small. `packing_strategy="wrapped"` cuts a stream of text without regard to
samples; it is not reported.

## Sources

* transformers 4.51.3 and 4.53.3, 5.24 `masking_utils.py` (`find_packed_sequence_indices`), executed on 5.24: with position ids a
  sample does not change when the one before it does
* trl 0.19 and 0.25 warn of it, 1.16 `trainer/sft_trainer.py` does not
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Attention, Call, Trace, Value


@rule(
    name="packing-without-varlen-attention",
    severity="warning",
    summary="Packed samples without a kernel that keeps them apart",
    message="{effect}.",
    help="Use transformers 4.53 or later, or `packing=False`.",
    triggers=("packing", "padding_free", "DataCollatorWithFlattening"),
    reads=(Call, Attention),
)
def packing_without_varlen_attention(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 0) or "unsloth" in trace.imported:
        return
    if trace.version_at_least("trl", "0.19").holds is False:  # it packed a stream without regard to samples, on any GPU
        return
    masked = trace.version_at_least("transformers", "4.53").holds is not False
    effect = (
        "Without FlashAttention packed samples are kept apart by a mask of packed length squared"
        if masked
        else "Without FlashAttention this version of transformers lets packed samples attend to each other"
    )
    flash = any("flash" in str(attention.implementation.it) for attention in trace.all(Attention))
    for call in trace.all(Call):
        for value in _packs(call):
            packed = value.equals(True)
            yield Candidate(
                call,
                packed & FALSE if flash else packed,
                blame=value if value.origins else None,
                severity="note" if masked else None,
                words={"effect": effect},
            )


def _packs(call: Call) -> Iterator[Value]:
    """The values that make a program pack samples by position ids."""
    if call.function == "transformers.DataCollatorWithFlattening":
        yield Value(True)
    elif call.function.startswith("trl.") and call.function.endswith("Config"):
        if "packing" in call.arguments and call.arguments.get("packing_strategy", Value("bfd")).it != "wrapped":
            yield call.arguments["packing"]
        elif "padding_free" in call.arguments:
            yield call.arguments["padding_free"]
