"""A memory budget of 16 GB is written for a T4.

## What happens on a T4

The card's label says 16 GB; PyTorch sees 14.56 to 14.76 GiB, of which the CUDA context takes some more. `max_memory={0: "16GiB"}`
lets the device map place more than there is on the card, and loading ends out of memory instead of moving the rest to the CPU.

## How to fix it

`max_memory={0: "13GiB", "cpu": "12GiB"}`, which leaves room for activations as well, or ask: `torch.cuda.mem_get_info()`.

## When it is right to ignore it

When the model is so small that the budget is never reached.

## Sources

* total memory of a T4: driver logs of 2023 to 2026; accelerate 1.15 `utils/modeling.py` (`convert_file_size_to_int`, executed:
  "16GB" is 16e9 bytes, "16GiB" is 2**34)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Trace

UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
GIB = 2**30


@rule(
    name="hard-coded-16gb-budget",
    severity="warning",
    summary="A GPU memory budget above what the card has",
    message="`max_memory` lets {given} go onto the GPU, and a {name} has {total:.1f} GiB: loading runs out of memory instead of "
    "using the CPU.",
    help='Write at most "13GiB" for a T4, which leaves room for activations.',
    triggers=("max_memory",),
    reads=(Call,),
)
def hard_coded_16gb_budget(trace: Trace) -> Iterator[Candidate]:
    gpu = trace.target.gpu
    if gpu is None:
        return
    for call in trace.all(Call):
        budget = call.arguments.get("max_memory")
        if budget is None:
            continue
        sizes = _per_gpu(budget.it) if budget.known else []
        yield Candidate(
            call,
            budget.test(lambda given: any(size > gpu.total_memory for _, size in _per_gpu(given))),
            blame=budget,
            words={
                "given": next((text for text, size in sizes if size > gpu.total_memory), ""),
                "name": gpu.name.upper(),
                "total": gpu.total_memory / GIB,
            },
        )


def _per_gpu(given: Any) -> list[tuple[str, float]]:
    """(as written, bytes) for each GPU; what is given for the CPU or disk is no matter."""
    if not isinstance(given, dict):
        return []
    found = []
    for device, size in given.items():
        text = str(size)
        matched = re.fullmatch(r"([\d.]+)\s*([KMG]i?B)", text, re.IGNORECASE)
        if not str(device).isdigit():
            continue
        if matched:
            found.append((text, float(matched[1]) * UNITS[matched[2].upper()]))
        elif isinstance(size, int):
            found.append((f"{size / GIB:.1f} GiB", float(size)))
    return found
