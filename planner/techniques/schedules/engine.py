"""Plays the passes of one step: each rank in its order, each pass when what it needs has arrived."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from planner.dataclasses import dataclass
from planner.errors import UnsupportedPlan
from planner.techniques.schedules.family import Kind, Orders, Pass, PassTimes

Times = tuple[float, ...]


@dataclass(frozen=True)
class Pipeline:
    """Where the chunks of a model live, and what a micro-batch costs in each."""

    ranks: tuple[int, ...]
    """Rank of every chunk."""
    forward: Times
    input_gradient: Times
    weight_gradient: Times
    """Times of a micro-batch in every chunk. [s]"""
    hops: Times
    """Latency of the message from every chunk to the next, and back; unused at the end of a route. [s]"""
    routes: int = 1
    """Directions in which micro-batches run; each owns an equal run of chunks."""
    sends_occupy: bool = False
    """Whether a message also keeps its sender from the next pass."""

    @classmethod
    def uniform(
        cls, ranks: Sequence[int], times: PassTimes, routes: int = 1, sends_occupy: bool = False
    ) -> Pipeline:
        """Build a pipeline whose chunks all take the same times."""
        count = len(ranks)
        return cls(
            ranks=tuple(ranks),
            forward=(times.forward,) * count,
            input_gradient=(times.input_gradient,) * count,
            weight_gradient=(times.weight_gradient,) * count,
            hops=(times.hop,) * count,
            routes=routes,
            sends_occupy=sends_occupy,
        )

    def delays(self) -> tuple[list[float], list[float]]:
        """Return the latency of the message that leaves each chunk, forward and backward."""
        route = len(self.ranks) // self.routes
        down = [0.0] * len(self.ranks)
        up = [0.0] * len(self.ranks)
        for chunk in range(len(self.ranks) - 1):
            if (chunk + 1) % route and self.ranks[chunk] != self.ranks[chunk + 1]:
                down[chunk] = up[chunk + 1] = self.hops[chunk]
        return down, up


@dataclass(frozen=True)
class Timeline:
    """When every pass of a step ran."""

    orders: Orders
    """The passes of every rank."""
    starts: tuple[Times, ...]
    ends: tuple[Times, ...]
    """Times in the places of ``orders``. [s]"""

    @property
    def makespan(self) -> float:
        """Time from the first start to the last end over all ranks. [s]."""
        return max((ends[-1] for ends in self.ends if ends), default=0.0)

    def rank_events(self, rank: int) -> Iterator[tuple[Pass, float, float]]:
        """Yield (pass, start, end) of one rank in its order."""
        return zip(self.orders[rank], self.starts[rank], self.ends[rank], strict=True)


Task = tuple[int, int, float, float]
"""A pass as the clock sees it: the cell it waits for, the cell it fills, its time, its message's latency."""


def play(orders: Orders, pipeline: Pipeline, jitter: float = 0.0, seed: int = 0) -> Timeline:
    """Run every pass as early as its rank, its input and its own earlier passes allow.

    Parameters
    ----------
    orders : Orders
        The passes of every rank.
    pipeline : Pipeline
        Places and times of the chunks.
    jitter : float
        Relative spread of pass times, log-normal with mean one. [-]
    seed : int
        Seed of the spread.

    Raises
    ------
    UnsupportedPlan
        If a rank runs a chunk that it does not hold, or a gradient too early, or ranks wait for ever.
    """
    tasks = pass_tasks(orders, pipeline)
    if jitter:
        tasks = jittered(tasks, jitter, seed)
    starts, ends = run_tasks(tasks, pipeline.sends_occupy)
    check_finished(orders, ends)
    return Timeline(orders, tuple(map(tuple, starts)), tuple(map(tuple, ends)))


def jittered(tasks: list[list[Task]], jitter: float, seed: int) -> list[list[Task]]:
    """Return tasks whose times are spread."""
    generator = np.random.default_rng(seed)
    factors = [generator.lognormal(-(jitter**2) / 2, jitter, len(mine)).tolist() for mine in tasks]
    return [
        [
            (source, target, span * factor, delay)
            for (source, target, span, delay), factor in zip(mine, row, strict=True)
        ]
        for mine, row in zip(tasks, factors, strict=True)
    ]


