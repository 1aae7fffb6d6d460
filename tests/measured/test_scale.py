"""Errors do not grow with the number of accelerators, beyond the runs that constants were fitted to too."""

from __future__ import annotations

import numpy as np

from planner.calibrate.constants import shipped_values
from planner.calibrate.fit import fit, log_errors
from planner.calibrate.pricing import Prediction
from planner.calibrate.runs.defaults import PricedRun
from planner.calibrate.stages import stages
from tests.cases import every
from tests.measured.matched import known_prices, timed

MEGATRON = next(stage for stage in stages() if stage.name.startswith("Megatron-LM's runs"))


def accelerators(run: PricedRun) -> int:
    return run.run.num_gpus or 0


def test_constants_from_few_accelerators_hold_on_many() -> None:
    """Fitted on up to 64, runs on 1,024 to 3,072 are within a point of what the constants of all reach."""
    runs = [run for run in timed() if MEGATRON.wanted(run)]
    far = [run for run in runs if accelerators(run) >= 1024]
    own = [factor.key for factor in MEGATRON.factors]
    others = {key: value for key, value in shipped_values().items() if key not in own}
    found = fit([run for run in runs if accelerators(run) <= 64], MEGATRON.factors, others)
    unseen, known = (
        np.mean(np.abs(np.expm1(log_errors(far, values))))
        for values in ({**others, **found.values}, shipped_values())
    )
    assert len(far) >= 20
    assert unseen <= known + 0.01


@every(
    "source",
    [
        "megatron-readme-2020-09",
        "megatron-readme-a100-2021-01",
        "megatron-readme-a100-2021-04",
        "megatron-sc21",
    ],
)
def test_residuals_have_no_trend_with_accelerators(source: str) -> None:
    """Over 1 to 3,072 accelerators less than half a percent for each doubling."""
    runs = [run for run in timed() if run.run.source == source and run.plan.zero == 0]
    sizes = np.log2([accelerators(run) for run in runs])
    assert np.ptp(sizes) >= 6
    slope = np.polyfit(sizes, log_errors(runs, shipped_values()), 1)[0]
    assert abs(slope) < 0.005


def test_bands_hold_on_many_accelerators() -> None:
    """90% of runs on more than 256 are inside their cell's band, which knows nothing of their size."""
    runs = [run for run in timed() if accelerators(run) > 256]
    prices = [price for price in known_prices(runs) if isinstance(price, Prediction)]
    held = [
        abs(price.step_s / (run.measured.seconds or 0.0) - 1) <= price.error_band
        for price, run in zip(prices, runs, strict=True)
        if price.error_band is not None
    ]
    assert len(held) > 30
    assert np.mean(held) >= 0.9


def test_the_sweeps_network_share_is_no_growth_with_nodes() -> None:
    """One share for 64 and 256 accelerators: were it contention, one would be too fast, one too slow.

    Data parallelism is a tenth to a fifth of those steps, so that 10% of its time is 1 to 2% of a step.
    """
    runs = [run for run in timed() if run.run.source == "aleph-alpha-layouts"]
    errors = {
        count: log_errors([run for run in runs if accelerators(run) == count], shipped_values())
        for count in (64, 256)
    }
    assert all(len(found) >= 20 for found in errors.values())
    assert abs(np.median(errors[64]) - np.median(errors[256])) < 0.015
