"""Jobs on one cluster over time: which share each gets, and when; against a queue and equal shares.

A job keeps its share from its start to its end. The program chooses share and start of every job on a grid of
times; what it finds is then played in exact times and improved by exchanging two jobs or one share.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations, product
from typing import Final, Literal

from planner.dataclasses import dataclass, replace
from planner.errors import SolverError
from planner.search.highs import solve_from

SLOTS: Final = 30
"""Times on the grid of the program. [-]"""

SOLVER_SECONDS: Final = 10.0
"""Time that the program may take. [s]"""

LATE: Final = 1e3
"""Weight of an hour of lateness, over that of an hour until completion. [-]"""

MOST_TRIED: Final = 10_000
"""Exchanges that are tried from one beginning. [-]"""

FEW: Final = 8
"""Jobs up to which two of them change at once. [-]"""

Objective = Literal["completion", "makespan", "fairness"]


@dataclass(frozen=True)
class Task:
    """A job as the program sees it."""

    name: str
    """Of the job."""
    options: tuple[tuple[int, float], ...]
    """Accelerators that it may have, and its seconds on them. [-], [s]"""
    weight: float = 1.0
    """How much it counts. [-]"""
    arrives: float = 0.0
    """From now. [s]"""
    deadline: float | None = None
    """From now. [s]"""
    asked: int = -1
    """Place in ``options`` of what it would ask of a queue. [-]"""


@dataclass(frozen=True)
class Spell:
    """A time with one share: begin and end, and accelerators. [s], [-]"""

    start: float
    end: float
    gpus: int


@dataclass(frozen=True)
class LayerRun:
    """A job with its share, the largest where it changes, its times [s], and the spells of each share."""

    task: Task
    gpus: int
    start: float
    end: float
    changes: int = 0
    spells: tuple[Spell, ...] = ()

    @property
    def used(self) -> float:
        """Accelerators times seconds. [s]"""
        spells = self.spells or (Spell(self.start, self.end, self.gpus),)
        return sum(one.gpus * (one.end - one.start) for one in spells)

    @property
    def late(self) -> float:
        """Time after its deadline. [s]"""
        return 0.0 if self.task.deadline is None else max(0.0, self.end - self.task.deadline)


@lru_cache(maxsize=4096)
def alone_seconds(task: Task, gpus: int, jobs: int) -> float:
    """Return the time of a job on its own equal share of a cluster, in turns where it may not have so few.

    References
    ----------
    .. [1] Finish-time fairness, as Shockwave (arXiv:2210.00093) measures it: a job's time over this one.
    """
    share = gpus / jobs
    fitting = [seconds for count, seconds in task.options if count <= share]
    return min(fitting) if fitting else min(count * seconds for count, seconds in task.options) / share


def unfairness(runs: Sequence[LayerRun], gpus: int) -> float:
    """Return the largest time of a job over that on its own equal share; a fair cluster has 1 at most. [-]"""
    alone = [alone_seconds(run.task, gpus, len(runs)) for run in runs]
    return max((run.end - run.task.arrives) / time for run, time in zip(runs, alone, strict=True))


def cost(runs: Iterable[LayerRun], objective: Objective, gpus: int = 1) -> float:
    """Return what is minimised: weighted time to completion, last end or unfairness; lateness most. [s]"""
    known = list(runs)
    late = LATE * sum(run.task.weight * run.late for run in known)
    if objective == "makespan":
        return late + max(run.end for run in known)
    if objective == "fairness":
        return late + unfairness(known, gpus)
    return late + sum(run.task.weight * (run.end - run.task.arrives) for run in known)


Choice = tuple[int, int]
"""A job and a place in its options, by numbers."""


def played(tasks: Sequence[Task], order: Sequence[Choice], gpus: int) -> tuple[LayerRun, ...]:
    """Return the runs of jobs that start in an order, each as soon as its share is free and it has arrived.

    A job later in the order never starts before an earlier one does.
    """
    free, clock = gpus, 0.0
    running: list[tuple[float, int]] = []
    runs = []
    for job, place in order:
        count, seconds = tasks[job].options[place]
        clock = max(clock, tasks[job].arrives)
        while running and (free < count or running[0][0] <= clock):
            end, given = heapq.heappop(running)
            clock, free = max(clock, end), free + given
        heapq.heappush(running, (clock + seconds, count))
        free -= count
        runs.append(LayerRun(tasks[job], count, clock, clock + seconds))
    return tuple(runs)


def queue(tasks: Sequence[Task], gpus: int) -> tuple[LayerRun, ...]:
    """Return the runs of a queue: first come, first served, each with what it asks for."""
    order = sorted(range(len(tasks)), key=lambda job: tasks[job].arrives)
    return played(tasks, [(job, tasks[job].asked % len(tasks[job].options)) for job in order], gpus)


def equal_places(tasks: Sequence[Task], here: Sequence[int], gpus: int) -> dict[int, int | None]:
    """Return the place in its options that each job present gets where all have equal shares.

    A share is rounded down to what the job may have; where there is none so small the job waits.
    """
    free, places = gpus, dict[int, int | None]()
    for number, job in enumerate(here):
        most = free // (len(here) - number)
        options = tasks[job].options
        fitting = [place for place, (count, _) in enumerate(options) if count <= most]
        new = max(fitting, key=lambda place: options[place][0]) if fitting else None
        if new is None and number == len(here) - 1 and free == gpus:
            new = min(range(len(options)), key=lambda place: options[place][0])
        places[job] = new
        free -= options[new][0] if new is not None else 0
    return places


def planned(tasks: Sequence[Task], gpus: int, objective: Objective = "completion") -> tuple[LayerRun, ...]:
    """Return the runs of least cost that the program and exchanges find; never worse than the queue's."""
    start = sorted(range(len(tasks)), key=lambda job: tasks[job].arrives)
    asked = [(job, tasks[job].asked % len(tasks[job].options)) for job in start]
    orders = [asked]
    try:
        orders.append(_program(tasks, gpus, objective, max(run.end for run in queue(tasks, gpus))))
    except SolverError:
        short = sorted(range(len(tasks)), key=lambda job: min(time for _, time in tasks[job].options))
        orders.append([(job, 0) for job in short])
    found = [_improved(tasks, order, gpus, objective) for order in orders]
    return min(found, key=lambda runs: cost(runs, objective, gpus))


