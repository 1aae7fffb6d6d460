"""Error bands: wider where nobody has calibrated, or where more is extrapolated; and honest on real runs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from planner.cost.estimate import estimate
from planner.inputs import bands as known_bands
from planner.inputs.bands import Asked, Band, error_band
from planner.inputs.hardware import Calibration, HardwareProfile, Pool
from planner.inputs.load_hardware import load_hardware
from planner.inputs.measured_bands import MeasuredBand
from planner.inputs.record import Sourced
from planner.plan import Plan
from planner.report.estimate_page import trust
from planner.runtimes import runtimes
from tests.lab import bands
from tests.lab.bands import SiteErrors, band_of, bands_of, calibrating, coverage
from tests.lab.lent_curves import lent_errors
from tests.unit.cost_jobs import job

CHIP = "a100-80gb-sxm"
KNOWN = MeasuredBand("megatron-lm", CHIP, "", 40, 0.06, 0.2, 3, 0.1, 38, 0.05, 0.15, tensor=0.05)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_bands, "measured_bands", lambda: {("megatron-lm", CHIP, ""): KNOWN})
    monkeypatch.setattr(known_bands, "release_bands", lambda: {(("megatron-lm", CHIP, ""), ""): KNOWN})
    monkeypatch.setattr(known_bands, "lent_error", lambda: 0.3)


@cache
def cluster() -> HardwareProfile:
    return load_hardware("dgx-a100-80gb")


def pool(**fields: object) -> Pool:
    return cluster().pool.model_copy(update=fields)


def sourced(value: float, standing: str = "fitted") -> Sourced:
    return Sourced(value, str(value), "runs.csv", standing)  # type: ignore[arg-type]


def band(place: Pool, runtime: str = "megatron-lm", extrapolated: float = 0.0) -> Band:
    found = error_band(runtime, place, extrapolated)
    assert found is not None
    return found


def test_a_site_that_nobody_calibrated_has_the_error_of_others_and_says_so() -> None:
    found = band(pool())
    assert found.share == 0.2
    assert "3 sites" in found.basis
    assert "this site never was" in found.basis


def test_a_few_runs_of_ones_own_narrow_it_to_that_of_calibrated_sites() -> None:
    own = Calibration(runs=1, runtimes=("megatron-lm",))
    found = band(pool(compute_share=sourced(0.9), calibration=own))
    assert found.share == 0.15
    assert "one other run of its site" in found.basis


def test_few_runs_that_the_fit_does_not_reach_widen_it() -> None:
    own = Calibration(runs=1, runtimes=("megatron-lm",), missed=sourced(0.28))
    found = band(pool(compute_share=sourced(0.9), calibration=own))
    assert found.share == 0.28
    assert "leaves of this site's own runs" in found.basis


def test_enough_runs_of_ones_own_say_it_themselves() -> None:
    own = Calibration(runs=12, runtimes=("megatron-lm",), band=sourced(0.07), extrapolated=sourced(0.1))
    found = band(pool(compute_share=sourced(0.9), calibration=own))
    assert found.share == 0.07
    assert "12 runs of this site's own" in found.basis


def test_runs_of_another_runtime_do_not_narrow_it() -> None:
    own = Calibration(runs=12, runtimes=("fsdp",), band=sourced(0.07))
    found = band(pool(compute_share=sourced(0.9), calibration=own))
    assert found.share == 0.2
    assert "only with fsdp" in found.basis


def test_a_share_that_somebody_only_states_is_no_calibration() -> None:
    assert band(pool(network_share=sourced(0.5, "user"))).share == 0.2
    assert band(pool(network_share=sourced(0.5, "fitted"))).share == 0.15


def test_more_extrapolation_than_the_runs_had_adds_the_error_of_unmeasured_curves() -> None:
    # 40% more than the 10% of the runs, at 30%: 12%, independent of 20%.
    found = band(pool(), extrapolated=0.5)
    assert found.share == pytest.approx((0.2**2 + 0.12**2) ** 0.5)
    assert "extrapolated" in found.basis
    assert band(pool(), extrapolated=0.1).share == 0.2


def test_more_waiting_for_tensor_parallelism_than_the_runs_had_adds_its_error() -> None:
    # 40% more than the 5% of the runs, at 60%: 24%, independent of 20%, and of 12% of curves.
    found = [error_band("megatron-lm", pool(), far, asked=Asked("", (), 0.45)) for far in (0.1, 0.5)]
    more = 0.24
    assert [one and one.share for one in found] == pytest.approx(
        [(0.2**2 + more**2) ** 0.5, (0.2**2 + more**2 + 0.12**2) ** 0.5]
    )
    assert found[0] is not None
    assert "more of this step waits for tensor parallelism" in found[0].basis
    less = error_band("megatron-lm", pool(), 0.1, asked=Asked("", (), 0.05))
    assert less is not None
    assert less.share == 0.2


def test_a_device_that_is_nearly_full_has_a_wider_band_and_says_so() -> None:
    full, free = (error_band("megatron-lm", pool(), 0.0, used) for used in (0.9, 0.8))
    assert full is not None
    assert free is not None
    assert (full.share, free.share) == (pytest.approx(1.3 * 0.2), 0.2)
    assert "nearly full" in full.basis
    assert error_band("nanotron", pool(), 0.0, 0.9) is None


def test_what_was_never_measured_has_no_band_unless_its_own_runs_give_one() -> None:
    own = Calibration(runs=12, runtimes=("nanotron",), band=sourced(0.07))
    assert error_band("nanotron", pool(), 0.0) is None
    assert band(pool(calibration=own), "nanotron").share == 0.07


def test_an_estimate_tells_its_band_and_why() -> None:
    answer = estimate(
        Plan(dp=8, num_microbatches=4), job(gpus=8, hardware="dgx-a100-80gb"), runtimes()["megatron-lm"]
    )
    assert answer.error_band == band(cluster().pool, extrapolated=answer.extrapolated_share).share
    (line,) = trust(answer)
    assert answer.band_basis in str(line)
    assert str(line).startswith(f"Error band: ± {100 * (answer.error_band or 0):.1f}%, from ")
    nothing = estimate(Plan(dp=8, num_microbatches=4), job(gpus=8), runtimes()["nanotron"])
    assert (nothing.error_band, nothing.band_basis) == (None, "")
    assert "never validated" in str(trust(nothing))


def test_too_few_runs_of_ones_own_where_there_are_no_others_are_told() -> None:
    own = Calibration(runs=3, runtimes=("megatron-lm",), missed=sourced(0.1))
    work = job(gpus=8)
    pools = (work.hardware.pool.model_copy(update={"calibration": own}),)
    place = work.hardware.model_copy(update={"pools": pools})
    plan = Plan(dp=8, num_microbatches=4)
    few = estimate(plan, replace(work, hardware=place), runtimes()["megatron-lm"])
    assert few.error_band is None
    assert "was measured by 3 runs of this site's own and no others; 9 layouts would tell it" in str(
        trust(few)
    )
    other = estimate(plan, replace(work, hardware=place), runtimes()["nanotron"])
    assert "nanotron on h100-80gb-sxm was never validated" in str(trust(other))


def test_every_run_is_calibrated_with_another_one() -> None:
    for count in range(2, 40):
        turns = calibrating(count)
        assert len(turns) == count
        assert all(turn != place for place, turn in enumerate(turns))
        assert len(set(turns)) <= bands.PICKS


def errors(*values: float, calibrated: tuple[float, ...] = ()) -> SiteErrors:
    half = np.full(len(values), 0.5)
    return SiteErrors(np.log1p(values), np.log1p(calibrated), half, (), half / 2)


def test_the_band_of_errors_is_what_nine_of_ten_stay_below() -> None:
    sites = {"a": errors(*np.linspace(-0.1, 0.09, 20)), "b": errors(0.1)}
    found = band_of(("r", "chip", ""), sites)
    # |x| of 21 values from -0.1 to 0.1: the 19th smallest of 0, 0.01, 0.01, ... 0.1, 0.1 is 0.09; but b's one
    # run, half of what counts where each site counts alike, is at 0.1.
    assert (found.runs, found.sites, found.band, found.extrapolated, found.tensor) == (21, 2, 0.1, 0.5, 0.25)
    assert band_of(("r", "chip", ""), {"a": sites["a"]}).band == 0.09
    assert found.calibrated_band is None


def test_few_runs_have_no_narrower_band_than_all_of_their_runtime() -> None:
    own, other = (SiteErrors(np.full(n, x), np.full(n, x), np.zeros(n)) for n, x in ((9, 0.01), (91, 0.2)))
    lonely, enough = np.expm1(0.01), np.expm1(0.2)
    assert band_of(("a", "b", ""), {"site": own}).band == pytest.approx(lonely, rel=0.01)
    assert band_of(("a", "b", ""), {"site": own}, [own, other]).band == pytest.approx(enough, rel=0.01)
    assert band_of(("a", "c", ""), {"site": other}, [own, other]).band == pytest.approx(enough, rel=0.01)
    assert band_of(("a", "b", "host"), {"site": own}, [own], [own, other]).band == pytest.approx(
        enough, rel=0.01
    )
    regime = {("megatron-lm", "b", "host"): {"many": other}, ("megatron-bridge", "b", "host"): {"few": own}}
    assert [band["band"] for band in bands_of(regime)] == [pytest.approx(enough, rel=0.01)] * 2


def test_a_site_is_covered_by_the_band_of_the_others_alone() -> None:
    sites = {"a": errors(0.1, 0.1, 0.1, 0.1, 0.1), "b": errors(0.05, -0.09, 0.2, 0.3), "c": errors(0.01)}
    # b within the others' 0.1: two of four. a within those of b and c, whose 90% lies near 0.3: all.
    assert coverage(("r", "chip"), sites, "elsewhere") == {"a": 1.0, "b": 0.5, "c": 1.0}
    assert coverage(("r", "chip"), sites, "calibrated") == {}


def test_the_error_of_borrowed_curves_is_that_of_known_pairs() -> None:
    found = lent_errors()
    # Nine accelerators with curves; H100 is the generic one, A100, L40S and B200 are their families' lenders.
    assert found["pairs"] == 12
    assert 0.05 < float(str(found["mean_error"])) < float(str(found["p90_error"])) < 0.5
