"""The registered schedules as orders to start from, and where the chunks of a pipeline may live."""

from __future__ import annotations

from collections.abc import Iterator

from planner.search.synthesis.problem import OrderProblem, Words, keeps_limit, words_of
from planner.techniques.schedules import SCHEDULES
from planner.techniques.schedules.family import PassTimes, Schedule, loop_rank, v_rank


def placements(pp: int, vpp: int) -> tuple[tuple[int, ...], ...]:
    """Return the ranks of all chunks for each way to place them: in a loop, and in a V.

    Examples
    --------
    >>> placements(3, 2)
    ((0, 1, 2, 0, 1, 2), (0, 1, 2, 2, 1, 0))
    """
    ways = [tuple(place(chunk, pp, vpp) for chunk in range(pp * vpp)) for place in (loop_rank, v_rank)]
    return tuple(dict.fromkeys(ways))


def is_rival(schedule: Schedule) -> bool:
    """Say whether a schedule does what a synthesised one does: weights held once, and a flush at the end."""
    return schedule.routes == 1 and schedule.flushes


def hand_made(problem: OrderProblem) -> Iterator[tuple[str, Words]]:
    """Yield name and order of every registered schedule with these places of chunks and within the limits.

    A whole backward counts as its two gradients, which is never slower and holds no more.
    """
    vpp = problem.chunks // problem.pp
    numbers = (problem.pp, vpp, problem.microbatches)
    for name, schedule in SCHEDULES.items():
        if not is_rival(schedule) or schedule.supports(*numbers):
            continue
        if schedule.chunk_ranks(problem.pp, vpp) != problem.ranks:
            continue
        words = words_of(schedule.order(*numbers, mean_times(problem)))
        if all(keeps_limit(problem, rank, word) for rank, word in enumerate(words)):
            yield name, words


def mean_times(problem: OrderProblem) -> PassTimes:
    """Return the means over all chunks, for orders that are searched for their times."""
    count = problem.chunks
    return PassTimes(
        forward=sum(problem.forward) / count,
        input_gradient=sum(problem.input_gradient) / count,
        weight_gradient=sum(problem.weight_gradient) / count,
        hop=sum(problem.latencies) / max(1, sum(latency > 0 for latency in problem.latencies)),
        kept_share=sum(problem.kept) / sum(problem.saved) if sum(problem.saved) > 0 else 1.0,
    )