def _program(tasks: Sequence[Task], gpus: int, objective: Objective, horizon: float) -> list[Choice]:
    r"""Return the jobs with their shares in the order of their starts, by an integer program.

    .. math::
        \min \sum_j w_j C_j, \quad \sum_{x,s} z_{jxs} = 1, \quad
        \sum_{j,x,s \le t < s + d_{jx}} x \, z_{jxs} \le G
    """
    import pulp

    slot = horizon / SLOTS
    model = pulp.LpProblem("shares", pulp.LpMinimize)
    use: list[list[object]] = [[] for _ in range(SLOTS)]
    goal, places = [], {}
    last = model.add_variable("last", lowBound=0.0)
    for job, task in enumerate(tasks):
        own, ends = [], []
        for place, (count, seconds) in enumerate(task.options):
            length = max(1, round(seconds / slot))
            for begin in range(int(task.arrives // slot), SLOTS - length + 1):
                one = model.add_variable(f"z_{job}_{place}_{begin}", cat="Binary")
                places[one.name] = (begin, job, place, one)
                run = LayerRun(task, count, begin * slot, max(begin * slot, task.arrives) + seconds)
                own.append(one)
                if objective == "makespan":
                    goal.append(LATE * task.weight * run.late / slot * one)
                    ends.append(run.end / slot * one)
                else:
                    share = 1.0 if objective == "completion" else alone_seconds(task, gpus, len(tasks)) / slot
                    goal.append(cost([run], "completion") / slot / share * one)
                for time in range(begin, begin + length):
                    use[time].append(count * one)
        if not own:
            raise SolverError(f"{task.name} does not end within the queue's time")
        model += pulp.lpSum(own) == 1
        model += last >= pulp.lpSum(ends)
    for parts in use:
        model += pulp.lpSum(parts) <= gpus
    model += pulp.lpSum(goal) + (last if objective == "makespan" else 0.0)
    solve_from(model, {}, SOLVER_SECONDS, 1e-2)
    taken = [(begin, job, place) for begin, job, place, one in places.values() if one.value() > 0.5]
    chosen = sorted((begin, -tasks[job].weight, job, place) for begin, job, place in taken)
    return [(job, place) for _, _, job, place in chosen]


def _improved(
    tasks: Sequence[Task], order: list[Choice], gpus: int, objective: Objective
) -> tuple[LayerRun, ...]:
    """Return the runs after exchanges: another place of a job in the order, other shares, while one helps."""

    def worth(runs: tuple[LayerRun, ...]) -> tuple[float, float]:
        return cost(runs, objective, gpus), sum(run.end for run in runs)

    best, tried, improves = played(tasks, order, gpus), 0, True
    least = worth(best)
    while improves and tried < MOST_TRIED:
        improves = False
        for other in _exchanges(tasks, order):
            runs, tried = played(tasks, other, gpus), tried + 1
            if (found := worth(runs)) < least:
                best, least, order, improves = runs, found, other, True
                break
    return best


def _exchanges(tasks: Sequence[Task], order: list[Choice]) -> Iterator[list[Choice]]:
    """Yield the orders with one job moved or of another share; of few jobs both, and two of other shares."""
    few = len(order) <= FEW
    for first, (job, own) in enumerate(order):
        rest = order[:first] + order[first + 1 :]
        for place in range(len(tasks[job].options)):
            for second in range(len(order)):
                if (few or place == own or second == first) and (place, second) != (own, first):
                    yield [*rest[:second], (job, place), *rest[second:]]
    for first, second in combinations(range(len(order)), 2) if few else ():
        one, two = order[first][0], order[second][0]
        for places in product(range(len(tasks[one].options)), range(len(tasks[two].options))):
            changed = dict(zip((first, second), zip((one, two), places, strict=True), strict=True))
            yield [changed.get(place, choice) for place, choice in enumerate(order)]


def useful(tasks: Sequence[Task], gpus: int) -> tuple[Task, ...]:
    """Return the tasks without shares that the cluster lacks or that another one beats."""
    found = []
    for task in tasks:
        kept = tuple(
            (count, seconds)
            for count, seconds in sorted(task.options)
            if count <= gpus and not any(_beats(other, (count, seconds)) for other in task.options)
        )
        counts = [count for count, _ in kept]
        asked = task.options[task.asked][0]
        nearest = max((count for count in counts if count <= asked), default=counts[0])
        found.append(replace(task, options=kept, asked=counts.index(nearest)))
    return tuple(found)


def _beats(one: tuple[int, float], other: tuple[int, float]) -> bool:
    """Whether a share is no larger and no slower than another one."""
    return one != other and one[0] <= other[0] and one[1] <= other[1]
