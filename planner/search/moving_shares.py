"""Shares that change while jobs run: chosen anew whenever one comes or ends, a restart for each change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from planner.search.shares import LayerRun, Objective, Spell, Task, cost, equal_places

Places = dict[int, int | None]
"""Job by number to the place in its options of the share that it gets, none where it waits."""


@dataclass
class Present:
    """Jobs at one moment."""

    tasks: Sequence[Task]
    """All jobs."""
    here: list[int]
    """Those that have come and are not done, by number, in the order of their coming."""
    left: list[float]
    """Share of its work that each has left. [-]"""
    held: Places
    """Places that they have now."""
    gpus: int
    """Accelerators. [-]"""
    restart: float
    """Time of a change of a job's share. [s]"""

    def time(self, job: int, place: int) -> float:
        """Return the time until a job would be done with a share, its change counted. [s]"""
        held = self.held.get(job)
        owed = self.restart if held is not None and held != place else 0.0
        return owed + self.left[job] * self.tasks[job].options[place][1]


Choose = Callable[[Present], Places]


def equally(present: Present) -> Places:
    """Return equal shares, rounded down to what each job may have."""
    return equal_places(present.tasks, present.here, present.gpus)


def soonest(present: Present) -> Places:
    """Return the shares with which the last of the jobs is done first."""
    tasks, order = present.tasks, sorted(present.here, key=lambda job: -present.time(job, 0))
    least, free = [], present.gpus
    for job in order:
        if tasks[job].options[0][0] <= free:
            least.append(job)
            free -= tasks[job].options[0][0]
    places: Places = dict.fromkeys(present.here)
    places |= dict.fromkeys(least, 0)
    while least:
        job = max(least, key=lambda one: present.time(one, places[one] or 0))
        at = places[job] or 0
        options = tasks[job].options
        faster = [
            place
            for place in range(at + 1, len(options))
            if options[place][0] - options[at][0] <= free and present.time(job, place) < present.time(job, at)
        ]
        if not faster:
            least.remove(job)
            continue
        free -= options[faster[0]][0] - options[at][0]
        places[job] = faster[0]
    return places


def by_worth(worth: Callable[[Present, int, int], float], waits: float) -> Choose:
    """Return the shares of most worth in sum, by a dynamic program over jobs; ``waits`` is that of none."""

    def choose(present: Present) -> Places:
        best = np.zeros(present.gpus + 1)
        chosen = []
        for job in present.here:
            reached, taken = best + waits, np.full(present.gpus + 1, -1)
            for place, (count, _) in enumerate(present.tasks[job].options):
                if count <= present.gpus:
                    value = np.full(present.gpus + 1, -np.inf)
                    value[count:] = best[: present.gpus + 1 - count] + worth(present, job, place)
                    better = value > reached
                    reached[better], taken[better] = value[better], place
            best = reached
            chosen.append(taken)
        places, at = dict[int, int | None](), int(np.argmax(best))
        for job, taken in zip(reversed(present.here), reversed(chosen), strict=True):
            place = int(taken[at])
            places[job] = place if place >= 0 else None
            at -= present.tasks[job].options[place][0] if place >= 0 else 0
        return places

    return choose


def _finishing(present: Present, job: int, place: int) -> float:
    return present.tasks[job].weight / present.time(job, place)


def _welfare(present: Present, job: int, place: int) -> float:
    return -present.tasks[job].weight * float(np.log(present.time(job, place)))


CHOICES: tuple[Choose, ...] = (soonest, by_worth(_finishing, 0.0), by_worth(_welfare, -1e6), equally)
"""The last job first done; most weight done soon; most product of progress by weight, the market of Shockwave
(arXiv:2210.00093) without its forecasts of changing jobs; equal shares."""


@dataclass
class _Played:
    """What becomes of the jobs."""

    starts: dict[int, float] = field(default_factory=dict)
    ends: dict[int, float] = field(default_factory=dict)
    changes: dict[int, int] = field(default_factory=dict)
    spells: dict[int, list[Spell]] = field(default_factory=dict)


def played_moving(tasks: Sequence[Task], gpus: int, restart: float, choose: Choose) -> tuple[LayerRun, ...]:
    """Return the runs of jobs whose shares are chosen anew whenever one comes or ends."""
    left, held, done = [1.0] * len(tasks), Places(), _Played()
    clock, open_jobs = 0.0, set(range(len(tasks)))
    while open_jobs:
        here = sorted(
            (job for job in open_jobs if tasks[job].arrives <= clock), key=lambda job: tasks[job].arrives
        )
        present = Present(tasks, here, left, held, gpus, restart)
        places = choose(present)
        times = {job: present.time(job, place) for job, place in places.items() if place is not None}
        coming = [tasks[job].arrives - clock for job in open_jobs if tasks[job].arrives > clock]
        step = min([*times.values(), *coming])
        for job, time in times.items():
            place = places[job] or 0
            moved = held.get(job) not in (None, place)
            done.changes[job] = done.changes.get(job, 0) + moved
            done.starts.setdefault(job, clock)
            spell = Spell(clock, clock + step, tasks[job].options[place][0])
            done.spells.setdefault(job, []).append(spell)
            owed = restart if moved else 0.0
            left[job] -= max(0.0, step - owed) / tasks[job].options[place][1]
            if time <= step * (1 + 1e-12):
                done.ends[job] = clock + step
                open_jobs.remove(job)
        held = {job: place if place is not None else held.get(job) for job, place in places.items()} | {
            job: place for job, place in held.items() if job not in places
        }
        clock += step
    return tuple(
        LayerRun(
            task,
            max(spell.gpus for spell in done.spells[job]),
            done.starts[job],
            done.ends[job],
            done.changes[job],
            tuple(done.spells[job]),
        )
        for job, task in enumerate(tasks)
    )


def moving(tasks: Sequence[Task], gpus: int, objective: Objective, restart: float) -> tuple[LayerRun, ...]:
    """Return the runs of least cost whose shares change while jobs run."""
    found = [played_moving(tasks, gpus, restart, choose) for choose in CHOICES]
    return min(found, key=lambda runs: cost(runs, objective, gpus))


def equal_shares(tasks: Sequence[Task], gpus: int, restart: float) -> tuple[LayerRun, ...]:
    """Return the runs where all jobs present have equal shares, cut anew when one comes or ends.

    A change of its share costs a job a restart.
    """
    return played_moving(tasks, gpus, restart, equally)
