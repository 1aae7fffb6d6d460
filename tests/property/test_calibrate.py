"""A site's factors come back from runs that were made with them; few runs pin few, and none are made up."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from planner.calibrate.batches import predictions_with
from planner.calibrate.constants import WithConstants, shipped_values
from planner.calibrate.fit import Factor, fit, memory_log_errors
from planner.calibrate.pricing import Prediction
from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.conventions import Measured
from planner.calibrate.runs.defaults import PricedRun
from planner.calibrate.runs.table import read_runs
from planner.calibrate.sites import solve
from planner.calibrate.sites.doubts import doubts
from planner.calibrate.sites.file import as_json, base_file, cluster_yaml
from planner.calibrate.sites.fit import SHARES, SiteFit, fit_site, other_constants, runs_needed
from planner.calibrate.sites.runs import SiteRuns, site_runs
from planner.calibrate.sites.solve import SCATTER
from planner.calibrate.stages import neutral_values, stages
from planner.cli.calibrate import calibrate
from planner.cli.options import Format
from planner.errors import InputError
from planner.inputs.fitted import SHARE, all_constants
from planner.inputs.load_hardware import load_accelerator, load_hardware
from planner.runtimes import plain_runtimes, runtimes
from planner.runtimes.traits import Traits
from tests.cases import every

HEAD = (
    "id,source,gpu,gpus_per_node,num_gpus,framework,model,seq_len,tp,pp,cp,dp,zero,micro_batch,global_batch,"
    "recompute,precision,step_time_s,peak_mem_gib,memory_kind,oom,mark"
)
SITE = "dgx-a100-80gb"
MODEL = "llama2-7b"


def row(number: int, tp: int, dp: int, micro_batch: int, **more: object) -> str:
    """Return one line of a table: LLaMA 7B on A100 with Megatron-core and flash attention."""
    cells: dict[str, object] = {
        "id": f"r{number}", "source": "ours", "gpu": "a100-80gb-sxm", "gpus_per_node": 8, "num_gpus": tp * dp,
        "framework": "megatron-core", "model": MODEL, "seq_len": 4096, "tp": tp, "pp": 1, "cp": 1, "dp": dp,
        "zero": 1, "micro_batch": micro_batch, "global_batch": 4 * micro_batch * dp, "recompute": "none",
        "precision": "bf16", "step_time_s": 30,
    }  # fmt: skip
    cells |= more
    return ",".join(str(cells.get(name, "")) for name in HEAD.split(","))


LAYOUTS = tuple(
    row(number, tp, dp, micro_batch)
    for number, (tp, dp, micro_batch) in enumerate(
        [(1, 8, 1), (2, 4, 1), (4, 2, 1), (8, 1, 2), (1, 16, 1), (2, 16, 1), (4, 16, 2), (8, 8, 1),
         (8, 16, 1), (1, 64, 1), (2, 64, 1), (4, 32, 1)]
    )
)  # fmt: skip


def read(*lines: str) -> SiteRuns:
    table = read_runs([HEAD, *lines])
    return site_runs(table.rows, shipped_catalogue(), load_hardware(SITE))


def seconds(runs: Sequence[PricedRun], **shares: float) -> list[float]:
    """Return what the cost model says of runs at a site with these shares."""
    values = other_constants() | {("site", SITE, name): value for name, value in shares.items()}
    found = predictions_with(values)(runs)
    return [price.step_s for price in found if isinstance(price, Prediction)]


def made_with(site: SiteRuns, noise: float = 0.0, **shares: float) -> SiteRuns:
    """Return the runs as they would have been measured at a site with these shares."""
    scatter = np.exp(np.random.default_rng(1).normal(0, noise, len(site.runs)))
    times = np.array(seconds(site.runs, **shares)) * scatter
    runs = tuple(
        replace(run, measured=Measured(float(time), "step_time_s"))
        for run, time in zip(site.runs, times, strict=True)
    )
    return replace(site, runs=runs)


TRUTH = {"compute_share": 0.85, "scaleup_share": 0.5, "network_share": 0.4}


@cache
def fit_of_all_shares() -> SiteFit:
    """Return what is found of a site with all three shares."""
    return fit_site(made_with(read(*LAYOUTS), **TRUTH), load_hardware(SITE))


def of_compute(site: SiteRuns) -> SiteFit:
    """Return what is found of a site's kernels, where nobody asks for the errors of rows held out."""
    with mock.patch("planner.calibrate.sites.fit.held_out_errors", return_value=None):
        return fit_site(site, load_hardware(SITE), ["compute"])


