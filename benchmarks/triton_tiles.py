"""How much shared memory Triton gives to the two operands of a `tl.dot` below Ampere: the lower bound of the rule
`triton-tile-exceeds-shared-memory` against the compiler.

    python benchmarks/triton_tiles.py >> benchmarks/triton_tiles.csv    # with the triton that is installed

Triton compiles for a compute capability without a GPU (its own `ptxas` comes with it), and says how much shared memory the kernel
takes. Nothing but triton is needed. `tests/test_claims_kernels.py` holds the bound against the rows of the table.
"""

from __future__ import annotations

import csv
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

T4 = GPUTarget("cuda", 75, 32)
COLUMNS = ("triton", "kernel", "dtype", "operand_dtype", "m", "n", "k", "num_warps", "num_stages", "shared")
SIZES = ((64, 32, 64, 8, 4), (32, 64, 64, 4, 2), (128, 64, 32, 8, 3))  # m, n, k, num_warps, num_stages


@triton.jit
def once(a, b, c, length, m: tl.constexpr, n: tl.constexpr, k: tl.constexpr):
    rows, columns, inner = tl.arange(0, m), tl.arange(0, n), tl.arange(0, k)
    x = tl.load(a + rows[:, None] * length + inner[None, :])
    y = tl.load(b + inner[:, None] * length + columns[None, :])
    tl.store(c + rows[:, None] * length + columns[None, :], tl.dot(x, y))


@triton.jit
def loop(a, b, c, length, m: tl.constexpr, n: tl.constexpr, k: tl.constexpr):
    rows, columns, inner = tl.arange(0, m), tl.arange(0, n), tl.arange(0, k)
    a_at, b_at = a + rows[:, None] * length + inner[None, :], b + inner[:, None] * n + columns[None, :]
    total = tl.zeros((m, n), dtype=tl.float32)
    for _ in range(0, length, k):
        total += tl.dot(tl.load(a_at), tl.load(b_at))
        a_at += k
        b_at += k * n
    tl.store(c + rows[:, None] * n + columns[None, :], total)


@triton.jit
def one_operand_before_the_loop(a, b, c, length, m: tl.constexpr, n: tl.constexpr, k: tl.constexpr):
    rows, columns, inner = tl.arange(0, m), tl.arange(0, n), tl.arange(0, k)
    x = tl.load(a + rows[:, None] * k + inner[None, :])
    b_at, c_at = b + inner[:, None] * length + columns[None, :], c + rows[:, None] * length + columns[None, :]
    for _ in range(0, length, n):
        tl.store(c_at, tl.dot(x, tl.load(b_at)))
        b_at += n
        c_at += n


@triton.jit
def cast_to_float16(a, b, c, length, m: tl.constexpr, n: tl.constexpr, k: tl.constexpr):
    rows, columns, inner = tl.arange(0, m), tl.arange(0, n), tl.arange(0, k)
    total = tl.zeros((m, n), dtype=tl.float32)
    for i in range(tl.cdiv(length, k)):
        at = i * k + inner
        x = tl.load(a + rows[:, None] * length + at[None, :], mask=at[None, :] < length, other=0.0).to(tl.float16)
        y = tl.load(b + at[:, None] * n + columns[None, :], mask=at[:, None] < length, other=0.0).to(tl.float16)
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total)


@triton.jit
def attention(a, b, c, length, m: tl.constexpr, n: tl.constexpr, k: tl.constexpr):
    rows, columns, inner = tl.arange(0, m), tl.arange(0, n), tl.arange(0, k)
    q = tl.load(a + rows[:, None] * k + inner[None, :])
    at = b + columns[:, None] * k + inner[None, :]
    total = tl.zeros((m, k), dtype=tl.float32)
    for _ in range(0, length, n):
        keys = tl.load(at)
        scores = tl.exp(tl.dot(q, tl.trans(keys))).to(q.dtype)
        total += tl.dot(scores, keys)
        at += k * n
    tl.store(c + rows[:, None] * k + inner[None, :], total)


KERNELS = (once, loop, one_operand_before_the_loop, cast_to_float16, attention)


def source(kernel: triton.JITFunction, dtype: str, sizes: dict[str, int]) -> ASTSource:
    """The kernel with its types: how these are said differs between the releases of triton."""
    types = {"a": f"*{dtype}", "b": f"*{dtype}", "c": "*fp32", "length": "i32"}
    release = tuple(int(part) for part in triton.__version__.split(".")[:2])
    if release < (3, 2):
        numbers = {name: kernel.arg_names.index(name) for name in (*types, *sizes)}
        return ASTSource(
            kernel, {numbers[n]: it for n, it in types.items()}, {numbers[n]: it for n, it in sizes.items()}
        )
    if release < (3, 3):
        return ASTSource(kernel, types, sizes)
    return ASTSource(kernel, {**types, **dict.fromkeys(sizes, "constexpr")}, sizes)


def shared_memory(
    kernel: triton.JITFunction, dtype: str, m: int, n: int, k: int, warps: int, stages: int
) -> int | None:
    """Bytes of shared memory of a kernel on a T4; None where this triton fails to compile it."""
    try:
        options = {"num_warps": warps, "num_stages": stages}
        return int(triton.compile(source(kernel, dtype, {"m": m, "n": n, "k": k}), T4, options).metadata.shared)
    except Exception as error:  # 3.0 to 3.2 fail on a product of float32 here: IndexError: map::at
        print(f"{kernel.fn.__name__} {dtype} {m}x{n}x{k}: {type(error).__name__}", file=sys.stderr)
        return None


def main() -> None:
    table = csv.writer(sys.stdout, lineterminator="\n")
    for kernel in KERNELS:
        for dtype in ("fp16", "fp32"):
            operand = "fp16" if kernel is cast_to_float16 else dtype
            for sizes in SIZES:
                shared = shared_memory(kernel, dtype, *sizes)
                if shared is not None:
                    table.writerow((triton.__version__, kernel.fn.__name__, dtype, operand, *sizes, shared))


if __name__ == "__main__":
    main()
