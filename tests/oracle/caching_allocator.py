"""A caching allocator as PyTorch's, byte by byte: what a device must have for an order of tensors.

After the published behaviour of ``c10/cuda/CUDACachingAllocator.cpp``: requests are rounded to 512 bytes; the
smallest free block that is large enough serves them, and is cut where more than a MiB is left; a freed block
joins its free neighbours. A segment of its own has 2 MiB for small requests, 20 MiB below 10 MiB, else what
was asked in steps of 2 MiB; one that can grow takes 20 MiB more at its end. Where the device is full, what is
free as a whole segment is given back, but never that of a graph's pool.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from itertools import count

MIB = 2**20
_NUMBERS = count()


class OutOfMemoryError(Exception):
    """The device has no room, even after free segments were given back."""


@dataclass(eq=False)
class Block:
    """A piece of a segment, between its neighbours."""

    size: int
    pool: list[tuple[int, int, Block]]
    free: bool = False
    before: Block | None = None
    after: Block | None = None
    number: int = field(default_factory=lambda: next(_NUMBERS))

    def join(self, after: Block | None) -> None:
        """Put a block behind this one."""
        self.after = after
        if after:
            after.before = self


@dataclass
class Allocator:
    """Blocks of one device; ``private`` sends requests to a graph's own pool."""

    capacity: float = 1e18
    growing: bool = False
    private: bool = False
    reserved: int = 0
    pools: dict[tuple[bool, bool], list[tuple[int, int, Block]]] = field(default_factory=dict)
    ends: dict[int, Block] = field(default_factory=dict)

    def take(self, nbytes: float) -> Block:
        """Return a block of at least ``nbytes``."""
        size = max(512, -(-int(nbytes) // 512) * 512)
        small = size <= MIB
        pool = self.pools.setdefault((self.private, small), [])
        place = bisect_left(pool, (size, -1))
        block = pool.pop(place)[2] if place < len(pool) else self._segment(size, small, pool)
        left = block.size - size
        if left >= (512 if small or self.growing else MIB + 1):
            rest = Block(left, pool, free=True)
            rest.join(block.after)
            block.join(rest)
            block.size = size
            insort(pool, (rest.size, rest.number, rest))
            if self.ends.get(id(pool)) is block:
                self.ends[id(pool)] = rest
        block.free = False
        return block

    def give(self, *blocks: Block) -> None:
        """Free blocks, and join them with their free neighbours."""
        for block in blocks:
            block.free = True
            whole = block
            for other, first in ((block.after, False), (block.before, True)):
                if other is not None and other.free:
                    self._out(other)
                    whole = self._joined(other, whole) if first else self._joined(whole, other)
            insort(whole.pool, (whole.size, whole.number, whole))

    def empty(self) -> None:
        """Give free segments back, or whole pages of a growing one."""
        for (private, small), pool in self.pools.items():
            for _, _, block in [] if private else list(pool):
                page = (2 if small else 20) * MIB
                whole = block.before is None and block.after is None
                back = block.size // page * page if self.growing else block.size * whole
                if back:
                    self._out(block)
                    block.size -= back
                    self.reserved -= back
                    insort(pool, (block.size, block.number, block))

    def _joined(self, first: Block, second: Block) -> Block:
        first.size += second.size
        first.join(second.after)
        if self.ends.get(id(first.pool)) is second:
            self.ends[id(first.pool)] = first
        return first

    def _out(self, block: Block) -> None:
        block.pool.pop(bisect_left(block.pool, (block.size, block.number)))

    def _segment(self, size: int, small: bool, pool: list[tuple[int, int, Block]]) -> Block:
        if not self.growing:
            more = (2 if small else 20 if size < 10 * MIB else -(-size // (2 * MIB)) * 2) * MIB
            self._reserve(more)
            return Block(more, pool)
        end, page = self.ends.get(id(pool)), (2 if small else 20) * MIB
        spare = end.size if end and end.free else 0
        more = -(-(size - spare) // page) * page
        self._reserve(more)
        if end and end.free:
            self._out(end)
            end.size += more
            return end
        block = Block(more, pool)
        if end:
            end.join(block)
        self.ends[id(pool)] = block
        return block

    def _reserve(self, more: int) -> None:
        if self.reserved + more > self.capacity:
            self.empty()
        if self.reserved + more > self.capacity:
            raise OutOfMemoryError
        self.reserved += more