@cache
def clean() -> tuple[SiteRuns, SiteFit]:
    """Return the runs of a site with slow kernels, and what is found of them."""
    site = made_with(read(*LAYOUTS), compute_share=0.85)
    return site, fit_site(site, load_hardware(SITE), ["compute"])


@cache
def nine_noisy() -> SiteFit:
    """Return what is found of nine of them with noise."""
    site = made_with(read(*LAYOUTS[:9]), noise=0.05, compute_share=0.85)
    return fit_site(site, load_hardware(SITE), ["compute"])


def test_the_shares_that_made_the_runs_come_back() -> None:
    result = fit_of_all_shares()
    found = {factor.field: factor.value for factor in result.factors}
    assert found.keys() == TRUTH.keys()
    assert found["compute_share"] == pytest.approx(0.85, rel=0.02)
    assert found["scaleup_share"] == pytest.approx(0.5, rel=0.15)
    assert found["network_share"] == pytest.approx(0.4, rel=0.15)
    # What the prior holds of shares that are 2 to 3 of its widths away.
    assert np.abs(result.after).max() < 0.015 < 0.1 < np.abs(result.before).mean()


def with_times(site: SiteRuns, factor: float) -> SiteRuns:
    """Return the runs with times that are all so many times those of the cost model."""
    times = factor * np.array(seconds(site.runs))
    pairs = zip(site.runs, times, strict=True)
    runs = tuple(replace(run, measured=Measured(float(time), "step_time_s")) for run, time in pairs)
    return replace(site, runs=runs)


@pytest.mark.parametrize(("factor", "words"), [(50.0, "50 times as slow"), (0.02, "50 times as fast")])
def test_runs_that_no_public_site_comes_near_are_told_by_row(factor: float, words: str) -> None:
    result = of_compute(with_times(read(*LAYOUTS[:3]), factor))
    rows = doubts(result)[-1]
    assert rows.startswith("3 of 3 runs are more than 2 times off")
    assert all(f"r{number}: {words}" in rows for number in range(3))


def test_a_share_that_no_public_site_comes_near_is_told() -> None:
    result = of_compute(with_times(read(*LAYOUTS[:3]), 1.05))
    assert doubts(result) == []
    (share,) = doubts(replace(result, factors=(replace(result.factors[0], value=0.6),)))
    assert share.startswith("compute 0.6 is far from what any public site shows, 0.88 to 1.07")


def test_one_odd_row_is_told_and_usual_ones_are_not() -> None:
    usual = with_times(read(*LAYOUTS), 1.05)
    assert doubts(of_compute(usual)) == []
    odd = with_times(read(LAYOUTS[0]), 3.0)
    mixed = replace(usual, runs=(*odd.runs, *usual.runs[1:]))
    (told,) = doubts(of_compute(mixed))
    assert told.startswith("1 of 12 runs is more than 2 times off")
    assert "(r0: 3 times as slow)" in told


def test_noise_shows_in_the_standard_errors_and_on_rows_held_out() -> None:
    site, plain = clean()
    noisy = fit_site(made_with(site, noise=0.05, compute_share=0.85), load_hardware(SITE), ["compute"])
    assert noisy.factors[0].standard_error > plain.factors[0].standard_error
    assert plain.held_out is not None
    assert noisy.held_out is not None
    assert np.abs(plain.held_out).max() < 0.01
    assert np.abs(noisy.held_out).mean() > np.abs(noisy.after).mean()


