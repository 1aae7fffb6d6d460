"""The simulation agrees exactly with PyTorch's own action lists, every rank of every configuration."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from planner.registry import find
from planner.simulate.bare import BarePipeline
from planner.simulate.record import step_record
from planner.techniques.schedules import SCHEDULES
from planner.techniques.schedules.engine import Timeline
from planner.techniques.schedules.family import UNIT, Pass
from tests.cases import every

TABLE = Path(__file__).parent / "pipeline" / "torch_schedules.csv"


@dataclass(frozen=True)
class Row:
    """One configuration, figures of all ranks in rank order."""

    schedule: str
    pp: int
    vpp: int
    microbatches: int
    makespan: float
    work: float
    figures: dict[str, list[int | None]]


def rows() -> Iterator[Row]:
    with TABLE.open(encoding="utf-8") as stream:
        for line in csv.DictReader(stream):
            head = [line.pop(name) for name in ("schedule", "pp", "vpp", "microbatches", "makespan", "work")]
            figures = {
                name: [None if word == "-" else int(word) for word in text.split()]
                for name, text in line.items()
            }
            yield Row(head[0], *map(int, head[1:4]), *map(float, head[4:]), figures)


ROWS = list(rows())


def counted(timeline: Timeline, kind: str) -> list[int]:
    return [sum(item.kind == kind for item in passes) for passes in timeline.orders]


def peak_until_input_gradient(passes: tuple[Pass, ...]) -> int:
    held = peak = 0
    for item in passes:
        held += {"F": 1, "W": 0}.get(item.kind, -1)
        peak = max(peak, held)
    return peak


def messages(timeline: Timeline, ranks: tuple[int, ...], forward: bool, sent: bool) -> list[int]:
    """Messages of each rank: a pass sends to the rank of the next chunk, and receives from the last."""
    step = 1 if forward == sent else -1
    kinds = {"F"} if forward else {"B", "BW"}
    counts = []
    for rank, passes in enumerate(timeline.orders):
        others = [item.chunk + step for item in passes if item.kind in kinds]
        counts.append(sum(0 <= chunk < len(ranks) and ranks[chunk] != rank for chunk in others))
    return counts


def test_the_table_is_whole() -> None:
    assert sum(row.pp for row in ROWS) == 412
    assert Counter(row.schedule for row in ROWS) == {
        "GPipe": 9,
        "1F1B": 9,
        "Interleaved1F1B": 19,
        "LoopedBFS": 9,
        "InterleavedZeroBubble": 19,
        "ZBVZeroBubble": 11,
        "DualPipeV": 8,
    }


CASES = [pytest.param(row, id=f"{row.schedule}-{row.pp}-{row.vpp}-{row.microbatches}") for row in ROWS]


@every("row", CASES)
def test_torch_schedule(row: Row) -> None:
    schedule = find(SCHEDULES, row.schedule, "--schedule")
    timeline = BarePipeline(schedule, row.pp, row.vpp, row.microbatches, UNIT).played()
    step = step_record(timeline)
    ranks = schedule.chunk_ranks(row.pp, row.vpp)
    found = {
        "forwards": counted(timeline, "F"),
        "full_backwards": counted(timeline, "BW"),
        "input_gradients": counted(timeline, "B"),
        "weight_gradients": counted(timeline, "W"),
        "peak_in_flight": [stage.peak_in_flight for stage in step.stages],
        "peak_until_input_gradient": list(map(peak_until_input_gradient, timeline.orders)),
        "sends_forward": messages(timeline, ranks, forward=True, sent=True),
        "receives_forward": messages(timeline, ranks, forward=True, sent=False),
        "sends_backward": messages(timeline, ranks, forward=False, sent=True),
        "receives_backward": messages(timeline, ranks, forward=False, sent=False),
    }
    for name, figures in row.figures.items():
        if None not in figures:
            assert found[name] == figures, name
    assert step.makespan == row.makespan
    assert max(stage.busy for stage in step.stages) == row.work
    assert step.bubble == row.makespan - row.work
