"""Attention maps are asked for from a model that computes attention with SDPA, which has none.

## What happens on a T4

SDPA never holds the whole matrix of attention. Since transformers 5 `model(..., output_attentions=True)` on a model with
the default implementation logs a line and returns an empty tuple; taking a map out of it ends in `IndexError: tuple index
out of range`. `model.config.output_attentions = True` raises a ValueError. transformers 4 fell back to eager attention.

## How to fix it

Load the model with `attn_implementation="eager"`. `from_pretrained(..., output_attentions=True)` chooses that by itself.

## When it is right to ignore it

When the maps are not used. Only models are judged whose family is known to have SDPA.

## Sources

* transformers 5.24 `configuration_utils.py` and `modeling_utils.py`, executed: an empty tuple, the IndexError and the
  ValueError
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Trace
from t4lint.trace.questions import first_of_each

# families with SDPA in transformers 5.24 (`_supports_sdpa`), which is what they then use without being asked
WITH_SDPA = frozenset({
    "albert", "bert", "distilbert", "falcon", "gemma", "gpt2", "gpt_neox", "llama", "mistral", "mixtral", "opt", "phi", "phi3",
    "qwen2", "qwen3", "roberta", "xlm-roberta",
})  # fmt: skip
EFFECTS = {
    "output_attentions": ("note", "the maps come back as an empty tuple"),
    "output_attentions[]": ("error", "the maps are an empty tuple, and taking one out raises an IndexError"),
    "config.output_attentions": ("error", "setting it raises a ValueError"),
}


@rule(
    name="output-attentions-with-sdpa",
    severity="error",
    summary="Attention maps from a model that computes attention with SDPA",
    message="The model computes attention with SDPA, which has no maps: {effect}.",
    help='Load the model with `attn_implementation="eager"`.',
    triggers=("output_attentions",),
    reads=(Call,),
    fix="unsafe",
)
def output_attentions_with_sdpa(trace: Trace) -> Iterator[Candidate]:
    recent = trace.version_at_least("transformers", "5.0")
    for call in first_of_each(trace, Call):
        if call.function not in EFFECTS:
            continue
        severity, effect = EFFECTS[call.function]
        asked = call.arguments["asked"].equals(True)
        sdpa = call.arguments["implementation"].within((None, "sdpa"))
        has_it = call.arguments["family"].test(lambda family: True if family in WITH_SDPA else None)
        empty = asked & sdpa & has_it & recent
        yield Candidate(call, empty, severity=severity, words={"effect": effect})  # type: ignore[arg-type]