def test_a_single_run_pins_compute_against_what_is_known_before() -> None:
    # One accelerator, no messages: the time is nearly c / share, and the shares of most sites are within 10%.
    alone = read(row(1, 1, 1, 1))
    slow = replace(
        alone,
        runs=tuple(
            replace(run, measured=Measured(1.25 * time, "step_time_s"))
            for run, time in zip(alone.runs, seconds(alone.runs), strict=True)
        ),
    )
    result = fit_site(slow, load_hardware(SITE))
    (factor,) = result.factors
    slope = float(result.after[0] - result.before[0]) / math.log(factor.value)
    assert factor.name == "compute"
    assert -1 <= slope < -0.7
    # The value is where the pull of the prior and that of the run, by its robust weight, are equal.
    left = float(result.after[0])
    run = slope * left / SCATTER**2 / math.sqrt(1 + left**2 / (4 * SCATTER**2))
    prior = math.log(factor.value) / SHARES["compute"][1] ** 2
    assert run == pytest.approx(-prior, rel=0.05)
    assert -math.log(1.25) < left < -0.05
    assert result.held_out is None
    assert result.band is None
    assert set(result.left_out) == {"network", "scale-up"}


def test_a_single_run_that_is_far_off_still_pins_compute() -> None:
    site = read(row(0, 2, 4, 1, step_time_s=2 * seconds(read(row(0, 2, 4, 1)).runs)[0]))
    result = fit_site(site, load_hardware(SITE))
    assert [factor.name for factor in result.factors] == ["compute"]
    assert 0.4 < result.factors[0].value < 0.9


def test_few_runs_and_the_prior_share_a_factor_by_their_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two runs that are a log of 0.01 too fast, and whose logarithm falls with the share's, against a prior of
    # width w. Errors so small, of which one is free, make the scatter s^2 = 4 * 0.1^2 / 5: minimise
    # 2 (x + 0.01)^2 / s^2 + x^2 / w^2, so x = -0.01 / (1 + s^2 / (2 w^2)).
    key, width = ("site", "s", "compute_share"), 0.1
    monkeypatch.setattr(
        solve, "log_errors", lambda runs, values: np.full(len(runs), -0.01 - math.log(values[key]))
    )
    values, errors = solve.pinned([None, None], [Factor(key, 1.0, "share [-]", width)], {})  # type: ignore[list-item]
    spread2 = 4 * 0.1**2 / 5
    assert math.log(values[0]) == pytest.approx(-0.01 / (1 + spread2 / (2 * width**2)), rel=0.02)
    assert errors[0] == pytest.approx((2 / spread2 + 1 / width**2) ** -0.5, rel=0.02)


def test_a_run_that_fits_nothing_hardly_moves_what_the_others_say(monkeypatch: pytest.MonkeyPatch) -> None:
    key = ("site", "s", "compute_share")
    factor = Factor(key, 1.0, "share [-]", 0.1)

    def value_with(odd: float) -> float:
        measured = np.array([0.1] * 8 + [odd])
        monkeypatch.setattr(solve, "log_errors", lambda runs, values: -measured - math.log(values[key]))
        return math.log(solve.pinned([None] * 9, [factor], {})[0][0])  # type: ignore[list-item]

    assert value_with(0.1) == pytest.approx(-0.1, rel=0.1)
    # Least squares would be moved by 0.9 / 9.
    assert abs(value_with(1.0) - value_with(0.1)) < 0.05


def test_from_nine_runs_on_a_site_has_a_band_of_its_own() -> None:
    eight = made_with(read(*LAYOUTS[:8]), noise=0.05, compute_share=0.85)
    result = nine_noisy()
    assert result.held_out is not None
    # Of nine runs, the largest error: the chance that the next one stays below it is 9 in 10.
    assert result.band == pytest.approx(np.abs(np.expm1(result.held_out)).max())
    assert fit_site(eight, load_hardware(SITE), ["compute"]).band is None


def test_repeats_of_one_layout_say_nothing_of_others() -> None:
    """Twelve runs of one layout pin what one run pins, and give no band."""
    again = [row(number, 4, 2, 1) for number in range(12)]
    site = made_with(read(*again), scaleup_share=0.5)
    alone = fit_site(replace(site, runs=site.runs[:1]), load_hardware(SITE))
    result = fit_site(site, load_hardware(SITE))
    assert result.factors == alone.factors
    assert [factor.name for factor in result.factors] == ["compute"]
    assert (result.held_out, result.band, len(result.used)) == (None, None, 12)
    assert "of different layouts, there are 1" in result.left_out["scale-up"]
    with pytest.raises(InputError, match="2 factors, and different timed runs 1; expected 6 timed runs"):
        fit_site(site, load_hardware(SITE), ["compute", "scale-up"])


