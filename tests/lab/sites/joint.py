"""One job's pipeline over sites, played as its library runs it: each exchange of neighbours blocks both.

A twin of the price of `stages`: ranks of stages in the order 1F1B, which send forward and receive backward in
one call, as Megatron-LM's ``forward_backward_pipelining_without_interleaving`` does. A message starts when
both of its ranks have called, and a link between sites carries one at a time in each direction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

Message = tuple[int, int, str, int]
"""From rank, to rank, kind and micro-batch."""
Call = tuple[float, tuple[Message, ...]]
"""Compute of a rank, and the messages of the call after it."""


def calls(rank: int, ranks: int, passes: int, times: tuple[float, float]) -> Iterator[Call]:
    """Yield what a rank does in a step of 1F1B. [s]"""
    forward, backward = times
    warm = min(passes, ranks - rank - 1)

    def sends(kind: str, number: int) -> tuple[Message, ...]:
        other = rank + 1 if kind == "F" else rank - 1
        return ((rank, other, kind, number),) if 0 <= other < ranks else ()

    def takes(kind: str, number: int) -> tuple[Message, ...]:
        other = rank - 1 if kind == "F" else rank + 1
        return ((other, rank, kind, number),) if 0 <= other < ranks and number < passes else ()

    for number in range(warm):
        yield 0.0, takes("F", number)
        yield forward, sends("F", number)
    if passes > warm:
        yield 0.0, takes("F", warm)
    for number in range(passes - warm):
        yield forward, (*sends("F", number + warm), *takes("B", number))
        last = number == passes - warm - 1
        yield backward, (*sends("B", number), *(() if last else takes("F", number + warm + 1)))
    for number in range(passes - warm, passes):
        yield 0.0, takes("B", number)
        yield backward, sends("B", number)


@dataclass
class _Played:
    """Ranks at their calls."""

    programs: list[Iterator[Call]]
    wires: tuple[tuple[float, float], ...]
    now: list[float] = field(default_factory=list)
    open: dict[int, set[Message]] = field(default_factory=dict)
    posted: dict[Message, float] = field(default_factory=dict)
    links: dict[tuple[int, int], float] = field(default_factory=dict)

    def go_on(self, rank: int) -> bool:
        """Let a rank compute up to its next call that waits; False where it is done."""
        for seconds, messages in self.programs[rank]:
            self.now[rank] += seconds
            if messages:
                self.open[rank] = set(messages)
                return True
        return False

    def deliver(self) -> list[int]:
        """Let the message go that can start first, and return the ranks whose call is done by it."""
        both = [
            (max(self.now[one], self.now[other]), (one, other, kind, number))
            for one, messages in self.open.items()
            for (source, other, kind, number) in messages
            if source == one and (one, other, kind, number) in self.open.get(other, ())
        ]
        ready, message = min(both)
        one, other, _, _ = message
        occupied, latency = self.wires[min(one, other)]
        begin = max(ready, self.links.get((one, other), 0.0))
        self.links[one, other] = begin + occupied
        done = []
        for rank in (one, other):
            self.posted[rank, rank, "end", 0] = max(
                self.posted.get((rank, rank, "end", 0), 0.0), begin + occupied + latency
            )
            self.open[rank].discard(message)
            if not self.open[rank]:
                del self.open[rank]
                self.now[rank] = max(self.now[rank], self.posted.pop((rank, rank, "end", 0)))
                done.append(rank)
        return done


def play_job(passes: int, times: list[tuple[float, float]], wires: tuple[tuple[float, float], ...]) -> float:
    """Return the time of the passes of a step. [s]

    Parameters
    ----------
    passes : int
        Micro-batches. [-]
    times : list of tuple
        Forward and backward pass of each rank. [s]
    wires : tuple of tuple
        For how long a message occupies the link after each rank, and how much later it arrives. [s]
    """
    ranks = len(times)
    run = _Played([calls(rank, ranks, passes, own) for rank, own in enumerate(times)], wires, [0.0] * ranks)
    for rank in range(ranks):
        run.go_on(rank)
    while run.open:
        for rank in run.deliver():
            run.go_on(rank)
    return max(run.now)
