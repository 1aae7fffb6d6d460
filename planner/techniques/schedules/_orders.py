"""Pieces that several orders are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from planner.techniques.schedules.family import Kind, Pass


def alternate(forwards: Sequence[Pass], backwards: Sequence[Pass], warm_up: int) -> tuple[Pass, ...]:
    """Run ``warm_up`` forwards, then a forward and a backward in turn, then the other backwards."""
    ahead = min(warm_up, len(forwards))
    steady = [item for pair in zip(forwards[ahead:], backwards, strict=False) for item in pair]
    return (*forwards[:ahead], *steady, *backwards[len(forwards) - ahead :])


def by_rounds(microbatches: int, per_round: int, chunks: int) -> Iterator[tuple[int, int]]:
    """Yield (chunk, micro-batch): each round of micro-batches goes through all chunks in turn."""
    for start in range(0, microbatches, per_round):
        for chunk in range(chunks):
            for microbatch in range(start, min(start + per_round, microbatches)):
                yield chunk, microbatch


def looped(
    pp: int, vpp: int, microbatches: int, per_round: int, backward: Kind
) -> Iterator[tuple[list[Pass], list[Pass]]]:
    """Yield each rank's forwards and backwards, of a kind, in rounds over a loop of chunks."""
    visits = list(by_rounds(microbatches, per_round, vpp))
    for rank in range(pp):
        yield (
            [Pass("F", chunk * pp + rank, microbatch) for chunk, microbatch in visits],
            [Pass(backward, (vpp - 1 - chunk) * pp + rank, microbatch) for chunk, microbatch in visits],
        )


def alternate_split(chunk: int, microbatches: int, warm_up: int, pending: int) -> tuple[Pass, ...]:
    """Run ``warm_up`` forwards, then gradient and forward in turn, weight gradients ``pending`` behind."""
    script = OrderScript(microbatches)
    script.run("F", chunk, min(warm_up, microbatches))
    for done in range(1, microbatches + 1):
        script.run("B", chunk)
        script.run("W", chunk, int(done > pending))
        script.run("F", chunk, int(script.count("F", chunk) < microbatches))
    script.run("W", chunk, microbatches - script.count("W", chunk))
    return script.passes()


class OrderScript:
    """Writes an order down: each kind of pass takes the micro-batches of its chunk in their order.

    ``microbatches``: micro-batches that exist; a longer plan may be written down, and passes of others are
    left out.
    """

    def __init__(self, microbatches: int) -> None:
        self._microbatches = microbatches
        self._passes: list[Pass] = []
        self._counts: dict[str, Counter[int]] = {kind: Counter() for kind in ("F", "B", "W")}

    def count(self, kind: str, chunk: int) -> int:
        """Passes of one kind and chunk so far; a whole backward counts as both gradients."""
        return self._counts[kind][chunk]

    def run(self, kind: Kind, chunk: int, times: int = 1) -> None:
        """Append the next ``times`` passes of one kind and chunk."""
        counts = self._counts["B" if kind == "BW" else kind]
        start = counts[chunk]
        counts[chunk] = start + times
        if kind == "BW":
            self._counts["W"][chunk] += times
        stop = min(start + times, self._microbatches)
        self._passes += [Pass(kind, chunk, microbatch) for microbatch in range(start, stop)]

    def run_all(self, kinds: Iterable[Kind], *chunks: int) -> None:
        """Append one pass of every kind, on every chunk."""
        for kind in kinds:
            for chunk in chunks:
                self.run(kind, chunk)

    def passes(self) -> tuple[Pass, ...]:
        """Return what has been written."""
        return tuple(self._passes)


def second_route(passes: Iterable[Pass], chunks: int, microbatches: int) -> tuple[Pass, ...]:
    """Number the micro-batches of the second route, whose chunks follow ``chunks``, after the others."""
    return tuple(
        Pass(item.kind, item.chunk, item.microbatch + microbatches) if item.chunk >= chunks else item
        for item in passes
    )
