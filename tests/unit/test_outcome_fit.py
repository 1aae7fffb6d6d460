"""Constants of memory that are fitted to whether runs went well: maximum likelihood, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from planner.calibrate import fit as fits
from planner.calibrate.constants import Key, Values
from planner.calibrate.fit import Factor, fit, outcome_log_chances
from planner.calibrate.pricing import Prediction
from planner.calibrate.stages import neutral_values, stages

RATE: Key = ("era", "any", "rate")


def run(oom: bool | None, seconds: float | None = None) -> Any:
    priced = SimpleNamespace(oom=oom, mark="", source="aleph-alpha-layouts")
    return SimpleNamespace(run=priced, measured=SimpleNamespace(seconds=seconds))


@pytest.fixture
def equal_chances(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run has the same chance of running out: the constant itself."""

    def predictions_with(values: Values) -> Any:
        def price(runs: Sequence[Any]) -> list[Prediction]:
            return [Prediction(1.0, 1.0, 0.0, 0.0, 1.0, values[RATE]) for _ in runs]

        return price

    monkeypatch.setattr(fits, "predictions_with", predictions_with)


@pytest.mark.usefixtures("equal_chances")
def test_what_happened_has_its_chance() -> None:
    logs = outcome_log_chances([run(True), run(False), run(None)], {RATE: 0.2})
    assert np.exp(logs) == pytest.approx([0.2, 0.8, 0.8])


@pytest.mark.usefixtures("equal_chances")
def test_three_of_ten_is_a_rate_of_three_tenths() -> None:
    """The likelihood of a rate p is largest at the share; its log's error is the root of (1 - p) / (n p)."""
    runs = [run(number < 30) for number in range(100)]
    found = fit(runs, [Factor(RATE, 0.2, "", 3.0)], {}, outcome_log_chances)
    assert found.values[RATE] == pytest.approx(0.3, rel=0.02)
    assert found.standard_errors[RATE] == pytest.approx((0.7 / (100 * 0.3)) ** 0.5, rel=0.05)


def test_outcomes_count_runs_without_a_time_and_need_both_kinds() -> None:
    stage = next(stage for stage in stages() if stage.measure is outcome_log_chances)
    timed, failed, neither = run(None, 2.0), run(True), run(None)
    assert stage.runs_of([timed, failed, neither]) == [timed, failed]
    assert stage.runs_of([timed, neither]) == []
    sweep = next(stage for stage in stages() if stage.name == "layouts sweep")
    assert sweep.runs_of([timed, failed, neither]) == [timed]


def test_a_fit_starts_from_runtimes_without_what_was_fitted_before() -> None:
    """The compute share of torchtitan is 1 in its own file, and less where fitted constants are applied."""
    assert neutral_values(stages())["runtime", "torchtitan", "compute_derate"] == 1.0
