"""A kernel of flash_attn 2 or later is called directly, and there is none for a T4.

## What happens on a T4

`import flash_attn` works, and so does everything up to the first call: `flash_attn_func`, the varlen functions and the
cache functions then end in `RuntimeError: FlashAttention only supports Ampere GPUs or newer.` Building the package
from source with sm_75 added does not help: the check and the instructions remain.

## How to fix it

Call `torch.nn.functional.scaled_dot_product_attention`. In fp16 it picks the memory-efficient kernel on a T4, which
does not store the scores either. It takes `(batch, heads, length, head_dim)`, so transpose the middle dimensions.

## When it is right to ignore it

When the function comes from flash-attn 1.x or from the Turing port of FlashAttention, which bear the same names. A
call behind a test of the compute capability is not reported, nor one in a program that imports flash_attn under `try`
or under a condition and so has another way.

## Sources

* flash-attention (August 2026) `csrc/flash_attn/flash_api.cpp`, `hopper/flash_api.cpp`, README of 1.0.9 and 2.8;
  Turing port: Dao-AILab/flash-attention#2379. Needs a GPU: not run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Attention, Trace


@rule(
    name="flash-attn-direct-call",
    severity="error",
    summary="A flash_attn 2 kernel called directly, which a T4 does not have",
    message="flash_attn 2 and later have no kernel for a T4 (compute capability 7.5; they need 8.0): this call raises a RuntimeError.",
    help="Call `torch.nn.functional.scaled_dot_product_attention` in fp16 instead.",
    triggers=("flash_attn",),
    reads=(Attention,),
)
def flash_attn_direct_call(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 0):
        return
    for attention in trace.all(Attention):
        if attention.role == "call" and attention.implementation.it == "flash_attn":
            yield Candidate(attention, attention.kernel.equals("flash"))
