"""Pieces that several orders are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.techniques.schedules._family import Pass


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
