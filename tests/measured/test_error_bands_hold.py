"""Error bands hold what they say, for sources priced unseen, and with one run of their own."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from planner.calibrate.batches import predictions_with
from planner.calibrate.constants import Key, shipped_values
from planner.calibrate.fit import Factor
from planner.calibrate.pricing import Prediction, cost_predictions
from planner.calibrate.runs.defaults import PricedRun
from planner.calibrate.sites.fit import SHARES
from planner.calibrate.sites.solve import pinned
from planner.calibrate.stages import stages
from planner.cost.estimate import estimate
from tests.measured.matched import timed


@cache
def unseen(source: str) -> dict[Key, float]:
    """Return the shipped constants without those that were fitted to a source, but for their starts."""
    values = {key: value for key, value in shipped_values().items() if key[:2] != ("site", source)}
    own = [stage for stage in stages() if any(stage.wanted(run) for run in runs_of(source))]
    factors = [factor for stage in own for factor in stage.factors if factor.key[0] != "site"]
    return values | {factor.key: factor.start for factor in factors}


def runs_of(source: str) -> list[PricedRun]:
    return [run for run in timed() if run.run.source == source]


def inside(source: str, calibrated: bool) -> float:
    """Return the share of a source's runs inside their band; one of them may calibrate the others."""
    values, runs = dict(unseen(source)), runs_of(source)
    if calibrated:
        one = runs.pop(len(runs) // 2)
        name, width, meaning = SHARES["compute"]
        found, _ = pinned([one], [Factor(("site", source, name), 1.0, meaning, width)], values)
        values[("site", source, name)] = float(found[0])
    prices = [price for price in predictions_with(values)(runs) if isinstance(price, Prediction)]
    held = [
        abs(price.step_s / (run.measured.seconds or 0.0) - 1) <= price.error_band
        for price, run in zip(prices, runs, strict=True)
        if price.error_band is not None
    ]
    return float(np.mean(held))


SOURCES = (
    "aleph-alpha-layouts", "bigscience-bloom-prequel", "bridge-ablations", "distflashattn", "llm-foundry-mpt",
    "litgpt-thunder", "megatron-readme-2020-09", "megatron-readme-a100-2021-01",
    "megatron-readme-a100-2021-04", "megatron-sc21", "nemo-24.07", "torchtitan-2024",
    "torchtitan-h100-202412", "torchtitan-paper", "zero-bubble",
)  # fmt: skip
"""Sources with at least five timed runs of a runtime and accelerator that has a band."""


@pytest.mark.parametrize("calibrated", [False, True])
def test_nine_of_ten_runs_of_a_source_that_no_constant_has_seen_are_inside(calibrated: bool) -> None:
    # Nine of ten, less the standard error of a mean over so few sources, 0.03.
    shares = {source: inside(source, calibrated) for source in SOURCES}
    assert np.mean(list(shares.values())) >= 0.9 - 0.03


def test_a_table_and_an_estimate_tell_the_same_waits_and_bands() -> None:
    """Runs of a batch, priced along columns, and each alone."""
    runs = [run for run in timed() if run.plan.tp > 1][::40]
    assert len(runs) > 20
    compared = 0
    for run, price in zip(runs, cost_predictions(runs), strict=True):
        alone = estimate(run.plan, run.job, run.runtime)
        assert isinstance(price, Prediction)
        if alone.step == pytest.approx(price.step_s):  # else its passes are played
            compared += price.tensor_share > 0.0
            waits = alone.time.tp_comm / alone.step
            assert price.tensor_share == pytest.approx(waits)
            assert price.error_band in (None, pytest.approx(alone.error_band))
    assert compared > 20
