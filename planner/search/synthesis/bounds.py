r"""Times that no order beats: work, forced idle time, and chains through other ranks, under memory limits.

For a rank :math:`s` with chunks :math:`C`, the first :math:`f`, the last :math:`l`, limit :math:`L`, and
:math:`m` micro-batches:

- Before its first gradient a rank runs forwards alone, and memory bounds how many. The gradient comes no
  earlier than a micro-batch's way to the last chunk and back: what is missing is idle.
- After its last forward only gradients of what it holds are left until that micro-batch comes back: idle
  again. The two are apart where memory forbids all forwards before the first gradient.
- All forwards and input gradients of a rank, and the weight gradients that memory forces before its last
  forward, precede its last input gradient; then the gradient runs up to the first chunk.
- At most :math:`q` micro-batches are between forward and input gradient of a chunk: a round trip for each
  :math:`q`, and where memory is full with them, the shorter of the two gradients more.
- Activations times their least lifetimes are at most :math:`L` times the time.
"""

from __future__ import annotations

import math
from itertools import accumulate

from planner.dataclasses import dataclass
from planner.search.synthesis.problem import SLACK, OrderProblem


def lower_bound(problem: OrderProblem) -> float:
    """Return a value of the objective that no order within the limits beats. [s]."""
    facts = [_facts(problem, rank) for rank in range(problem.pp)]
    values = [fact.end - problem.offsets[rank] for rank, fact in enumerate(facts)]
    values += [
        _back_at(problem, rank, fact.last_gradient, problem.on_rank[rank][0])
        for rank, fact in enumerate(facts)
    ]
    values += [_back_at(problem, rank, end, chunk) for rank, chunk, end in _rounds(problem)]
    return max(values) * (1.0 - SLACK)


@dataclass(frozen=True)
class _Facts:
    """Earliest end of a rank's passes, and of its last input gradient. [s]."""

    end: float
    last_gradient: float


def _facts(problem: OrderProblem, rank: int) -> _Facts:
    chunks, limit = problem.on_rank[rank], problem.limits[rank]
    first, last, m = chunks[0], chunks[-1], problem.microbatches
    head = problem.heads[first]
    forward, gradient, weight = (
        m * sum(times[chunk] for chunk in chunks)
        for times in (problem.forward, problem.input_gradient, problem.weight_gradient)
    )
    rest = limit - problem.saved[last]
    before = _idle_before(problem, rank)
    lag = _round_trip(problem, last) - problem.forward[last] - problem.input_gradient[last]
    both = _most(problem, chunks, rest, "both")
    after = max(0.0, lag - min(both, gradient + weight))
    after_gradients = max(0.0, lag - min(_most(problem, chunks, rest, "input"), gradient))
    apart = m * sum(problem.saved[chunk] for chunk in chunks) > limit * (1.0 + SLACK)
    late = problem.weight_gradient[last] + _most(problem, chunks, rest, "weight")
    forced = max(0.0, weight - late)
    energy = _energy(problem, rank) / limit if limit > 0 else 0.0
    join = sum if apart else max
    return _Facts(
        end=head + max(forward + gradient + weight + join((before, after)), energy),
        last_gradient=head + forward + gradient + forced + join((before, after_gradients)),
    )


def _round_trip(problem: OrderProblem, chunk: int) -> float:
    """Time from a micro-batch's forward of a chunk to the end of its input gradient, nobody in its way."""
    spans = sum(problem.forward[chunk:]) + sum(problem.input_gradient[chunk:])
    return spans + 2.0 * sum(problem.latencies[chunk:])


def _idle_before(problem: OrderProblem, rank: int) -> float:
    """Idle time of a rank between its first start and its first input gradient."""
    chunks, limit = problem.on_rank[rank], problem.limits[rank]
    last = chunks[-1]
    gradient = problem.heads[last] + _round_trip(problem, last) - problem.input_gradient[last]
    flights = _flights(problem)
    counted = sum(flights[chunk] * problem.forward[chunk] for chunk in chunks)
    held = [(problem.forward[chunk], problem.saved[chunk]) for chunk in chunks]
    return max(0.0, gradient - problem.heads[chunks[0]] - min(counted, _knapsack(held, limit)))


def _most(problem: OrderProblem, chunks: tuple[int, ...], room: float, what: str) -> float:
    """Most time of gradients that wait on a rank within ``room``."""
    options: list[tuple[float, float]] = []
    for chunk in chunks:
        gradient, weight = problem.input_gradient[chunk], problem.weight_gradient[chunk]
        if what == "input":
            options.append((gradient, problem.saved[chunk]))
        if what == "both":
            options.append((gradient + weight, problem.saved[chunk]))
        if what in ("both", "weight"):
            options.append((weight, problem.kept[chunk]))
    return _knapsack(options, room)


def _knapsack(options: list[tuple[float, float]], room: float) -> float:
    """Bound the worth of whole things that fit, given (worth, size) of each kind."""
    if min(size for _, size in options) <= 0:
        return math.inf
    room = max(0.0, room) * (1.0 + SLACK) + SLACK
    relaxed = room * max(worth / size for worth, size in options)
    whole = math.floor(room / min(size for _, size in options)) * max(worth for worth, _ in options)
    return min(relaxed, whole)


def _flights(problem: OrderProblem) -> list[int]:
    """Most micro-batches between forward and input gradient of every chunk: no more than of earlier ones."""
    room = [
        math.floor(problem.limits[rank] / saved * (1.0 + SLACK)) if saved > 0 else problem.microbatches
        for rank, saved in zip(problem.ranks, problem.saved, strict=True)
    ]
    return [min(problem.microbatches, most) for most in accumulate(room, min)]


def _energy(problem: OrderProblem, rank: int) -> float:
    """Activations times their least lifetimes on a rank."""
    return problem.microbatches * sum(
        problem.saved[chunk] * _round_trip(problem, chunk)
        + problem.kept[chunk] * problem.weight_gradient[chunk]
        for chunk in problem.on_rank[rank]
    )


def _rounds(problem: OrderProblem) -> list[tuple[int, int, float]]:
    """Return (rank, chunk, earliest end of its last input gradient) from round trips in turn."""
    m, found = problem.microbatches, []
    for chunk, flights in enumerate(_flights(problem)):
        rank, trip, head = problem.ranks[chunk], _round_trip(problem, chunk), problem.heads[chunk]
        gradient, weight = problem.input_gradient[chunk], problem.weight_gradient[chunk]
        kept, room = problem.kept[chunk], problem.limits[rank] * (1.0 + SLACK) + SLACK
        unfinished = 1 + math.floor((room - problem.saved[chunk]) / kept) if kept > 0 else m
        # With all flights up, no weight gradient may wait: it, or one more input gradient, goes first.
        full = kept > 0 and room - flights * problem.saved[chunk] < kept
        turns = (flights, trip + (min(gradient, weight) if full else 0.0)), (unfinished, trip + weight)
        for most, turn in turns:
            count = (m - 1) // most
            rest = (m - 1 - count * most) * gradient
            found.append((rank, chunk, head + count * turn + trip + rest))
    return found


def _back_at(problem: OrderProblem, rank: int, gradient: float, chunk: int) -> float:
    """Return the objective where the last input gradient of ``chunk`` ends at ``gradient`` or later."""
    value, end = gradient + problem.weight_gradient[chunk] - problem.offsets[rank], gradient
    for earlier in reversed(range(chunk)):
        end += problem.latencies[earlier] + problem.input_gradient[earlier]
        home = problem.ranks[earlier]
        value = max(value, end + problem.weight_gradient[earlier] - problem.offsets[home])
    return value
