"""SDPA runs on bf16 tensors, for which a T4 has only the math kernel.

## What happens on a T4

Below compute capability 8.0 the memory-efficient kernel of `scaled_dot_product_attention` takes fp16 and float32, and
the flash and cuDNN kernels do not exist. bf16 tensors go to the math kernel, which stores all scores, sequence length
squared for each head, and multiplies in emulation.

## How to fix it

Use fp16: `fp16=True` with float32 weights, or `dtype=torch.float16` for a frozen model.

## When it is right to ignore it

For short sequences. The rule speaks by itself from 2048 tokens on, where the length is known; calls of a length that is
not known are reported on request only, since the rules on bf16 name the cause.

## Sources

* torch 2.15 `aten/src/ATen/native/transformers/cuda/sdp_utils.cpp` (`less_than_sm80_mem_efficient_dtypes`). The choice of a
  kernel needs a CUDA build: not run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import FALSE, Attention, Engine, Model, Trace

LONG = 2048  # tokens; a threshold without a source, where the scores outgrow the other activations of common models
OTHERS = ("eager", "flex_attention", "flash_attention_2", "flash_attention_3")


@rule(
    name="bf16-sdpa",
    severity="warning",
    summary="SDPA in bf16, which stores all scores on a T4",
    message="In bf16 only the math kernel of SDPA is left on a T4: it stores all scores{length}.",
    help="Use fp16, for which the memory-efficient kernel exists.",
    triggers=("scaled_dot_product_attention", "max_length", "max_seq_length"),
    reads=(Attention, Engine, Model),
    fix="unsafe",
)
def bf16_sdpa(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or "bfloat16" in trace.target.gpu.native_dtypes or "unsloth" in trace.imported:
        return
    elsewhere = any(it.role == "config" and it.implementation.it in OTHERS for it in trace.all(Attention))
    loaded = [model.dtype.it for model in trace.all(Model) if model.role == "load"]
    for event in trace.events:
        if isinstance(event, Attention) and event.role == "call" and event.implementation.it == "sdpa":
            yield Candidate(event, event.dtype.equals("bfloat16"), on_request=True, words={"length": ""})
        elif isinstance(event, Engine) and event.sequence_length.known and loaded:
            in_bf16 = event.mixed_precision.equals("bf16")
            length = event.sequence_length
            long = length.test(lambda tokens: isinstance(tokens, int) and tokens >= LONG)
            yield Candidate(
                event,
                in_bf16 & long & FALSE if elsewhere else in_bf16 & long,
                blame=length,
                words={"length": f", at {length.it} tokens"},
            )