def test_repeats_are_held_out_together_and_the_worst_counts() -> None:
    site = made_with(read(*LAYOUTS[:9], row(9, 1, 8, 1)), noise=0.05, compute_share=0.85)
    result = fit_site(site, load_hardware(SITE), ["compute"])
    once = nine_noisy()
    assert result.held_out is not None
    assert once.held_out is not None
    assert len(result.held_out) == 10
    # Two measurements of one layout are off by what they differ in.
    times = [run.measured.seconds or 0 for run in (site.runs[0], site.runs[9])]
    assert result.held_out[9] - result.held_out[0] == pytest.approx(np.log(times[0] / times[1]))
    assert result.band == pytest.approx(np.abs(np.expm1(result.held_out)).max())


@every(("count", "asked", "needed"), [(1, "compute,network", 6), (8, "compute,network,scale-up", 9)])
def test_too_few_runs_for_what_is_asked_say_how_many(count: int, asked: str, needed: int) -> None:
    site = made_with(read(*LAYOUTS[:count]), compute_share=0.9)
    with pytest.raises(InputError, match=f"{needed} timed runs"):
        fit_site(site, load_hardware(SITE), asked.split(","))


def test_runs_inside_a_node_say_nothing_of_the_network() -> None:
    site = made_with(read(*LAYOUTS[:4]), compute_share=0.9)
    with pytest.raises(InputError, match="leave the scale-up domain"):
        fit_site(site, load_hardware(SITE), ["network"])
    assert "network" in fit_site(site, load_hardware(SITE)).left_out


def test_an_unknown_factor_names_the_nearest() -> None:
    with pytest.raises(InputError, match="nearest: network"):
        fit_site(made_with(read(*LAYOUTS[:4])), load_hardware(SITE), ["netwrk"])


def test_runs_needed_grow_with_the_factors() -> None:
    assert [runs_needed(count) for count in range(4)] == [1, 1, 6, 9]


def test_rows_of_other_accelerators_marked_rows_and_faults_are_told() -> None:
    site = read(
        LAYOUTS[0],
        row(20, 1, 8, 1, gpu="h100-80gb-sxm"),
        row(21, 1, 8, 1, mark="odd campaign"),
        row(22, 1, 8, 1, pp="two"),
        row(23, 2, 8, 1, num_gpus=8),
    )
    told = {skip.id: skip.reason for skip in site.skipped}
    assert [run.run.id for run in site.runs] == ["r0"]
    assert site.rows == 5
    assert "a100-80gb-sxm" in told["r20"]
    assert "odd campaign" in told["r21"]
    assert "column pp" in told["r22"]
    assert "num_gpus" in told["r23"]


def test_no_timed_run_is_wrong_input() -> None:
    with pytest.raises(InputError, match="none of them a timed run of this cluster"):
        fit_site(read(row(1, 1, 8, 1, step_time_s="", oom=1)), load_hardware(SITE))


def test_the_device_count_of_memory_gives_what_the_allocator_does_not_see() -> None:
    site = read(*LAYOUTS[:4])
    (price, *_) = predictions_with(other_constants())(site.runs)
    assert isinstance(price, Prediction)
    measured = price.total_gib - price.framework_gib + 5.0
    lines = [row(0, 1, 8, 1, peak_mem_gib=measured, memory_kind="device")]
    result = fit_site(made_with(read(*lines)), load_hardware(SITE))
    assert result.framework is not None
    assert result.framework.value_gib == pytest.approx(5.0, abs=0.001)
    assert result.framework.error_after < 1e-3 < result.framework.error_before


