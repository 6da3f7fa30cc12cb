"""A flag that the program offers and never reads.

## What happens on a T4

`--gradient_checkpointing` or `--fp16` is accepted, printed with the other settings, and changes nothing: the code that would read it
was lost when the script was copied from another. One believes that memory is saved or precision is mixed, and wonders why a T4 runs
out of memory or is slow.

## How to fix it

Read it where it belongs (`if args.gradient_checkpointing: model.gradient_checkpointing_enable()`), or drop the flag.

## When it is right to ignore it

When code that is not part of the project reads it. A flag whose name stands anywhere else in the project, and parsers whose
result goes as a whole into code that is not known, are not reported.

## Sources

* 996 flags of the training vocabulary in 34 public repositories, 2026: 33 are read nowhere in their folder, among them
  `--gradient_checkpointing` in four example scripts of diffusers (58eb52c0) and `--fp16` in one of accelerate (16cb6eb8)
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Setting, Trace

VOCABULARY = frozenset({
    "fp16", "bf16", "amp", "use_amp", "mixed_precision", "half", "tf32", "allow_tf32", "gradient_checkpointing",
    "activation_checkpointing", "grad_checkpointing", "use_checkpoint", "gradient_accumulation_steps", "accumulation_steps",
    "accum_iter", "grad_accum_steps", "gradient_accumulation", "accumulate_grad_batches", "num_workers",
    "dataloader_num_workers", "workers", "pin_memory", "use_8bit_adam", "optimizer", "optim", "max_grad_norm", "clip_grad",
    "batch_size", "train_batch_size", "per_device_train_batch_size", "max_length", "max_seq_length", "compile", "torch_compile",
    "enable_xformers_memory_efficient_attention", "load_in_4bit", "load_in_8bit", "precision", "dtype",
})  # fmt: skip


@rule(
    name="unused-training-flag",
    severity="warning",
    summary="A flag that nothing reads",
    message="`--{name}` is parsed and nothing in the project reads it: {effect}.",
    help="Read the flag where it belongs, or drop it.",
    triggers=("add_argument",),
    reads=(Setting,),
)
def unused_training_flag(trace: Trace) -> Iterator[Candidate]:
    for setting in trace.all(Setting):
        if setting.name not in VOCABULARY:
            continue
        passed = any(origin.how == "flag" for origin in setting.given.origins)
        yield Candidate(
            setting,
            setting.reads.equals(0),
            blame=setting.given,
            severity=None if passed else "note",
            words={
                "name": setting.name,
                "effect": "what the command asks for does not happen" if passed else "setting it changes nothing",
            },
        )
