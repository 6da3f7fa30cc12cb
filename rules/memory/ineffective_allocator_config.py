"""A setting of PyTorch's allocator that does not take effect.

## What happens on a T4

`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` is the usual remedy against fragmentation on a small card. A misspelt option is refused
or passed over in silence, `true` instead of `True` raises when CUDA is first used, the new name `PYTORCH_ALLOC_CONF` is not
read for CUDA up to torch 2.9, and whatever is set after the first tensor is on the GPU comes too late. The run then ends out of memory
as before.

## How to fix it

`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` in the environment of the command, or before `import torch`. Where the version is
not known, set both names.

## When it is right to ignore it

When the option belongs to another backend or a patched PyTorch.

## Sources

* torch 2.13 `c10/core/AllocatorConfig.h`, executed on a CPU build: a misspelt option is taken without a word, `true` raises;
  pytorch/pytorch#183387 for the new name in 2.9.1; karpathy/autoresearch#588 for 2.11. What CUDA builds do with the options cannot be
  shown without a GPU
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from t4lint.rule import Candidate, Edit, SetValue, rule
from t4lint.trace import (
    FALSE,
    TRUE,
    Backward,
    Copy,
    EnvironmentVariable,
    Event,
    Fact,
    Launch,
    Step,
    Trace,
    Value,
    release,
)

OLD, NEW = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
# options of torch 2.0 to 2.13 (CUDAAllocatorConfig, AcceleratorAllocatorConfig)
OPTIONS = frozenset({
    "backend", "max_split_size_mb", "max_non_split_rounding_mb", "garbage_collection_threshold", "roundup_power2_divisions",
    "roundup_bypass_threshold_mb", "expandable_segments", "release_lock_on_cudamalloc", "pinned_use_cuda_host_register",
    "pinned_num_register_threads", "pinned_use_background_threads", "pinned_use_hip_host_register",
    "release_lock_on_hipmalloc", "graph_capture_record_stream_reuse", "per_process_memory_fraction", "pinned_reserve_segment_size_mb",
    "throw_on_cudamalloc_oom", "pinned_max_power2_size_mb", "pinned_max_round_threshold_mb",
})  # fmt: skip
FIRST_READ = "2.10"  # the new name is not read for CUDA in 2.9.1, and is in 2.11


def _fixes(trace: Trace, candidate: Candidate) -> Iterator[Edit]:
    right = candidate.words["right"]
    if isinstance(right, str) and right and candidate.blame is not None:
        yield SetValue(candidate.blame, repr(right).replace("'", '"'))


@rule(
    name="ineffective-allocator-config",
    severity="warning",
    summary="A setting of PyTorch's allocator that does not take effect",
    message="`{name}` has no effect as it stands: {why}.",
    help="Set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` before the program starts.",
    triggers=(OLD, NEW),
    reads=(Backward, Copy, EnvironmentVariable, Launch, Step),
    fix="safe",
    fixes=_fixes,
    fix_title="Spell the option as PyTorch does",
)
def ineffective_allocator_config(trace: Trace) -> Iterator[Candidate]:
    names = {name for _, name, _, _ in _set(trace)}
    for event, name, value, late in _set(trace):
        wrong, right = _misspelt(value)
        unread = _not_read(trace) if name == NEW and OLD not in names else FALSE
        why = wrong or ("it is set after the GPU is in use" if late else "torch 2.9 and older do not read it for CUDA")
        spelt = TRUE if wrong else FALSE if value.known else Fact(None, (value,))
        words = {"name": name, "why": why, "right": right}
        yield Candidate(event, spelt | Fact(late) | unread, blame=value, words=words)


def _set(trace: Trace) -> Iterator[tuple[Event, str, Value, bool]]:
    """Where the allocator's variables are set: (event, name, value, is the GPU in use by then)."""
    used = False
    for event in trace.events:
        if isinstance(event, (Backward, Step)) or (isinstance(event, Copy) and event.destination.it == "cuda"):
            used = True
        if isinstance(event, EnvironmentVariable) and event.name in (OLD, NEW):
            yield event, event.name, event.value, used and event.set_in == "program"
        if (
            isinstance(event, Launch) and trace.basis == "predicted"
        ):  # a run tells the variables of its launch one by one
            yield from ((event, name, value, False) for name, value in event.environment.items() if name in (OLD, NEW))


def _not_read(trace: Trace) -> Fact:
    version = trace.versions.get("torch")
    if version is None or not version.known:
        return FALSE
    return Fact(release(version.it) < release(FIRST_READ), (version,))


def _misspelt(value: Value) -> tuple[str, str]:
    """What is wrong with the first option that is, and the whole text as it would be right; empty where nothing is."""
    parts = str(value.it).split(",") if value.known and isinstance(value.it, str) else []
    for number, part in enumerate(parts):
        name, colon, given = part.strip().partition(":")
        if not colon or "[" in part:
            continue
        close = difflib.get_close_matches(name, OPTIONS, n=1, cutoff=0.75)
        if name not in OPTIONS and close:
            fixed = ",".join([*parts[:number], f"{close[0]}:{given}", *parts[number + 1 :]])
            return f"`{name}` is no option of PyTorch, `{close[0]}` is", fixed
        if name in OPTIONS and given in ("true", "false"):
            fixed = ",".join([*parts[:number], f"{name}:{given.title()}", *parts[number + 1 :]])
            return f"`{name}` takes `{given.title()}`, and `{given}` raises", fixed
    return "", ""
