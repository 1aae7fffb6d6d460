"""Bands of what no run is known of: the nearest, as much wider as the known ones differ."""

from itertools import permutations

import numpy as np
import pytest

from planner.cost.estimate import estimate
from planner.inputs.fitted import ELSEWHERE_WIDER, error_band, measured_bands
from planner.inputs.load_hardware import load_hardware
from planner.plan import Plan
from planner.report.estimate_page import short_trust, trust
from planner.runtimes import runtimes
from tests.unit.cost_jobs import job


def test_a_band_is_lent_by_the_same_core_and_told() -> None:
    """No run of Megatron-LM on H100 is among the bands; Megatron-Bridge, whose core it shares, has 57."""
    known = measured_bands()["megatron-bridge", "h100-80gb-sxm"]
    lent = error_band("megatron-lm", load_hardware("dgx-h100").pool, known.extrapolated)
    assert lent is not None
    assert lent.share == pytest.approx(ELSEWHERE_WIDER * known.band)
    assert lent.lender == "megatron-bridge on h100-80gb-sxm"
    answer = estimate(Plan(dp=8, num_microbatches=4), job(gpus=8), runtimes()["megatron-lm"])
    assert "was never validated" in str(trust(answer))
    assert ", lent by megatron-bridge, memory" in short_trust(answer)[0]


def test_a_band_is_lent_by_another_card_of_the_same_chip_and_by_nothing_else() -> None:
    lent = error_band("torchtitan", load_hardware("dgx-h100").pool, 0.0)
    assert lent is not None
    assert lent.lender == "torchtitan on h100-96gb-hbm2e-500w"
    assert error_band("deepspeed", load_hardware("dgx-b200").pool, 0.0) is None


def test_lent_bands_are_as_much_wider_as_nine_of_ten_pairs_of_accelerators_need() -> None:
    bands: dict[str, list[float]] = {}
    for band in measured_bands().values():
        bands.setdefault(band.runtime, []).append(band.band)
    ratios = [one / other for mine in bands.values() for one, other in permutations(mine, 2)]
    assert len(ratios) == 30
    assert np.percentile(ratios, 90) == pytest.approx(ELSEWHERE_WIDER, abs=0.05)
