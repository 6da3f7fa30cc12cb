"""A library function runs Triton kernels that do not suit a T4.

## What happens on a T4

Triton kernels with large tiles or many products suffer twice: a T4 has 64 KiB of shared memory for each block, and since
Triton 3.3 `tl.dot` does not use its tensor cores. Apple's fused linear cross entropy asks for 96 KiB and cannot start.
The group norm of Liger computes its backward pass in bf16 for fp16 inputs. The layers of flash-linear-attention consist
of such products and are slow.

## How to fix it

Use torch's own form: `torch.nn.functional.cross_entropy` on the logits (in chunks if they are large),
`torch.nn.GroupNorm`, and `attn_implementation="sdpa"` with a model of ordinary attention. Other functions of Liger (cross
entropy, RMSNorm, RoPE, SwiGLU) have no such trouble and are not reported.

## When it is right to ignore it

When you have measured it on a T4. `linear_cross_entropy(..., impl="torch_compile")` does not use the large kernel and is
not reported.

## Sources

* unsloth 2026.10 `models/llama.py`, which switches Apple's function off for want of shared memory (98304 bytes);
  liger-kernel 0.8.5 `ops/group_norm.py`; triton-lang/triton#5066. Needs a GPU: not run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Fact, Trace
from t4lint.trace.questions import first_of_each

EFFECTS = {
    "cut_cross_entropy": "asks for 96 KiB of shared memory, and a T4 has 64 KiB for each block",
    "liger_kernel": "computes its backward pass in bf16, which a T4 can only emulate",
    "fla": "runs on matrix products of Triton, which do not use the tensor cores of a T4",
}


@rule(
    name="triton-heavy-library",
    severity="warning",
    summary="A library function whose Triton kernels do not suit a T4",
    message="`{function}` {effect}.",
    help="Use torch's own form of the function on a T4.",
    triggers=("cut_cross_entropy", "liger_kernel", "from fla", "import fla"),
    reads=(Call,),
)
def triton_heavy_library(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 0):
        return
    for call in first_of_each(trace, Call):
        library = call.function.partition(".")[0]
        if library in EFFECTS:
            heavy = call.arguments["impl"].equals("cce") if library == "cut_cross_entropy" else Fact(True)
            words = {"function": call.function.rpartition(".")[2], "effect": EFFECTS[library]}
            yield Candidate(call, heavy, words=words)
