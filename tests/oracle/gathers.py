"""DeepSpeed's ZeRO-3 gathering weights, module by module, on an allocator as PyTorch's.

After ``deepspeed/runtime/zero/partitioned_param_coordinator.py`` (edaa7221): a module's weights are fetched,
the next ones of the trace ahead of them up to a bucket and the most that may be live, and what comes again
within a distance is kept. Weights fetched together come in one flat buffer, which is there until the last of
them is used. Blocks that the host frees serve others once the device has come as far, some fetches later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.oracle.caching_allocator import Allocator, Block


@dataclass(eq=False)
class Fetch:
    """Weights gathered at once: their flat buffer, and a copy of each where they are several."""

    names: list[str]
    flat: Block
    copies: dict[str, Block] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)


@dataclass
class Coordinator:
    """One rank's gathers; sizes are in weights of two bytes."""

    sizes: Mapping[str, float]
    live: float = 1e9
    reuse: float = 1e9
    bucket: float = 5e7
    ahead: int = 2
    memory: Allocator = field(default_factory=lambda: Allocator(growing=True))
    there: dict[str, Block] = field(default_factory=dict)
    coming: dict[str, Fetch] = field(default_factory=dict)
    freed: list[tuple[int, Block]] = field(default_factory=list)
    clock: int = 0
    available: float = 0.0

    def gather(self, names: Sequence[str]) -> None:
        """Fetch weights that are not there."""
        names = [name for name in names if name not in self.there and name not in self.coming]
        if names:
            self.available += sum(self.sizes[name] for name in names)
            flat = self.memory.take(2 * sum(self.sizes[name] for name in names))
            self.coming |= dict.fromkeys(names, Fetch(names, flat, waiting=set(names)))

    def wait(self, name: str) -> None:
        """Wait for the fetch of a weight that is on its way."""
        fetch = self.coming.pop(name, None)
        if fetch is None:
            return
        if len(fetch.names) == 1:
            self.there[name] = fetch.flat
            return
        if not fetch.copies:
            fetch.copies = {one: self.memory.take(2 * self.sizes[one]) for one in fetch.names}
            self.there |= fetch.copies
        fetch.waiting.discard(name)
        if not fetch.waiting:
            self.free(fetch.flat)

    def free(self, block: Block) -> None:
        """Free a block; it serves others once the device has run what the host launched before."""
        self.freed.append((self.clock + self.ahead, block))

    def tick(self) -> None:
        """Let the device come as far as the host was some fetches ago."""
        self.clock += 1
        self.memory.give(*(block for due, block in self.freed if due <= self.clock))
        self.freed = [one for one in self.freed if one[0] > self.clock]

    def play(self, order: Sequence[str], steps: int = 3) -> int:
        """Return what is reserved after some steps, of which the first records the order. [byte]"""
        for step in range(steps):
            queue = deque(enumerate(order))
            fetched: dict[str, int] = {}
            for place, name in enumerate(order):
                if name not in self.there:
                    self.tick()
                self.gather([name])
                self.wait(name)
                if step:
                    if fetched.get(name, -1) < place:
                        fetched[name] = queue.popleft()[0]
                    self.prefetch(queue, fetched)
                if not (step and self.comes_again(order, fetched, place)):
                    self.free(self.there.pop(name))
                    self.available -= self.sizes[name]
        return self.memory.reserved

    def prefetch(self, queue: deque[tuple[int, str]], fetched: dict[str, int]) -> None:
        """Fetch the next weights of the trace."""
        most, names = min(self.live - self.available, self.bucket), list[str]()
        while queue and sum(self.sizes[one] for one in names) < most:
            place, name = queue.popleft()
            fetched[name] = max(fetched.get(name, -1), place)
            if not {name} & {*self.there, *self.coming, *names}:
                names.append(name)
        self.gather(names)

    def comes_again(self, order: Sequence[str], fetched: Mapping[str, int], place: int) -> bool:
        """Whether a weight is kept after its use."""
        if fetched.get(order[place], -1) > place + 1:
            return True
        passed = 0.0
        for name in order[place + 1 :]:
            if passed >= self.reuse:
                return False
            if name == order[place]:
                return True
            passed += self.sizes[name]
        return False
