"""FlashAttention 2 or later is asked for, and it has no kernel for a T4.

## What happens on a T4

FlashAttention 2, 3 and 4 need compute capability 8.0 or more; a T4 has 7.5. When the package is installed, loading
the model succeeds and the first forward pass ends with `RuntimeError: FlashAttention only supports Ampere GPUs or
newer.` When it is not, the model does not load. `is_flash_attn_2_available()` looks for the package and for CUDA, not
for the architecture, so it does not protect.

## How to fix it

Use `attn_implementation="sdpa"`. In fp16 PyTorch then picks its memory-efficient kernel, which works on a T4 and does
not store the scores either.

## When it is right to ignore it

When the value is replaced before the model runs, or when attention on this GPU goes through the separate Turing port
of FlashAttention. Sliding windows and padding-free packing rely on FlashAttention in some models: switch them off as
well.

## Sources

* flash-attention (August 2026) `csrc/flash_attn/flash_api.cpp`, `hopper/flash_api.cpp`; transformers 5.24
  `modeling_flash_attention_utils.py`, `utils/import_utils.py`; Turing port: Dao-AILab/flash-attention#2379
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, Edit, SetValue, rule
from t4lint.trace import Attention, Call, Trace, TrainerFile

# Arguments and classes.
LEANING = ("packing", "padding_free", "sliding_window", "use_sliding_window", "DataCollatorWithFlattening")


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    """Not with sliding windows or packing, which may lean on FlashAttention: without it samples see each other."""
    leaning = any(_given(call, name) for call in trace.all(Call) for name in LEANING)
    if candidate.blame is not None and not leaning:
        yield SetValue(candidate.blame, '"sdpa"')


def _given(call: Call, name: str) -> bool:
    return (name in call.arguments and call.arguments[name].it not in (False, None)) or name in call.function


@rule(
    name="flash-attention-backend",
    severity="error",
    summary="FlashAttention 2 or later, which has no kernel for a T4",
    message="`{implementation}` has no kernel for a T4 (compute capability 7.5; it needs 8.0): the model fails at the latest in its "
    "first forward pass.",
    help='Use `attn_implementation="sdpa"`.',
    triggers=("flash",),
    reads=(Attention, Call, TrainerFile),
    fix="safe",
    fixes=_fixes,
    fix_title="Use SDPA",
)
def flash_attention_backend(trace: Trace) -> Iterator[Candidate]:
    if trace.target.gpu is None or trace.target.gpu.capability >= (8, 0):
        return
    for attention in trace.all(Attention):
        if attention.role == "config":
            yield Candidate(
                attention,
                attention.implementation.test(_needs_ampere),
                blame=attention.implementation,
                words={"implementation": attention.implementation.it},
            )

    for file in trace.all(TrainerFile):
        if file.role == "axolotl":
            yield from _asked_in_a_file(file)


def _asked_in_a_file(file: TrainerFile) -> Iterator[Candidate]:
    """axolotl's own names: `flash_attention: true` is FlashAttention 2 (axolotl 0.19, utils/schemas/enums.py)."""
    own = file.fields.get("flash_attention")
    if own is not None:
        yield Candidate(file, own.equals(True), blame=own, words={"implementation": "flash_attention_2"})
    named = file.fields.get("attn_implementation")
    if named is not None:
        yield Candidate(file, named.test(_needs_ampere), blame=named, words={"implementation": named.it})


def _needs_ampere(implementation: object) -> bool:
    name = str(implementation).rpartition("|")[2]
    if "/" in name:  # a kernel from the hub, e.g. kernels-community/flash-attn2
        return "flash-attn" in name and "turing" not in name.lower()
    return name.startswith("flash_attention_")
