"""PyTorch's caching allocator for CUDA, replayed on addresses that nobody uses: what is reserved, and what does not fit.

The native allocator, one stream, default settings. Sources: c10/cuda/CUDACachingAllocator.cpp and
c10/core/AllocatorConfig.h of torch 2.13 (round_size, get_allocation_size, should_split, alloc_block, free_block).
Sizes are in bytes.
"""

from __future__ import annotations

import bisect

ROUND = 512  # kMinBlockSize: every block is a multiple of it
SMALL = 1 << 20  # kSmallSize: blocks up to here come from the small pool
SMALL_SEGMENT = 2 << 20  # kSmallBuffer
LARGE_SEGMENT = 20 << 20  # kLargeBuffer: a segment for blocks below MIN_LARGE
MIN_LARGE = 10 << 20  # kMinLargeAlloc: blocks from here on get a segment of their own size
SEGMENT_ROUND = 2 << 20  # kRoundLarge
APART = 1 << 30  # between the addresses of two segments: they are never merged


def rounded(size: int) -> int:
    """The size of the block that a request gets."""
    return max(ROUND, (size + ROUND - 1) // ROUND * ROUND)


class DoesNotFit(Exception):  # noqa: N818
    """What cudaMalloc would refuse. `wanted`: the segment that it was asked for."""

    def __init__(self, wanted: int) -> None:
        super().__init__(wanted)
        self.wanted = wanted


class _Block:
    __slots__ = ("after", "before", "free", "size", "small")

    def __init__(self, size: int, small: bool, before: int | None, after: int | None) -> None:
        self.size, self.small, self.before, self.after = size, small, before, after
        self.free = True


class Allocator:
    """`limit` is what may be reserved; None for no limit."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.reserved = 0
        self.allocated = 0
        self.peak_reserved = 0
        self.peak_allocated = 0
        self.window_reserved = 0  # the peaks since the program has reset them
        self.window_allocated = 0
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}  # by pool: (size, address), sorted
        self._blocks: dict[int, _Block] = {}
        self._next = APART

    def allocate(self, size: int) -> int:
        """The address of a block for `size` bytes. Raises DoesNotFit where the limit is passed."""
        size = rounded(size)
        small = size <= SMALL
        pool = self._free[small]
        index = bisect.bisect_left(pool, (size, 0))
        address = pool.pop(index)[1] if index < len(pool) else self._segment(size, small)
        block = self._blocks[address]
        rest = block.size - size
        if rest >= ROUND if small else rest > SMALL:
            self._split(address, block, size)
        block.free = False
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        self.window_allocated = max(self.window_allocated, self.allocated)
        return address

    def free(self, address: int) -> None:
        """Give a block back; neighbours that are free are merged with it."""
        block = self._blocks[address]
        block.free = True
        self.allocated -= block.size
        before = self._neighbour(block.before)
        if before is not None and block.before is not None:
            self._forget(block.before, before)
            address = self._join(block.before, before, address, block)
            block = before
        after = self._neighbour(block.after)
        if after is not None and block.after is not None:
            self._forget(block.after, after)
            self._join(address, block, block.after, after)
        bisect.insort(self._free[block.small], (block.size, address))

    def release(self) -> None:
        """Give segments back of which nothing is in use: torch.cuda.empty_cache."""
        for small, pool in self._free.items():
            kept = []
            for size, address in pool:
                block = self._blocks[address]
                if block.before is None and block.after is None:
                    self.reserved -= size
                    del self._blocks[address]
                else:
                    kept.append((size, address))
            self._free[small] = kept

    def _segment(self, size: int, small: bool) -> int:
        if small:
            segment = SMALL_SEGMENT
        elif size < MIN_LARGE:
            segment = LARGE_SEGMENT
        else:
            segment = (size + SEGMENT_ROUND - 1) // SEGMENT_ROUND * SEGMENT_ROUND
        if self.limit is not None and self.reserved + segment > self.limit:
            self.release()
            if self.reserved + segment > self.limit:
                raise DoesNotFit(segment)
        address, self._next = self._next, self._next + segment + APART
        self._blocks[address] = _Block(segment, small, None, None)
        self.reserved += segment
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        self.window_reserved = max(self.window_reserved, self.reserved)
        return address

    def _split(self, address: int, block: _Block, size: int) -> None:
        rest = address + size
        self._blocks[rest] = _Block(block.size - size, block.small, address, block.after)
        if block.after is not None:
            self._blocks[block.after].before = rest
        bisect.insort(self._free[block.small], (block.size - size, rest))
        block.size, block.after = size, rest

    def _neighbour(self, address: int | None) -> _Block | None:
        block = self._blocks[address] if address is not None else None
        return block if block is not None and block.free else None

    def _forget(self, address: int, block: _Block) -> None:
        pool = self._free[block.small]
        del pool[bisect.bisect_left(pool, (block.size, address))]

    def _join(self, address: int, block: _Block, gone: int, other: _Block) -> int:
        """`other` stands right behind `block` and becomes part of it."""
        block.size += other.size
        block.after = other.after
        if other.after is not None:
            self._blocks[other.after].before = address
        del self._blocks[gone]
        return address
