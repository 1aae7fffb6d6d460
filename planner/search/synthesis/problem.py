r"""Schedule synthesis as plain numbers, and the one function that plays an order.

A micro-batch visits chunks :math:`0 \dots n-1` forward and back; each chunk lives on a rank. All
micro-batches are alike, so that each kind of pass of a chunk may take them in their order without loss: a
rank's order is a word over *codes*, three to each chunk (forward, input gradient, weight gradient).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from math import comb
from typing import Final, Literal, NamedTuple, get_args

from planner.dataclasses import dataclass
from planner.errors import Infeasible
from planner.techniques.schedules.family import Kind, Orders, Pass, PassTimes

Objective = Literal["makespan", "span"]
"""Last end on any rank, or the longest time from first start to last end on one rank."""

OBJECTIVES: Final[tuple[str, ...]] = get_args(Objective)

Times = tuple[float, ...]

Words = list[list[int]]
"""For each rank the codes of its passes, in their order."""

FORWARD: Final = 0
INPUT_GRADIENT: Final = 1
WEIGHT_GRADIENT: Final = 2
KINDS: Final[tuple[Kind, ...]] = ("F", "B", "W")

SLACK: Final = 1e-9
"""Relative slack of limits and times: the same numbers summed in another order are the same."""

CLOSE: Final = 1e-8
"""Relative gap at which a bound counts as reached."""


class Played(NamedTuple):
    """When the passes of an order start, and when every rank ends."""

    value: float
    starts: list[list[float]]
    ends: list[float]


@dataclass(frozen=True)
class OrderProblem:
    """A pipeline, the memory of its ranks, and what is to be small."""

    ranks: tuple[int, ...]
    """Rank of every chunk; the first chunks stand one on each rank, in the order of the ranks."""
    forward: Times
    input_gradient: Times
    weight_gradient: Times
    """Times of a micro-batch in every chunk. [s]"""
    hops: Times
    """Latency of the message from every chunk to the next, and back; occupies nobody. [s]"""
    saved: Times
    kept: Times
    """Activations that a micro-batch leaves in every chunk from the start of its forward, and what of them
    stays between input and weight gradient, in any unit of memory. [-]"""
    limits: Times
    """Activations that every rank may hold, in the same unit. [-]"""
    microbatches: int
    """Micro-batches of the step."""
    objective: Objective = "makespan"
    """What is to be small."""

    def __post_init__(self) -> None:
        if self.ranks[: self.pp] != tuple(range(self.pp)) or len(self.limits) != self.pp:
            raise ValueError(
                f"chunks on ranks {self.ranks}: the first ones stand on the ranks in their order"
            )

    @classmethod
    def uniform(
        cls,
        ranks: Sequence[int],
        times: PassTimes,
        limit: float,
        microbatches: int,
        objective: Objective = "makespan",
    ) -> OrderProblem:
        """Build a problem whose chunks are alike, with memory in activations of a chunk."""
        count = len(ranks)
        return cls(
            ranks=tuple(ranks),
            forward=(times.forward,) * count,
            input_gradient=(times.input_gradient,) * count,
            weight_gradient=(times.weight_gradient,) * count,
            hops=(times.hop,) * count,
            saved=(1.0,) * count,
            kept=(times.kept_share,) * count,
            limits=(limit,) * (max(ranks) + 1),
            microbatches=microbatches,
            objective=objective,
        )

    @property
    def pp(self) -> int:
        """Number of ranks."""
        return max(self.ranks) + 1

    @property
    def chunks(self) -> int:
        """Number of chunks that a micro-batch visits."""
        return len(self.ranks)

    @property
    def passes(self) -> int:
        """Passes of the step on all ranks."""
        return 3 * self.chunks * self.microbatches

    @property
    def pairs(self) -> int:
        """Pairs of passes of unlike codes on one rank, of which either may have to come first."""
        return self.microbatches**2 * sum(comb(3 * len(chunks), 2) for chunks in self.on_rank)

    @cached_property
    def on_rank(self) -> tuple[tuple[int, ...], ...]:
        """Chunks of every rank, in the order of the route."""
        return tuple(
            tuple(chunk for chunk, home in enumerate(self.ranks) if home == rank) for rank in range(self.pp)
        )

    @cached_property
    def latencies(self) -> Times:
        """Latency of the message from every chunk to the next; none where both live on one rank. [s]."""
        moves = [one != other for one, other in pairwise(self.ranks)]
        return (*(hop if move else 0.0 for hop, move in zip(self.hops, moves, strict=False)), 0.0)

    @cached_property
    def spans(self) -> Times:
        """Time of a pass of every code. [s]."""
        chunks = zip(self.forward, self.input_gradient, self.weight_gradient, strict=True)
        return tuple(span for chunk in chunks for span in chunk)

    @cached_property
    def changes(self) -> Times:
        """What a pass of every code adds to the activations that its rank holds. [-]"""
        chunks = zip(self.saved, self.kept, strict=True)
        return tuple(change for saved, kept in chunks for change in (saved, kept - saved, -kept))

    @cached_property
    def targets(self) -> tuple[tuple[int, float], ...]:
        """For every code the code that its message lets start, and the latency; -1 where there is none."""
        last = self.chunks - 1
        table: list[tuple[int, float]] = []
        for chunk, latency in enumerate(self.latencies):
            code = 3 * chunk
            table.append((code + 3, latency) if chunk < last else (code + INPUT_GRADIENT, 0.0))
            table.append((code - 2, self.latencies[chunk - 1]) if chunk else (-1, 0.0))
            table.append((-1, 0.0))
        return tuple(table)

    @cached_property
    def sources(self) -> tuple[int, ...]:
        """For every code the code whose message it waits for; -1 where it waits for none."""
        table = [-1] * len(self.spans)
        for code, (target, _) in enumerate(self.targets):
            if target >= 0:
                table[target] = code
        return tuple(table)

    @cached_property
    def heads(self) -> Times:
        """Earliest start of the first forward of every chunk. [s]."""
        head = [0.0]
        for span, latency in zip(self.forward, self.latencies, strict=True):
            head.append(head[-1] + span + latency)
        return tuple(head[:-1])

    @cached_property
    def offsets(self) -> Times:
        """Time from which the objective counts on every rank: its first start, or that of the step. [s]."""
        return self.heads[: self.pp] if self.objective == "span" else (0.0,) * self.pp


def play(problem: OrderProblem, words: Words) -> Played | None:
    """Run every pass as early as its rank and its input allow; None where ranks wait for ever."""
    spans, targets = problem.spans, problem.targets
    arrivals: list[list[float]] = [[] for _ in spans]
    arrivals[0] = [0.0] * problem.microbatches
    for code in range(WEIGHT_GRADIENT, len(spans), 3):
        arrivals[code] = arrivals[0]
    taken, waiting = [0] * len(spans), [-1] * len(spans)
    starts: list[list[float]] = [[] for _ in words]
    clocks = [0.0] * len(words)
    ready = deque(range(len(words)))
    while ready:
        rank = ready.popleft()
        clock, began, word = clocks[rank], starts[rank], words[rank]
        for place in range(len(began), len(word)):
            code = word[place]
            microbatch = taken[code]
            if microbatch >= len(arrivals[code]):
                waiting[code] = rank
                break
            arrival = arrivals[code][microbatch]
            start = arrival if arrival > clock else clock
            began.append(start)
            clock = start + spans[code]
            taken[code] = microbatch + 1
            target, latency = targets[code]
            if target >= 0:
                arrivals[target].append(clock + latency)
                if waiting[target] >= 0:
                    ready.append(waiting[target])
                    waiting[target] = -1
        clocks[rank] = clock
    if any(len(began) < len(word) for began, word in zip(starts, words, strict=True)):
        return None
    value = max(clock - offset for clock, offset in zip(clocks, problem.offsets, strict=True))
    return Played(value, starts, clocks)


def keeps_limit(problem: OrderProblem, rank: int, word: Sequence[int]) -> bool:
    """Say whether a rank's order holds no more than it may, and no weight gradient comes too early."""
    changes, limit = problem.changes, problem.limits[rank] * (1.0 + SLACK)
    held, done = 0.0, [0] * len(changes)
    for code in word:
        held += changes[code]
        done[code] += 1
        if held > limit or (code % 3 and done[code] > done[code - 1]):
            return False
    return True


