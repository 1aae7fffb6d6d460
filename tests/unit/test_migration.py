"""What moves between two plans: closed forms, every numbering tried, cells of the state counted."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from planner.api import Job, Workload, estimate_plan, load_hardware, load_model
from planner.cost.estimate import Estimate
from planner.cost.traffic.migration import Holding, Move, holdings, move_between
from tests.cases import every


def shards(ranks: int) -> list[Holding]:
    """One piece of one byte in contiguous shards."""
    low = np.arange(ranks) / ranks
    one = np.ones((1, 1))
    return [Holding(np.ones(1), one, np.zeros(ranks), low, low + 1 / ranks)]


@every("ranks", [2, 3, 8, 17, 64])
def test_contiguous_shards_less_one_move_half_of_the_state(ranks: int) -> None:
    """ElasWave's reason to interleave shards (arXiv:2510.00606): the last rank lost, numbers kept."""
    move = Move(shards(ranks), shards(ranks - 1), 1, ranks - 1)
    same = np.arange(ranks - 1)
    assert 1 - np.trace(move.overlap(same, same)) == pytest.approx(0.5)
    assert move.moved <= 0.5 + 1e-12
    assert move.parts[:, 3].sum() == pytest.approx(1 / ranks)


@every("ranks", [2, 4, 16])
def test_twice_or_half_the_ranks_move_half_under_the_best_numbering(ranks: int) -> None:
    assert Move(shards(ranks), shards(2 * ranks), 1, ranks).moved == pytest.approx(0.5)
    halved = Move(shards(2 * ranks), shards(ranks), 1, 2 * ranks)
    assert halved.moved == pytest.approx(0.5)


def test_no_numbering_moves_less() -> None:
    for old, new in ((5, 3), (4, 6), (6, 6), (3, 5)):
        move = Move(shards(old), shards(new), 1, old)
        most = max(old, new)
        lows, width = np.arange(old) / old, 1 / old
        least = 1.0
        for seats in permutations(range(most), new):
            kept = sum(
                max(0.0, min(lows[seat] + width, (rank + 1) / new) - max(lows[seat], rank / new))
                for rank, seat in enumerate(seats)
                if seat < old
            )
            least = min(least, 1 - kept)
        assert move.moved == pytest.approx(least)


WORK = Workload(seq_len=2048, global_batch=64)


def plan(gpus: int, model: str = "qwen2.5-1.5b", runtime: str = "megatron-lm", **axes: object) -> Estimate:
    return estimate_plan(Job(load_model(model), load_hardware("dgx-h100"), gpus, WORK), runtime, **axes)


def test_all_that_ranks_hold_is_the_state_times_its_copies() -> None:
    answer = plan(16, tp=2, pp=2, sequence_parallel=True)
    weights, optimizer = holdings(answer)
    params = answer.job.model.params
    tied = answer.job.model.embedding_params
    assert weights.held().sum() == pytest.approx(2 * (params + tied) * 4)
    assert optimizer.held().sum() == pytest.approx(12 * (params + tied))


def test_experts_are_held_by_their_own_ranks() -> None:
    answer = plan(16, "qwen3-30b-a3b", ep=8, tp=2, sequence_parallel=True)
    found = holdings(answer)
    assert len(found) == 4
    assert sum(one.held().sum() for one in found[1::2]) == pytest.approx(12 * answer.job.model.params)


def cells(answer: Estimate, parts: int) -> np.ndarray:
    """Whether each rank holds each cell of each piece's optimizer state, counted one by one."""
    one = holdings(answer)[1]
    middles = (np.arange(parts) + 0.5) / parts
    inside = (one.low[:, None] < middles) & (middles < one.high[:, None])
    return one.stages[one.stage.astype(int)][:, :, None] * inside[:, None, :]


@every(
    ("old", "new"),
    [
        ({"tp": 2, "pp": 2}, {"tp": 4}),
        ({"tp": 8}, {"tp": 2, "pp": 4}),
        ({"pp": 4}, {"pp": 2, "tp": 2}),
    ],
)
def test_bytes_by_link_are_those_of_cells_counted_one_by_one(
    old: dict[str, int], new: dict[str, int]
) -> None:
    first, second = (
        plan(16, sequence_parallel=old.get("tp", 1) > 1, **old),
        plan(16, sequence_parallel=new.get("tp", 1) > 1, **new),
    )
    move = move_between(first, second)
    only = Move(move.old[1:], move.new[1:], move.per_node, move.left)
    seats = only.seats
    had, needs = cells(first, 64), cells(second, 64)
    size = only.old[0].nbytes[None, :, None] / 64
    expected = np.zeros(4)
    for rank, seat in enumerate(seats):
        mates = had[8 * (seat // 8) : 8 * (seat // 8) + 8].max(axis=0)
        own = had[seat] * needs[rank]
        near = np.maximum(mates * needs[rank] - own, 0)
        far = needs[rank] - own - near
        expected += [(part * size[0]).sum() for part in (own, near, far, 0 * far)]
    assert only.parts.sum(axis=0) == pytest.approx(expected, rel=1e-9)


def test_the_same_plan_moves_nothing_and_a_lost_node_what_it_alone_held() -> None:
    answer = plan(32, tp=8, sequence_parallel=True)
    assert move_between(answer, answer).moved == pytest.approx(0.0, abs=1.0)
    smaller = estimate_plan(
        Job(answer.job.model, answer.job.hardware, 16, WORK), tp=8, sequence_parallel=True
    )
    lost = move_between(answer, smaller, left=24)
    assert lost.parts[:, 3].sum() == pytest.approx(12 * answer.job.model.params / 4, rel=1e-6)