def test_a_fit_to_memory_finds_the_bytes_that_the_allocator_does_not_see() -> None:
    """Five GiB made the rows; the start is two."""
    lines, gib = [], 2.0**30
    for line, price in zip(
        LAYOUTS[:4], predictions_with(other_constants())(read(*LAYOUTS[:4]).runs), strict=True
    ):
        assert isinstance(price, Prediction)
        cells = dict(zip(HEAD.split(","), line.split(","), strict=True))
        cells |= {"peak_mem_gib": str(price.total_gib - price.framework_gib + 5.0), "memory_kind": "device"}
        lines.append(",".join(cells.values()))
    key = ("era", "megatron-lm", "framework_bytes")
    start = Factor(key, 2 * gib, "bytes", 1.0)
    found = fit(read(*lines).runs, [start], other_constants(), memory_log_errors)
    assert found.values[key] == pytest.approx(5 * gib, rel=0.01)
    assert found.error < 1e-3


def test_the_profile_loads_with_the_shares_and_their_source(tmp_path: Path) -> None:
    profile = load_hardware(SITE)
    result = fit_of_all_shares()
    path = tmp_path / "ours.yaml"
    path.write_text(cluster_yaml(base_file(SITE, profile), "ours", result, "runs.csv"), encoding="utf-8")
    loaded = load_hardware(str(path))
    share = loaded.pool.compute_share
    assert share is not None
    assert loaded.name == "ours"
    assert (share.standing, share.source[:9]) == ("fitted", "runs.csv:")
    assert float(share) == result.factors[0].value
    assert loaded.pool.node == profile.pool.node
    assert loaded.pool.network == profile.pool.network
    told = loaded.pool.calibration
    assert told is not None
    assert (told.runs, told.runtimes) == (12, ("megatron-lm",))
    assert float(told.band or 0) == pytest.approx(result.band, rel=1e-3)


def test_a_calibrated_profile_is_the_start_of_the_next_calibration(tmp_path: Path) -> None:
    profile = load_hardware(SITE)
    site, first = clean()
    path = tmp_path / "ours.yaml"
    path.write_text(cluster_yaml(base_file(SITE, profile), "ours", first, "runs.csv"), encoding="utf-8")
    ours = load_hardware(str(path))
    table = read_runs([HEAD, *LAYOUTS])
    again = site_runs(table.rows, shipped_catalogue(), ours)
    runs = tuple(replace(run, measured=old.measured) for run, old in zip(again.runs, site.runs, strict=True))
    second = fit_site(replace(again, runs=runs), ours, ["compute"])
    assert second.factors[0].start == first.factors[0].value
    assert second.factors[0].value == pytest.approx(first.factors[0].value, rel=0.02)
    assert np.abs(second.before).mean() < 0.02


def test_parts_beside_the_profile_are_found_from_elsewhere(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "wire.yaml").write_text(
        "name: wire\nkind: infiniband-hdr\nefficiency: {value: 0.7, source: here}\n"
        "latency: {value: 5 us, source: here}\n",
        encoding="utf-8",
    )
    (home / "mine.yaml").write_text(
        "name: mine\npools:\n- {accelerator: a100-80gb-sxm, node: dgx-a100-80gb, network: wire.yaml}\n",
        encoding="utf-8",
    )
    profile = load_hardware(str(home / "mine.yaml"))
    table = read_runs([HEAD, *LAYOUTS])
    site = site_runs(table.rows, shipped_catalogue(), profile)
    result = fit_site(replace(site, runs=made_with(site).runs), profile, ["compute"])
    out = tmp_path / "out.yaml"
    out.write_text(
        cluster_yaml(base_file(str(home / "mine.yaml"), profile), "out", result, "t"), encoding="utf-8"
    )
    assert load_hardware(str(out)).pool.network == profile.pool.network


def test_the_document_has_every_run_and_no_number_that_json_lacks() -> None:
    profile = load_hardware(SITE)
    document = as_json(fit_of_all_shares(), profile, "runs.csv", "x.yaml")
    text = json.dumps(document, allow_nan=False)
    assert document["schema"] == "planner/calibrate/1"
    assert len(json.loads(text)["per_row"]) == len(LAYOUTS) == document["used"]


