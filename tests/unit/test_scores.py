"""Scores of hand-made tables whose answers follow by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from planner.calibrate.scores import (
    Scored,
    average_ranks,
    error_scores,
    group_scores,
    memory_scores,
    naive_scores,
    oom_scores,
    pick_scores,
    source_scores,
    spearman,
    time_scores,
)
from tests.cases import every


def row(
    measured: float | None = None,
    predicted: float | None = None,
    *,
    key: str = "g",
    source: str = "s",
    tokens: float = 1.0,
    naive: float | None = None,
    oom: tuple[bool | None, bool | None] = (False, False),
    memory: tuple[float | None, float | None, str] = (None, None, ""),
) -> Scored:
    return Scored(
        id="r",
        source=source,
        key=(source, "f", "gpu", key, 1, 8, 8, "bf16"),
        measured_s=measured,
        predicted_s=predicted,
        naive_s=naive,
        tokens=tokens,
        measured_gib=memory[0],
        predicted_gib=memory[1],
        memory_kind=memory[2],
        measured_oom=oom[0],
        predicted_oom=oom[1],
    )


def test_errors_of_ten_rows_by_hand() -> None:
    measured = [10.0] * 10
    predicted = [10, 11, 9, 12, 8, 10, 10, 10, 10, 15]
    scores = time_scores(row(m, p) for m, p in zip(measured, predicted, strict=True))
    assert scores["n"] == 10
    assert scores["mape"] == pytest.approx((0.1 + 0.1 + 0.2 + 0.2 + 0.5) / 10)
    assert scores["median_ape"] == pytest.approx(0.05)
    assert scores["p90_ape"] == pytest.approx(0.2 + 0.1 * 0.3)
    assert scores["bias"] == pytest.approx(0.5 / 10)
    assert scores["within_10pct"] == 0.7


def test_the_edge_of_ten_percent_counts_as_within() -> None:
    assert error_scores(np.array([11 / 10 - 1, -0.1, 0.101, 0.0]))["within_10pct"] == 0.75


def test_no_rows_have_no_scores() -> None:
    scores = time_scores([row(1.0, None), row(None, 1.0)])
    assert scores == {
        "n": 0, "mape": None, "median_ape": None, "p90_ape": None, "bias": None, "within_10pct": None
    }  # fmt: skip


def test_the_rule_of_thumb_is_scored_over_the_timed_rows() -> None:
    scores = naive_scores([row(10, 10, naive=8.0), row(10, 10, naive=12.0), row(None, 10, naive=99.0)])
    assert (scores["n"], scores["mape"], scores["bias"]) == (2, pytest.approx(0.2), pytest.approx(0.0))


def test_equal_values_share_their_mean_rank() -> None:
    assert average_ranks(np.array([3.0, 1.0, 3.0, 3.0, 2.0])).tolist() == [4.0, 1.0, 4.0, 4.0, 2.0]


@every("seed", range(20))
def test_rank_correlation_is_that_of_scipy_ties_included(seed: int) -> None:
    random = np.random.default_rng(seed)
    left, right = random.integers(0, 6, 15), random.integers(0, 6, 15)
    expected = float(stats.spearmanr(left, right).statistic)
    assert spearman(list(left), list(right)) == pytest.approx(expected, abs=1e-9)


def test_rank_correlation_needs_three_values_that_differ() -> None:
    assert spearman([1, 2], [2, 1]) is None
    assert spearman([1, 1, 1], [1, 2, 3]) is None
    assert spearman([1, 2, 3], [30, 20, 10]) == -1.0


def test_out_of_memory_calls_are_counted_and_unknown_outcomes_left_out() -> None:
    calls = [(True, True), (True, True), (True, False), (False, True), (False, False), (None, True)]
    assert oom_scores(row(oom=call) for call in calls) == {
        "true_positive": 2,
        "false_positive": 1,
        "true_negative": 1,
        "false_negative": 1,
    }


def test_memory_is_compared_by_counter_and_unknown_counters_apart() -> None:
    scores = memory_scores(
        [
            row(memory=(10.0, 11.0, "allocated")),
            row(memory=(10.0, 8.0, "device")),
            row(memory=(10.0, 40.0, "")),
            row(memory=(10.0, None, "device")),
        ]
    )
    assert (scores["n"], scores["mape"]) == (2, pytest.approx(0.15))
    assert scores["by_kind"]["device"]["mape"] == pytest.approx(0.2)
    assert scores["unknown_kind"]["mape"] == pytest.approx(3.0)


def test_the_regret_is_what_the_pick_took_over_the_best() -> None:
    rows = [row(10.0, 9.0), row(8.0, 9.5), row(12.0, 20.0)]
    assert pick_scores(rows) == {"top1_regret": pytest.approx(0.25), "pick_oom": False}


def test_a_row_predicted_not_to_fit_is_never_picked() -> None:
    rows = [row(8.0, 5.0, oom=(False, True)), row(10.0, 9.0)]
    assert pick_scores(rows) == {"top1_regret": pytest.approx(0.25), "pick_oom": False}


def test_of_rows_predicted_equally_fast_the_safest_is_picked() -> None:
    risky = replace(row(None, 5.0, oom=(True, False)), oom_probability=0.3)
    assert pick_scores([risky, row(10.0, 5.0)]) == {"top1_regret": pytest.approx(0.0), "pick_oom": False}


def test_a_pick_that_really_ran_out_has_no_regret() -> None:
    rows = [row(None, 5.0, oom=(True, False)), row(10.0, 9.0)]
    assert pick_scores(rows) == {"top1_regret": None, "pick_oom": True}


def test_without_a_row_that_fits_there_is_no_pick() -> None:
    assert pick_scores([row(8.0, 5.0, oom=(False, True))]) == {"top1_regret": None, "pick_oom": None}


def test_a_pick_without_a_time_or_an_outcome_tells_nothing() -> None:
    rows = [row(None, 5.0, oom=(None, False)), row(10.0, 9.0)]
    assert pick_scores(rows) == {"top1_regret": None, "pick_oom": None}


def test_groups_are_rows_with_equal_keys() -> None:
    rows = [row(1, 1.1, key="a"), row(2, 2.2, key="a"), row(3, 3.3, key="a"), row(5, 4, key="b")]
    first, second = group_scores(rows)
    assert (first["model"], first["n"], first["spearman"]) == ("a", 3, 1.0)
    assert first["mape"] == pytest.approx(0.1)
    assert (second["model"], second["n"], second["spearman"], second["top1_regret"]) == ("b", 1, None, 0.0)


def test_a_source_is_ranked_by_tokens_a_second_not_by_seconds() -> None:
    rows = [row(10.0, 10.0, tokens=100.0), row(20.0, 22.0, tokens=400.0), row(30.0, 33.0, tokens=450.0)]
    (scores,) = source_scores(rows)
    assert (scores["source"], scores["n"], scores["spearman"]) == ("s", 3, 1.0)
    slower = [*rows[:2], row(30.0, 99.0, tokens=450.0)]
    assert source_scores(slower)[0]["spearman"] == 0.5