def words_of(orders: Orders) -> Words:
    """Return orders as codes, a whole backward as its two gradients."""
    codes = {"F": (FORWARD,), "B": (INPUT_GRADIENT,), "W": (WEIGHT_GRADIENT,), "BW": (1, 2)}
    return [[3 * item.chunk + kind for item in passes for kind in codes[item.kind]] for passes in orders]


def orders_of(words: Words) -> Orders:
    """Return codes as passes, each kind of pass of a chunk in the order of the micro-batches."""
    return tuple(tuple(_passes(word)) for word in words)


def _passes(word: Sequence[int]) -> Iterator[Pass]:
    taken: Counter[int] = Counter()
    for code in word:
        yield Pass(KINDS[code % 3], code // 3, taken[code])
        taken[code] += 1


def check_limits(problem: OrderProblem) -> None:
    """Raise Infeasible where a rank cannot hold one micro-batch; then no order exists, else one does.

    A micro-batch leaves its activations in all chunks of a rank before the first of its gradients runs there,
    and micro-batches may go one after the other.
    """
    needs = [sum(problem.saved[chunk] for chunk in chunks) for chunks in problem.on_rank]
    short = [rank for rank, need in enumerate(needs) if need > problem.limits[rank] * (1.0 + SLACK)]
    if short:
        worst = max(short, key=needs.__getitem__)
        raise Infeasible(
            f"rank {worst} may hold {problem.limits[worst]:g} activations and one micro-batch leaves "
            f"{needs[worst]:g} there: the smallest limit with which any order runs is {max(needs):g}"
        )


@dataclass(frozen=True)
class Found:
    """A solver's answer: an order, if it has one, and a bound for all orders. [s]."""

    words: Words | None
    bound: float
    solver: str