@pytest.mark.parametrize("output", [Format.table, Format.json, Format.csv, Format.markdown])
def test_the_command_writes_a_profile_and_tells_the_errors(
    output: Format, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, out = tmp_path / "runs.csv", tmp_path / "ours.yaml"
    table.write_text(
        "\n".join([HEAD, row(1, 1, 8, 1, step_time_s=7), row(2, 2, 4, 1, step_time_s=4)]), "utf-8"
    )
    calibrate(table, SITE, out, factors="", force=False, output=output)
    printed = capsys.readouterr()
    assert "r1" in printed.out if output is Format.csv else "compute" in printed.out
    if output is Format.json:
        assert json.loads(printed.out)["step_time"]["held_out"]["n"] == 2
    assert load_hardware(str(out)).pool.compute_share is not None
    with pytest.raises(InputError, match="--force"):
        calibrate(table, SITE, out, factors="", force=False, output=output)


def test_no_profile_is_left_behind_by_a_refusal(tmp_path: Path) -> None:
    table, out = tmp_path / "runs.csv", tmp_path / "ours.yaml"
    table.write_text("\n".join([HEAD, LAYOUTS[0]]), "utf-8")
    with pytest.raises(InputError):
        calibrate(table, SITE, out, factors="compute,network", force=False, output=Format.table)
    assert list(tmp_path.iterdir()) == [table]


def test_kin_without_runs_take_the_mean_of_the_others() -> None:
    """A chip that no run is about goes with its kin; without kin it keeps its start."""
    site = made_with(read(*LAYOUTS), compute_share=0.8)
    key, other = ("site", SITE, "compute_share"), ("site", "elsewhere", "compute_share")

    def found(kin: str) -> float:
        factors = [Factor(key, 1.0, "", 1.0, kin), Factor(other, 1.0, "", 1.0, kin)]
        return fit(site.runs, factors, other_constants()).values[other]

    assert found("") == pytest.approx(1.0)
    assert found("chips") == pytest.approx(0.8, rel=0.02)


def test_constants_of_other_runs_give_an_accelerator_without_runs_the_share_of_its_kin() -> None:
    """What runs give its kin is what counts, not what ships."""
    values = {("accelerator", "h100-80gb-sxm", SHARE): 0.9, ("accelerator", "b300", SHARE): 0.8}
    shares = {
        name: WithConstants(values).device(load_accelerator(name)).get(SHARE)
        for name in ("h100-80gb-sxm", "h200-141gb", "gb200-186gb", "v100-32gb", "a100-80gb-sxm", "gaudi3")
    }
    assert shares.pop("gaudi3") == pytest.approx((0.9 * 0.8) ** (1 / 3))
    assert list(shares.values()) == [0.9, pytest.approx(0.9), pytest.approx(0.8), 1.0, None]
    assert WithConstants({}).device(load_accelerator("h200-141gb")) == {}


def test_a_fit_starts_from_runtimes_without_what_runs_gave_them_before() -> None:
    """Runs are priced with the shipped runtimes: a constant that is left out must not keep its value."""
    start = neutral_values(stages())
    fitted_before = {key for key in shipped_values() if key[0] in ("accelerator", "runtime")}
    assert fitted_before <= set(start)
    assert start["runtime", "torchtitan", "compute_derate"] == Traits().kernels.compute_derate == 1.0
    assert start["runtime", "deepspeed", "sharded_wait"] == Traits().data.sharded_wait == 0.0
    assert shipped_values()["runtime", "torchtitan", "compute_derate"] < 1.0


def test_messages_that_wait_for_the_host_or_hide_behind_compute_are_fitted_and_not_set() -> None:
    """What runs tell is a constant with its standard error, and not a number in a runtime's record."""
    fitted = {(entry.scope, entry.owner, entry.name): entry for entry in all_constants()}
    waits = fitted["runtime", "fsdp", "message_host_seconds"]
    hides = fitted["runtime", "megatron-bridge", "all_to_all_overlapped"]
    assert plain_runtimes()["fsdp"].traits.host.message_seconds == 0.0
    assert runtimes()["fsdp"].traits.host.message_seconds == waits.value
    assert runtimes()["megatron-lm"].traits.experts.all_to_all_overlapped == hides.value
    assert waits.standard_error < 0.3
    assert (waits.without or 0.0) > 0.045
    assert (hides.without or 0.0) > 0.08