def run_tasks(tasks: list[list[Task]], sends_occupy: bool) -> tuple[list[list[float]], list[list[float]]]:
    """Advance each rank until it must wait, and again when what it waits for has come."""
    cells = 1 + max((task[1] for mine in tasks for task in mine), default=0)
    arrivals = [0.0] + [-1.0] * cells
    waiters = [-1] * (cells + 1)
    starts: list[list[float]] = [[] for _ in tasks]
    ends: list[list[float]] = [[] for _ in tasks]
    clocks = [0.0] * len(tasks)
    ready = deque(range(len(tasks)))
    while ready:
        rank = ready.popleft()
        clock, began, ended, mine = clocks[rank], starts[rank], ends[rank], tasks[rank]
        for place in range(len(ended), len(mine)):
            source, target, span, delay = mine[place]
            arrival = arrivals[source]
            if arrival < 0:
                waiters[source] = rank
                break
            start = arrival if arrival > clock else clock
            clock = start + span
            began.append(start)
            ended.append(clock)
            arrivals[target] = clock + delay
            if waiters[target] >= 0:
                ready.append(waiters[target])
                waiters[target] = -1
            if sends_occupy:
                clock += delay
        clocks[rank] = clock
    return starts, ends


def pass_tasks(orders: Orders, pipeline: Pipeline) -> list[list[Task]]:
    """Turn passes into tasks; cells: the start, all forwards, all input gradients, all weight gradients."""
    microbatches = 1 + max((item.microbatch for passes in orders for item in passes), default=0)
    size = len(pipeline.ranks) * microbatches
    route = len(pipeline.ranks) // pipeline.routes
    down, up = pipeline.delays()
    spans = {
        "F": pipeline.forward,
        "B": pipeline.input_gradient,
        "W": pipeline.weight_gradient,
        "BW": [b + w for b, w in zip(pipeline.input_gradient, pipeline.weight_gradient, strict=True)],
    }
    progress = bytearray(size + 1)
    tasks: list[list[Task]] = []
    for rank, passes in enumerate(orders):
        mine: list[Task] = []
        for kind, chunk, microbatch in passes:
            cell = 1 + chunk * microbatches + microbatch
            if pipeline.ranks[chunk] != rank or progress[cell] != _BEFORE[kind]:
                raise UnsupportedPlan(_fault(rank, Pass(kind, chunk, microbatch), pipeline))
            progress[cell] = _AFTER[kind]
            if kind == "F":
                source, target, delay = cell - microbatches if chunk % route else 0, cell, down[chunk]
            elif kind == "W":
                source, target, delay = 0, cell + 2 * size, 0.0
            else:
                source = cell + size + microbatches if (chunk + 1) % route else cell
                target, delay = cell + size, up[chunk]
            mine.append((source, target, spans[kind][chunk], delay))
        tasks.append(mine)
    return tasks


_BEFORE: Final[dict[Kind, int]] = {"F": 0, "B": 1, "BW": 1, "W": 2}
_AFTER: Final[dict[Kind, int]] = {"F": 1, "B": 2, "BW": 3, "W": 3}
"""How far a micro-batch is in a chunk before and after a pass."""


def _fault(rank: int, item: Pass, pipeline: Pipeline) -> str:
    """Say why a rank cannot run a pass where its order has it."""
    kind, chunk, microbatch = item
    home = pipeline.ranks[chunk]
    if home != rank:
        return f"rank {rank} runs chunk {chunk}, which lives on rank {home}"
    return f"rank {rank} runs {kind} of chunk {chunk}, micro-batch {microbatch}, too early or twice"


def check_finished(orders: Orders, ends: list[list[float]]) -> None:
    """Raise where a rank never came to its end."""
    stuck = [
        f"rank {rank} before {'{} of chunk {}, micro-batch {}'.format(*passes[len(done)])}"
        for rank, (passes, done) in enumerate(zip(orders, ends, strict=True))
        if len(done) < len(passes)
    ]
    if stuck:
        raise UnsupportedPlan(f"deadlock between ranks: {'; '.join(stuck[:4])}")
