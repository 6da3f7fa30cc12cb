"""A Triton kernel of the project multiplies tiles that together do not fit into the shared memory of a T4.

## What happens on a T4

A block of threads on a T4 has at most 64 KiB of shared memory; an A100 has 163 KiB, and tile sizes are copied from there. The
two operands of a `tl.dot` lie in shared memory at the same time, so that they need at least `(M * K + K * N)` times the
bytes of an element. Beyond the limit the launch ends, after the whole kernel was compiled, in `triton.runtime.errors.OutOfResources:
out of resource: shared memory, Required: 98304, Hardware limit: 65536`. Under `triton.autotune` a configuration that does not
fit is left out; the launch fails when none fits.

## How to fix it

Halve one of the tile sizes until both tiles fit, `BLOCK_K` first, or add a configuration that fits to the list of
`triton.autotune`. `num_stages` changes nothing: before Ampere Triton does not copy ahead into shared memory.

## When it is right to ignore it

When the kernel is never launched on a T4.

What is judged is narrow: the kernel is launched in the program, the tile sizes and the dtypes of the tensors are known,
and both operands are tiles that were loaded. It is a lower bound: a kernel that is not reported may need more (the result of a
product that becomes an operand, transposed copies, and room for changing layouts are not counted).

## Sources

* CUDA C++ programming guide, technical specifications per compute capability (64 KiB for 7.5, 163 KiB for 8.0); triton 3.9
  `python/triton/compiler/compiler.py` (`raise OutOfResources`), `python/triton/runtime/autotuner.py`,
  `third_party/nvidia/backend/compiler.py` (pipelining from compute capability 8.0 on); vllm-project/vllm#36802 (a T4)
* The lower bound against what Triton 3.0, 3.2, 3.4 and 3.9 report for kernels that they compile for compute capability 7.5, which
  needs no GPU: `python benchmarks/triton_tiles.py`. The failing launch itself needs a T4: not run here
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import Call, Trace, Value

LAUNCH = (
    "launch",
    "configuration",
    "configurations",
)  # which launch of a kernel, which of its configurations, of how many


@rule(
    name="triton-tile-exceeds-shared-memory",
    severity="error",
    summary="Tiles of a `tl.dot` that do not fit into the shared memory of a T4",
    message="The two tiles of this `tl.dot` take at least {needed} KiB of shared memory and the {gpu} has {limit} KiB for a block: "
    "the kernel does not start.",
    help="Halve a tile size, the inner one (`BLOCK_K`) first, or add an autotune configuration that fits.",
    triggers=("triton",),
    reads=(Call,),
)
def triton_tile_exceeds_shared_memory(trace: Trace) -> Iterator[Candidate]:
    gpu = trace.target.gpu
    if gpu is None or gpu.capability >= (8, 0):  # the lower bound was measured below Ampere
        return
    for product in _one_of_each_place(_smallest_of_each_launch(trace)):
        shared = product.arguments["shared"]
        yield Candidate(
            product,
            shared.test(lambda needed: needed > gpu.shared_memory_per_block),
            blame=shared,
            words={
                "needed": shared.it // 1024 if isinstance(shared.it, int) else "?",
                "limit": gpu.shared_memory_per_block // 1024,
                "gpu": gpu.short_name,
            },
        )


def _one_of_each_place(products: Iterator[Call]) -> Iterator[Call]:
    """One product for each statement and place of its tile sizes."""
    seen = set()
    for product in products:
        place = (product.key, product.arguments["shared"].origins[:1])
        if place not in seen:
            seen.add(place)
            yield product


def _smallest_of_each_launch(trace: Trace) -> Iterator[Call]:
    """Of each launch the largest product of the configuration that needs least; and products of which nothing is known."""
    launches: dict[int, dict[int, list[Call]]] = {}
    ways: dict[int, int] = {}
    for call in trace.all(Call):
        if call.function != "triton.language.dot":
            continue
        shared, launch, way, count = (call.arguments.get(name) for name in ("shared", *LAUNCH))
        numbers = [value.it for value in (shared, launch, way, count) if value and isinstance(value.it, int)]
        if shared is not None and len(numbers) < 1 + len(LAUNCH):
            yield call
        elif shared is not None:
            ways[numbers[1]] = numbers[3]
            launches.setdefault(numbers[1], {}).setdefault(numbers[2], []).append(call)
    for number, products in launches.items():
        if len(products) == ways[number]:
            yield min((max(calls, key=_bytes) for calls in products.values()), key=_bytes)


def _bytes(call: Call) -> int:
    shared: Value = call.arguments["shared"]
    return int(shared.it)
