"""torch is installed without a version, and its newest wheels need a recent driver.

## What happens on a T4

`pip install torch` takes the newest release, whose wheels bring CUDA 13 from 2.11 on and need a driver of the R580 series.
Images for T4 machines often have an older one: `The NVIDIA driver on your system is too old`, and training runs on the CPU or
not at all. The kernels for compute capability 7.5 are in all wheels up to 2.15.

## How to fix it

Pin it, `torch==2.10.*`, or take the wheel for the driver: `--index-url https://download.pytorch.org/whl/cu126`.

## When it is right to ignore it

When the image's driver is R580 or later, or the image brings torch and the line changes nothing.

## Sources

* torch 2.10 to 2.15 wheels on PyPI (2026-11). The driver's message needs a GPU and is not shown here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Fact, Requirement, Trace, release

FIRST_WITH_CUDA_13 = "2.11"


@rule(
    name="unpinned-torch-install",
    severity="note",
    summary="torch without a version takes wheels for CUDA 13",
    message="torch is not held below 2.11: the newest wheels bring CUDA 13, which needs a driver of R580 or later.",
    help="Pin torch, or take the wheel for the driver (`--index-url .../whl/cu126`).",
    triggers=("torch",),
    reads=(Requirement,),
    default=False,
    verifiable=False,
)
def unpinned_torch_install(trace: Trace) -> Iterator[Candidate]:
    for asked in trace.all(Requirement):
        if asked.name == "torch" and asked.role != "optional":
            highest = asked.version.it or asked.high.it
            open_end = Fact(highest is None or release(highest) > release(FIRST_WITH_CUDA_13), (asked.version,))
            yield Candidate(
                asked, open_end & ~asked.elsewhere.equals(True) & Fact(asked.version.it is None), blame=asked.version
            )
