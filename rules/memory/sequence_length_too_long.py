"""Not even one sample of the longest length fits on the card.

## What happens on a T4

Activations and logits grow with the length, and a T4 leaves 14.3 GiB to a program. When one sample of the length that the
program allows already passes the card, no micro-batch helps: the run ends with `torch.OutOfMemoryError` at the first long
sample, which may come hours after the start. Attention is not to blame as long as SDPA takes its memory-efficient kernel;
logits often are: a sample of 8,192 tokens with 151,936 words makes 7 GiB of them in float32 alone.

## How to fix it

Limit the length (`max_length=2048` or less), or cut the documents into pieces. Before that: activation checkpointing, a
loss in chunks (TRL 1.6 and later, Liger kernels), adapters instead of full training. `t4lint fit` says which length fits.

## When it is right to ignore it

When no sample is ever that long: the length is a limit, and batches are padded to their longest sample. So the finding is
never more than likely. An unbounded `tokenizer.model_max_length` is not seen.

## Sources

* bytes of activations and logits: traces of transformers 5.24 on torch 2.13 (`docs/memory.md`), `loss/loss_utils.py`;
  TRL's chunked loss: trl 1.6 `sft_trainer.py`
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Engine, Fact, Step, Trace
from t4lint.trace.questions import first_of_each, on_gpu, one_sample, written_length

GIB = 2**30


@rule(
    name="sequence-length-too-long",
    severity="error",
    summary="A sequence length of which not even one sample fits",
    message="One sample of {length} tokens needs at least {peak:.1f} GiB and a T4 leaves {usable:.1f}, so a smaller micro-batch "
    "does not help.",
    help="Limit the length, switch activation checkpointing on, or take a loss in chunks; `t4lint fit` says what fits.",
    triggers=("length", "max_seq"),
    reads=(Engine, Step),
)
def sequence_length_too_long(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None:
        return
    usable = float(trace.target.gpu.usable_bytes)
    length = written_length(trace)
    if length is None:
        return
    for step in first_of_each(trace, Step):
        state, sample = one_sample(step)
        over = Fact(state + sample > usable if step.components.known else None, (step.components, length))
        too_long = on_gpu(step.device) & over
        if state > usable:  # another rule's
            too_long &= FALSE
        yield Candidate(
            step,
            too_long & Fact(True, (step.peak,)) if step.peak.known else too_long,
            blame=length,
            words={"length": length.it, "peak": (state + sample) / GIB, "usable": usable / GIB},
        )
