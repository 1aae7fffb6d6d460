"""Which layers a rank holds: splits against brute force, counts against placing every layer by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from planner.cost.case import case_of
from planner.cost.splits import default_split, weighted_split
from planner.cost.stages import (
    RankPieces,
    deciding_ranks,
    rank_counts,
    stage_alone,
    stage_table,
    stages_of,
)
from planner.cost.step.parts import PlanParts
from planner.cost.step.step import price_passes, whole_step
from planner.plan import even_split
from planner.techniques.recompute import RECOMPUTES
from planner.techniques.recompute.family import read_choice
from planner.techniques.schedules import SCHEDULES
from tests.cases import every
from tests.unit.cost_jobs import MODELS, job, plan_of, runtime

NONE = read_choice(dict(RECOMPUTES), "none")


@every("layers", [1, 7, 12, 61, 126])
def test_an_even_split_differs_by_one_at_most(layers: int) -> None:
    for parts in range(1, min(layers, 20) + 1):
        split = even_split(layers, parts)
        assert (len(split), sum(split)) == (parts, layers)
        assert max(split) - min(split) <= 1


def splits(layers: int, parts: int) -> list[tuple[int, ...]]:
    cuts = combinations(range(1, layers), parts - 1)
    return [tuple(b - a for a, b in zip((0, *cut), (*cut, layers), strict=True)) for cut in cuts]


def heaviest(split: tuple[int, ...], weights: list[float], first: float, last: float) -> float:
    ends = np.cumsum(split)
    loads = [sum(weights[end - size : end]) for size, end in zip(split, ends, strict=True)]
    loads[0] += first
    loads[-1] += last
    return max(loads)


@every("seed", range(12))
def test_a_weighted_split_is_the_best_of_all_splits(seed: int) -> None:
    draw = np.random.default_rng(seed)
    weights = draw.uniform(0.5, 3.0, 10).tolist()
    parts, (first, last) = int(draw.integers(1, 6)), draw.uniform(0, 4, 2).tolist()
    best = min(heaviest(split, weights, first, last) for split in splits(10, parts))
    assert heaviest(
        weighted_split(tuple(weights), parts, last, first), weights, first, last
    ) == pytest.approx(best)


def test_the_default_split_follows_the_weights_only_where_layers_differ() -> None:
    weights = {"a": 1.0, "b": 5.0, "head": 100.0}
    assert default_split(MODELS["dense"], 4, weights) == (3, 3, 3, 3)
    assert default_split(MODELS["latent"], 2, weights | {"head": 0.0}) == (6, 5)


def test_counts_of_a_looped_pipeline_by_hand() -> None:
    # 12 layers in eight chunks of 1, 1, 2, 2, 2, 2, 1, 1 on four ranks: rank 2 has chunks 2 and 6.
    split = even_split(12, 8)
    assert split == (1, 1, 2, 2, 2, 2, 1, 1)
    ranks = rank_counts(MODELS["dense"], SCHEDULES["interleaved-1f1b"], (4, 2), split, NONE)
    assert [rank["a", False] for rank in ranks] == [3, 3, 3, 3]
    assert [rank["embedding", False] for rank in ranks] == [1, 0, 0, 0]
    assert [rank["head", False] for rank in ranks] == [0, 0, 0, 1]


def test_counts_of_a_v_by_hand() -> None:
    """The V comes back to the first rank, which then has both the embedding and the head."""
    ranks = rank_counts(MODELS["tied"], SCHEDULES["zb-v"], (2, 2), (3, 3, 2, 2), NONE)
    assert ranks[0] == {("a", False): 5, ("embedding", False): 1, ("tied_head", False): 1}
    assert ranks[1] == {("a", False): 5}


def test_a_tied_head_is_a_copy_of_its_own_on_another_rank() -> None:
    ranks = rank_counts(MODELS["tied"], SCHEDULES["1f1b"], (2, 1), (5, 5), NONE)
    assert ranks[1]["head", False] == 1
    assert sum(rank["tied_head", False] for rank in ranks) == 0


def test_recompute_of_some_layers_on_every_rank() -> None:
    choice = read_choice(dict(RECOMPUTES), "full:2")
    ranks = rank_counts(MODELS["dense"], SCHEDULES["1f1b"], (4, 1), (3, 1, 4, 4), choice)
    assert [rank["a", True] for rank in ranks] == [2, 1, 2, 2]
    assert [rank["a", False] for rank in ranks] == [1, 0, 2, 2]


def test_extra_prediction_layers_stand_on_the_last_rank() -> None:
    ranks = rank_counts(MODELS["latent"], SCHEDULES["1f1b"], (2, 1), (6, 5), NONE)
    assert ranks[0] == {("a", False): 2, ("b", False): 4, ("embedding", False): 1}
    assert ranks[1] == {("b", False): 6, ("head", False): 2, ("prediction", False): 1}


@every("seed", range(10))
def test_deciding_ranks_keep_the_most_expensive_one(seed: int) -> None:
    """Whatever a piece costs, some deciding rank is as dear as the dearest of all, in time and in memory."""
    draw = np.random.default_rng(seed)
    ranks = [
        RankPieces({(name, False): int(draw.integers(0, 4)) for name in "abc" if draw.integers(2)})
        for _ in range(12)
    ]
    in_flight = np.sort(draw.integers(1, 6, 12)).astype(float)
    kept = deciding_ranks(ranks, in_flight)
    for _ in range(50):
        prices = dict(zip("abc", draw.exponential(1.0, 3), strict=True))
        load = np.array([sum(prices[name] * count for (name, _), count in rank.items()) for rank in ranks])
        assert load[kept].max() == load.max()
        assert (load * in_flight)[kept].max() == (load * in_flight).max()


def test_few_ranks_of_a_long_pipeline_decide() -> None:
    ranks = rank_counts(MODELS["dense"], SCHEDULES["1f1b"], (12, 1), (1,) * 12, NONE)
    assert deciding_ranks(ranks, 12.0 - np.arange(12)) == [0, 11]


def test_a_table_of_stages_repeats_the_first_rank_where_few_decide() -> None:
    ranks = [
        rank_counts(MODELS["dense"], SCHEDULES["1f1b"], (pp, 1), even_split(12, pp), NONE) for pp in (1, 4)
    ]
    table = stage_table(ranks, [[0], [0, 3]])
    assert table.rank.tolist() == [[0, 0], [0, 3]]
    assert table.counts["a", False].tolist() == [[12, 3], [12, 3]]
    assert table.counts["head", False].tolist() == [[1, 0], [1, 1]]
    assert table.taken(np.array([1])).rank.tolist() == [[0], [3]]
    assert stages_of(ranks[1]).counts["a", False].tolist() == [3, 3, 3, 3]


def test_a_rank_alone_is_the_only_one_of_its_plan_as_numbers() -> None:
    (rank,) = rank_counts(MODELS["dense"], SCHEDULES["1f1b"], (1, 1), (MODELS["dense"].num_layers,), NONE)
    alone, only = stage_alone(rank), stages_of([rank])
    assert list(alone.counts) == list(only.counts)
    assert alone.counts == {piece: column[0] for piece, column in only.counts.items()}
    assert (alone.rank, alone.crest, alone.crest_again) == (only.rank[0], only.crest[0], only.crest_again[0])
    assert alone.messages == only.messages == alone.all_messages == {}
    assert {type(count) for count in alone.counts.values()} == {float}


@every("pp", [1, 4])
@every("zero", [1, 3])
def test_a_step_without_bounds_is_the_same_step(pp: int, zero: int) -> None:
    work = job(MODELS["dense"], 8, global_batch=32)
    plan = plan_of(work, pp=pp, zero=zero)
    case = case_of(plan, work, runtime())
    parts = PlanParts(plan, case)
    passes = price_passes(case, plan, parts.costs, parts.stages, parts.totals, bounded=False)
    plain, bounded = (whole_step(case, plan, one, parts.stages) for one in (passes, parts.passes))
    assert (passes.bound, passes.floor) == (0.0, 0.0)
    assert parts.passes.floor > 0.0
    assert plain.step == bounded.step
    assert plain.total_bytes == bounded.total_bytes
    assert plain.floor <= bounded.floor <= plain.step
