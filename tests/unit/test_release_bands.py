"""Bands by release and settings: of its own runs where there are enough, else of others and so much wider."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.calibrate.releases import named_runtime
from planner.cost.estimate import Estimate, estimate
from planner.inputs import bands as known_bands
from planner.inputs.bands import LENT_WIDER, UNSEEN_WIDER, Asked, Band, error_band
from planner.inputs.fitted import fitted_file
from planner.inputs.hardware import Calibration
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.measured_bands import MeasuredBand
from planner.inputs.record import Sourced
from planner.inputs.workload import Workload
from planner.inputs.yaml_file import read_yaml
from planner.plan import Plan
from planner.report.estimate_page import short_trust
from planner.runtimes.family import Job
from tests.lab.bands import SiteErrors, release_bands_of, release_coverage, source_coverage

CHIP = "a100-80gb-sxm"
KEY = ("megatron-lm", CHIP, "")
ALL = MeasuredBand(*KEY, 100, 0.06, 0.2, 3, 0.0, 99, 0.05, 0.15)
OWN = {"many": replace(ALL, runs=20, band=0.05), "few": replace(ALL, runs=19, band=0.05)}
OWN |= {
    "far": replace(ALL, runs=3, band=0.4, calibrated_band=None),
    "one site": replace(OWN["many"], sites=1),
}


@pytest.fixture
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {(KEY, era): replace(band, era=era) for era, band in OWN.items()}
    monkeypatch.setattr(known_bands, "measured_bands", lambda: {KEY: ALL})
    monkeypatch.setattr(known_bands, "release_bands", lambda: own)


def band(asked: Asked | None) -> Band:
    found = error_band("megatron-lm", load_hardware("dgx-a100-80gb").pool, 0.0, asked=asked)
    assert found is not None
    return found


@pytest.mark.usefixtures("_known")
def test_a_release_with_enough_runs_has_its_own_band_and_one_with_few_no_narrower_one_than_all() -> None:
    shares = {era: band(Asked(era)).share for era in OWN}
    # Halfway between its own 0.05 and the 0.2 of all: the root of their product.
    assert shares == pytest.approx({"many": 0.1, "few": 0.2, "far": 0.4, "one site": 0.2})
    assert "20 runs of megatron-lm (many) on a100-80gb-sxm" in band(Asked("many")).basis
    assert not band(Asked("many")).lender
    assert band(None).share == 0.2


@pytest.mark.usefixtures("_known")
def test_a_calibrated_site_has_the_band_of_calibrated_ones_whatever_its_release() -> None:
    pool = load_hardware("dgx-a100-80gb").pool
    own = Calibration(runs=1, runtimes=("megatron-lm",))
    share = Sourced(0.9, "0.9", "runs.csv", "fitted")
    site = pool.model_copy(update={"compute_share": share, "calibration": own})
    for era in ("far", "none"):
        found = error_band("megatron-lm", site, 0.0, asked=Asked(era))
        assert found is not None
        assert found.share == 0.15


@pytest.mark.usefixtures("_known")
def test_what_no_run_is_of_makes_it_wider_and_is_told() -> None:
    release, setting = band(Asked("none")), band(Asked("many", ["gradients fp32", "async_tp on"]))
    assert release.share == pytest.approx(0.2 * UNSEEN_WIDER)
    assert release.basis.endswith("1.2 times as wide since no run there is of this release")
    assert setting.share == pytest.approx(0.1 * UNSEEN_WIDER)
    assert setting.basis.endswith("since no run there has gradients fp32 or async_tp on")
    both = band(Asked("", ["gradients fp32"]))
    assert both.share == pytest.approx(0.2 * UNSEEN_WIDER**2)
    assert UNSEEN_WIDER**2 <= LENT_WIDER
    assert both.lender == "other releases and settings"


def priced(name: str, cluster: str, plan: Plan, **traits: object) -> Estimate:
    work = Workload(seq_len=4096, global_batch=64)
    hardware = load_hardware(cluster)
    runtime = named_runtime(name, hardware.pool.accelerator.name, "bf16").with_traits(**traits)
    return estimate(plan, Job(load_model("llama2-7b"), hardware, 8, work), runtime)


WHOLE = Plan(dp=8, num_microbatches=8, zero=1, zero_shards=8)
SPLIT = Plan(dp=4, tp=2, num_microbatches=16, zero=1, zero_shards=4, sequence_parallel=True)


def test_recipes_of_a_release_that_ran_are_known_better_than_files_that_did_not() -> None:
    """NeMo and Megatron-Bridge on H100: 42 runs of NeMo of 2025 at two sites, none of the newest release."""
    ran, new = (priced(f"megatron-bridge{name}", "dgx-h100", WHOLE) for name in ("@25.04", ""))
    assert "42 runs of megatron-bridge (nemo-2025) on h100-80gb-sxm at 2 sites" in ran.band_basis
    assert "since no run there is of this release, or has loss_kernel native" in new.band_basis
    assert ", from other releases and settings; memory" in short_trust(new)[0]
    assert (ran.error_band or 1.0) < (new.error_band or 0.0)


def test_a_setting_that_decides_nothing_of_a_plan_is_none_that_a_run_must_have() -> None:
    """Without tensor parallelism there are no messages to overlap."""
    alone, split = (
        priced("megatron-bridge", "dgx-b200", plan, tp_exposed=1.0).band_basis for plan in (WHOLE, SPLIT)
    )
    assert "gradients fp32" in alone
    assert "tp_overlap" not in alone
    assert "tp_overlap off" in split


def test_bands_by_release_hold_what_they_say_for_a_source_that_they_have_not_seen() -> None:
    """Nine of ten, less the standard error of a mean over few eras, 0.03, and more than one band for all."""
    told = read_yaml(fitted_file("release_bands"))["inside"]
    assert told["eras"] > 20
    assert told["by_release"] > max(0.9 - 0.03, told["one_band"])


def test_an_era_is_held_against_the_runs_of_other_sites() -> None:
    far, near = np.log1p(np.full(20, 0.2)), np.log1p(np.full(20, 0.1))
    site = np.log1p(np.array([0.05, 0.19, 0.21, 0.24, 0.3]))
    found = {
        KEY: {
            "far": SiteErrors(far, far, np.zeros(20), ("old",) * 20),
            "near": SiteErrors(near[:10], near[:10], np.zeros(10), ("new",) * 10),
            "next": SiteErrors(near[10:], near[10:], np.zeros(10), ("new",) * 10),
            "site": SiteErrors(site, site, np.zeros(5), ("new",) * 4 + ("other",)),
        }
    }
    # 90% of all three others: 0.2, of a fourth 0.231. "new" has 20 runs at two sites, all at 0.1: of
    # a third 0.122, and 0.168 halfway; "other" has none: 0.277.
    assert {era: share for (_, era), share in release_coverage(found, False).items()} == {
        "old": 1.0, "new": 23 / 24, "other": 0.0,
    }  # fmt: skip
    assert {era: share for (_, era), share in release_coverage(found, True).items()} == {
        "old": 1.0, "new": 21 / 24, "other": 0.0,
    }  # fmt: skip
    assert source_coverage(found) == {"far": 1.0, "near": 1.0, "next": 1.0, "site": 1 / 5}
    entries = {str(entry["era"]): entry for entry in release_bands_of(found)}
    assert [(era, entry["runs"], entry["sites"]) for era, entry in entries.items()] == [
        ("new", 24, 3), ("old", 20, 1), ("other", 1, 1),
    ]  # fmt: skip
    assert entries["old"]["band"] == pytest.approx(0.2)
