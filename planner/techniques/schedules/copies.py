"""A step whose activations go to the host and back, on a stream of copies beside the passes of every rank.

One copy at a time, in either direction. The order of the copies is laid out beforehand from a step in which
they take no time, as a runtime has to: a reload goes first, as late as its gradient allows. An activation is
on the device from the start of its forward to the end of its copy down, and from the start of its copy back
to the end of its weight gradient. One that would hardly leave before it is needed stays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from planner.dataclasses import dataclass
from planner.techniques.schedules.engine import (
    Pipeline,
    Task,
    Timeline,
    check_finished,
    jittered,
    pass_tasks,
    play,
    run_tasks,
)
from planner.techniques.schedules.family import Orders, Pass

SLACK: Final = 1e-9


class Copy(NamedTuple):
    """One activation on its way: ``down`` to the host, or back."""

    down: bool
    chunk: int
    microbatch: int
    start: float
    end: float


@dataclass(frozen=True)
class CopyRecord:
    """What one rank copies and holds over a step."""

    stage: int
    """The pipeline rank."""
    copies: int
    """Chunk activations sent to the host; as many come back."""
    busy: float
    """Time of its copies, both ways. [s]"""
    peak_on_device: int
    peak_on_host: int
    """Most chunk activations on the device at once, those on their way included, and on the host."""


@dataclass(frozen=True)
class CopiedStep:
    """A played step and its copies."""

    timeline: Timeline
    """The passes."""
    copies: tuple[tuple[Copy, ...], ...]
    """Copies of every rank, in their order."""

    def records(self) -> tuple[CopyRecord, ...]:
        """Sum up what each rank copies and holds."""
        chunks = 1 + max((item.chunk for passes in self.timeline.orders for item in passes), default=0)
        return tuple(
            CopyRecord(
                stage=rank,
                copies=sum(copy.down for copy in mine),
                busy=sum(copy.end - copy.start for copy in mine),
                peak_on_device=int(device),
                peak_on_host=int(host),
            )
            for rank, (mine, (device, host)) in enumerate(
                zip(self.copies, self.peaks((1,) * chunks), strict=True)
            )
        )

    def peaks(self, sizes: Sequence[float]) -> list[tuple[float, float]]:
        """Return the most that each rank holds on the device and on the host, chunks of ``sizes``."""
        found = []
        for rank, mine in enumerate(self.copies):
            device = [
                change
                for item, start, end in self.timeline.rank_events(rank)
                for change in _pass_changes(item, start, end, sizes[item.chunk])
            ]
            moves = [(copy, sizes[copy.chunk]) for copy in mine]
            device += [(copy.end, -size) if copy.down else (copy.start, size) for copy, size in moves]
            host = [(copy.start, size) if copy.down else (copy.end, -size) for copy, size in moves]
            found.append((_peak(device), _peak(host)))
        return found


def _pass_changes(item: Pass, start: float, end: float, size: float) -> list[tuple[float, float]]:
    if item.kind == "F":
        return [(start, size)]
    return [(end, -size)] if item.kind in ("W", "BW") else []


def _peak(changes: list[tuple[float, float]]) -> float:
    """Return the most that is held at once; what ends where another begins makes room for it."""
    held = peak = 0.0
    for _, change in sorted((round(time, 9), change) for time, change in changes):
        held += change
        peak = max(peak, held)
    return peak


def play_copied(
    orders: Orders,
    pipeline: Pipeline,
    offloaded: Sequence[int],
    copy: float,
    jitter: float = 0.0,
    seed: int = 0,
) -> CopiedStep:
    """Play a step while activations go to the host and back.

    Parameters
    ----------
    orders : Orders
        The passes of every rank.
    pipeline : Pipeline
        Places and times of the chunks.
    offloaded : sequence of int
        Chunks whose activations go to the host.
    copy : float
        Time to copy the activations of one chunk, one way. [s]
    jitter : float
        Relative spread of pass times, log-normal with mean one; copies keep their time. [-]
    seed : int
        Seed of the spread.

    Raises
    ------
    UnsupportedPlan
        If the orders cannot be played.
    """
    planned = play(orders, pipeline)
    scripts = [_copy_script(planned, rank, frozenset(offloaded), copy) for rank in range(len(orders))]
    tasks = pass_tasks(orders, pipeline)
    if jitter:
        tasks = jittered(tasks, jitter, seed)
    cell = 1 + max((task[1] for mine in tasks for task in mine), default=0)
    woven = []
    for passes, mine, script in zip(orders, tasks, scripts, strict=True):
        woven.append(_weave(passes, mine, script, cell, copy))
        cell += 2 * len(script) + 1
    streams = [rank.compute for rank in woven] + [rank.copies for rank in woven]
    played = list(zip(*run_tasks(streams, pipeline.sends_occupy), strict=True))
    count = len(orders)
    events = [_at(*row, rank.places) for row, rank in zip(played[:count], woven, strict=True)]
    check_finished(orders, [ends for _, ends in events])
    timeline = Timeline(
        orders, tuple(tuple(row) for row, _ in events), tuple(tuple(row) for _, row in events)
    )
    copies = tuple(
        tuple(Copy(step.down, *step.visit, start, end) for step, start, end in zip(script, *row, strict=True))
        for script, row in zip(scripts, played[count:], strict=True)
    )
    return CopiedStep(timeline, copies)


def _at(starts: list[float], ends: list[float], places: list[int]) -> tuple[list[float], list[float]]:
    """Return the times of the tasks in ``places``, as far as they ran."""
    ran = [place for place in places if place < len(ends)]
    return [starts[place] for place in ran], [ends[place] for place in ran]


class _Step(NamedTuple):
    """A copy in the order of its stream: of which visit, and before which pass of the rank it may start."""

    down: bool
    visit: tuple[int, int]
    place: int


class _Woven(NamedTuple):
    """Tasks of a rank's two streams, and where its passes stand among those of the first."""

    compute: list[Task]
    places: list[int]
    copies: list[Task]


