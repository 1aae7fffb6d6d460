"""How far the predictions are from the runs that the project carries; the limits only tighten."""

from __future__ import annotations

from functools import cache
from statistics import median

from planner.calibrate.validate import Outcome
from planner.cost.memory.fit import memory_band
from planner.runtimes.traits import Traits
from tests.cases import every
from tests.lab.accuracy.lines import Accuracy, Line, line_of
from tests.lab.accuracy.runs import accuracy_of, read_folder
from tests.measured.limits import APART, LIMITS, WHOLE_ERROR, WHOLE_RIGHT, WHOLE_TIMED
from tests.measured.matched import RUNS, validated


@cache
def measured() -> Accuracy:
    return accuracy_of(read_folder(RUNS), inside=validated())


@cache
def lines() -> dict[str, Line]:
    return {line.name: line for line in measured().lines("source")}


def steady() -> list[Outcome]:
    """Return the rows of all sources whose steps were repeated."""
    return [outcome for outcome in measured().ordinary if outcome.scored.source not in APART]


def test_every_source_has_its_limits() -> None:
    assert LIMITS.keys() == lines().keys()


@every("source", LIMITS)
def test_step_time_is_as_near_as_it_was(source: str) -> None:
    line, limit = lines()[source], LIMITS[source]
    assert line.error is not None
    assert line.p90 is not None
    assert line.error <= limit.error
    assert line.p90 <= limit.p90


@every("source", [name for name, limit in LIMITS.items() if limit.rank is not None])
def test_the_order_of_runs_is_as_right_as_it_was(source: str) -> None:
    rank = lines()[source].source_rank
    assert rank is not None
    assert rank >= (LIMITS[source].rank or 0)


@every("source", [name for name, limit in LIMITS.items() if limit.rank_in_groups is not None])
def test_the_order_in_groups_is_as_right_as_it_was(source: str) -> None:
    rank = lines()[source].rank
    assert rank is not None
    assert rank >= (LIMITS[source].rank_in_groups or 0)


@every("source", LIMITS)
def test_peak_memory_is_as_near_as_it_was(source: str) -> None:
    line, limit = lines()[source], LIMITS[source]
    assert (line.memory_error is None) == (limit.memory is None)
    assert (line.memory_error or 0) <= (limit.memory or 0)


def test_nine_of_ten_peaks_are_inside_the_band_that_an_estimate_prints() -> None:
    scored = (outcome.scored for outcome in steady())
    pairs = [
        (row.measured_gib, row.predicted_gib) for row in scored if row.measured_gib and row.predicted_gib
    ]
    band = memory_band(Traits().allocator.memory_spread)
    assert len(pairs) >= 150
    assert sum(abs(seen / said - 1) <= band for seen, said in pairs) >= 0.9 * len(pairs)


@every("source", LIMITS)
def test_fit_or_not_is_called_as_well_as_it_was(source: str) -> None:
    line, limit = lines()[source], LIMITS[source]
    assert line.outcomes["false_negative"] <= limit.missed
    assert line.outcomes["false_positive"] <= limit.in_vain
    assert line.picks_oom <= limit.picks


def test_limits_are_close_to_what_is_reached() -> None:
    # A limit that has become loose is tightened in the change that made it so.
    loose = [name for name, limit in LIMITS.items() if (lines()[name].error or 0) < 0.8 * limit.error - 0.002]
    assert loose == []


@every(("source", "rows", "near"), [("ultrascale-playbook", 710, 0.09), ("megatron-lm-golden", 73, 0.075)])
def test_half_of_the_runs_of_a_source_apart_are_near(source: str, rows: int, near: float) -> None:
    # The median tells of the steps that did not stall, and of the tests without flags that nothing prices.
    found = [outcome.scored for outcome in measured().ordinary if outcome.scored.source == source]
    errors = [
        abs(row.predicted_s / row.measured_s - 1) for row in found if row.predicted_s and row.measured_s
    ]
    assert len(errors) == rows
    assert median(errors) <= near


def test_all_rows_together() -> None:
    whole = line_of("all", steady())
    assert whole.timed >= WHOLE_TIMED
    assert (whole.error or 1) <= WHOLE_ERROR
    assert (whole.error or 1) < (whole.naive or 0) / 3
    assert (whole.right or 0) >= WHOLE_RIGHT
