"""What a problem says of the passes alone: which comes first, and when each may begin and end at best."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from planner.search.synthesis.problem import FORWARD, WEIGHT_GRADIENT, OrderProblem


def always_before(problem: OrderProblem, one: int, other: int) -> bool:
    """Say whether a pass of code ``one`` precedes that of code ``other`` of the same micro-batch."""
    (chunk, kind), (later, later_kind) = divmod(one, 3), divmod(other, 3)
    if kind == FORWARD:
        return later_kind != FORWARD or chunk < later
    if kind == WEIGHT_GRADIENT or later_kind == FORWARD:
        return False
    return later < chunk or (later == chunk and later_kind == WEIGHT_GRADIENT)


def pairs_on_ranks(problem: OrderProblem) -> Iterator[tuple[int, int]]:
    """Yield codes of one rank, two at a time, the one that may come first at the front."""
    for chunks in problem.on_rank:
        codes = [3 * chunk + kind for chunk in chunks for kind in range(3)]
        for one, other in combinations(codes, 2):
            yield (other, one) if always_before(problem, other, one) else (one, other)


def tails(problem: OrderProblem) -> list[float]:
    """Return for every code the least time from its end to the last end of the step. [s]."""
    least = [0.0] * len(problem.spans)
    for chunk in range(problem.chunks):
        code = 3 * chunk + 1
        upstream = least[code - 3] + problem.spans[code - 3] + problem.latencies[chunk - 1] if chunk else 0.0
        least[code] = max(problem.weight_gradient[chunk], upstream)
    for chunk in reversed(range(problem.chunks)):
        target, latency = problem.targets[3 * chunk]
        least[3 * chunk] = latency + problem.spans[target] + least[target]
    return least


def earliest(problem: OrderProblem) -> list[float]:
    """Return for every code the earliest start of its first pass. [s]."""
    start = [0.0] * len(problem.spans)
    for chunk in range(problem.chunks):
        start[3 * chunk] = problem.heads[chunk]
    for chunk in reversed(range(problem.chunks)):
        code = 3 * chunk + 1
        source = problem.sources[code]
        start[code] = start[source] + problem.spans[source] + problem.targets[source][1]
        start[code + 1] = start[code] + problem.spans[code]
    return start