def _weave(
    passes: tuple[Pass, ...], tasks: list[Task], script: list[_Step], cell: int, copy: float
) -> _Woven:
    """Let copies wait for passes and gradients for copies, by tasks of no time that fill or await a cell.

    Cells from ``cell`` on are free: one that nobody awaits, then a start and an end for every copy.
    """
    marks: dict[int, list[Task]] = {}
    awaited: dict[tuple[int, int], Task] = {}
    copies: list[Task] = []
    for number, step in enumerate(script):
        start, end = cell + 1 + 2 * number, cell + 2 + 2 * number
        marks.setdefault(step.place, []).append((0, start, 0.0, 0.0))
        copies.append((start, end, copy, 0.0))
        if not step.down:
            awaited[step.visit] = (end, cell, 0.0, 0.0)
    compute: list[Task] = []
    places: list[int] = []
    for place, ((kind, chunk, microbatch), task) in enumerate(zip(passes, tasks, strict=True)):
        compute += marks.get(place, [])
        if kind in ("B", "BW") and (chunk, microbatch) in awaited:
            compute.append(awaited[chunk, microbatch])
        places.append(len(compute))
        compute.append(task)
    return _Woven(compute, places, copies)


def _copy_script(planned: Timeline, rank: int, gone: frozenset[int], copy: float) -> list[_Step]:
    """Lay out the copies of a rank.

    A reload may start two copies before its gradient, in case one down is under way. What is needed within
    four copies after its forward stays.
    """
    passes, starts, ends = planned.orders[rank], planned.starts[rank], planned.ends[rank]
    forwards = {
        item[1:]: place for place, item in enumerate(passes) if item.kind == "F" and item.chunk in gone
    }
    down: list[tuple[float, _Step]] = []
    back: list[tuple[float, _Step]] = []
    place = 0
    for gradient, item in enumerate(passes):
        visit = (item.chunk, item.microbatch)
        if item.kind not in ("B", "BW") or visit not in forwards:
            continue
        forward = forwards[visit]
        if starts[gradient] - ends[forward] < 4 * copy - SLACK:
            continue
        while place + 1 < gradient and ends[place] <= starts[gradient] - 2 * copy + SLACK:
            place += 1
        after = max(place, forward + 1)
        down.append((ends[forward], _Step(True, visit, forward + 1)))
        back.append((ends[after - 1], _Step(False, visit, after)))
    return _merged(sorted(down), back, copy)


def _merged(down: list[tuple[float, _Step]], back: list[tuple[float, _Step]], copy: float) -> list[_Step]:
    """Order the copies as one stream runs them that takes those back first."""
    script: list[_Step] = []
    sent: set[tuple[int, int]] = set()
    waiting, returning = deque(down), deque(back)
    clock = 0.0
    while waiting or returning:
        first = min(queue[0][0] for queue in (waiting, returning) if queue)
        clock = max(clock, first)
        ready = bool(returning) and returning[0][0] <= clock + SLACK and returning[0][1].visit in sent
        _, step = (returning if ready or not waiting else waiting).popleft()
        sent.add(step.visit)
        script.append(step)
        clock += copy
    return script
