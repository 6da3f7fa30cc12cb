"""Attention is computed step by step, with all scores in memory.

## What happens on a T4

`attn_implementation="eager"` writes a matrix of sequence length by sequence length for each head, several times over.
In fp16 `"sdpa"` uses PyTorch's memory-efficient kernel on a T4, which stores none of them. At 2048 tokens and more the
scores are the largest part of the activations.

## How to fix it

Use `attn_implementation="sdpa"`, the default where a model has it.

## When it is right to ignore it

When you need the attention maps, and for models whose attention SDPA does not cover or whose authors ask for the eager
form (Gemma 2 and 3, gpt-oss): with `output_attentions` in the program, and for those models, the rule is silent.

## Sources

* transformers 5.24 `models/gemma2` and `models/gpt_oss` (`_supports_sdpa`), `integrations/sdpa_attention.py`; the choice of
  kernel: torch 2.15 `aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`, which needs a CUDA build and was not run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, Edit, SetValue, rule
from t4lint.trace import FALSE, Attention, Call, Engine, Model, Trace

LONG = 2048  # tokens; a threshold without a source, where the scores outgrow the other activations of common models


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    if candidate.blame is not None:
        yield SetValue(candidate.blame, '"sdpa"')


@rule(
    name="eager-attention",
    severity="note",
    summary="Eager attention, which stores all scores",
    message="Eager attention stores all scores: sequence length squared for each head{length}.",
    help='Use `attn_implementation="sdpa"`.',
    triggers=("eager",),
    reads=(Attention, Call, Engine, Model),
    fix="unsafe",
    fixes=_fixes,
    fix_title="Use SDPA",
)
def eager_attention(trace: Trace) -> Iterator[Candidate]:
    lengths = [engine.sequence_length.it for engine in trace.all(Engine) if engine.sequence_length.known]
    longest = max((length for length in lengths if isinstance(length, int)), default=0)
    eager_only = {model.subject for model in trace.all(Model) if _wants_eager(model)}
    for attention in trace.all(Attention):
        if attention.role != "config":
            continue
        eager = attention.implementation.equals("eager")
        if _maps_are_wanted(trace) or attention.subject in eager_only:
            eager &= FALSE
        yield Candidate(
            attention,
            eager,
            blame=attention.implementation,
            severity="warning" if longest >= LONG else None,
            words={"length": f", at {longest} tokens" if longest >= LONG else ""},
        )


def _maps_are_wanted(trace: Trace) -> bool:
    return any("output_attentions" in (call.function, *call.arguments) for call in trace.all(Call)) or any(
        call.function == "config.output_attentions" for call in trace.all(Call)
    )


def _wants_eager(model: Model) -> bool:
    """Soft-capped scores or sinks, which SDPA does not have; of Gemma 3 the authors ask for it."""
    return str(model.family.it) in ("gemma2", "gemma3", "gemma4", "gpt_oss", "None")
