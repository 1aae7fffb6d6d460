"""Kernel curves: an accelerator's own as fitted, a relative's as shares of its own peaks, all marked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from planner.errors import InputError
from planner.formulas.attention import attention_extrapolated
from planner.formulas.gemm import gemm_extrapolated, gemm_seconds
from planner.inputs.kernels import load_kernels
from planner.inputs.load_hardware import (
    accelerator_names,
    hardware_folder,
    load_accelerator,
    load_hardware,
    with_fitted,
)
from planner.inputs.yaml_file import read_yaml
from tests.cases import every


@every("name", accelerator_names())
def test_every_accelerator_has_curves_for_each_peak(name: str) -> None:
    part = load_accelerator(name)
    kernels = part.kernels
    assert {"bf16", "fp16"} <= set(kernels.gemm) == set(kernels.experts)
    assert ("fp8" in kernels.gemm) == ("fp8" in part.peak)
    assert ("nvfp4" in kernels.gemm) == ("nvfp4" in part.peak)
    widest = max(float(peak) for peak in part.peak.values())
    assert all(0 < curve.rate <= widest for curve in kernels.gemm.values())
    assert 0 < kernels.memory_bandwidth < part.memory_bandwidth
    assert kernels.attention_for(128).rate < widest


def test_own_curves_keep_their_measured_range() -> None:
    curve = load_accelerator("h100-80gb-sxm").kernels.gemm["bf16"]
    assert gemm_extrapolated(8192.0, 8192.0, 8192.0, curve) == 0.0
    assert gemm_extrapolated(8.0, 8192.0, 8192.0, curve) == 1.0


def test_casts_to_blocks_of_32_last_as_long_as_those_with_a_scale_for_the_tensor() -> None:
    kernels = load_accelerator("gb200").kernels.gemm
    stated = read_yaml(hardware_folder() / "curves" / "gb200-186gb.yaml")["gemm"]
    assert f"{kernels['mxfp8'].quantisation_bytes} B" == stated["fp8"]["quantisation_bytes"]
    assert f"{kernels['fp8_block'].quantisation_bytes} B" == stated["fp8_block"]["quantisation_bytes"]
    assert kernels["mxfp8"].rate == kernels["fp8_block"].rate


def test_borrowed_curves_are_always_extrapolated() -> None:
    for name in ("v100-32gb", "mi300x-192gb", "h100-96gb-hbm2e-500w", "tpu-v5p"):
        kernels = load_accelerator(name).kernels
        assert gemm_extrapolated(8192.0, 8192.0, 8192.0, kernels.gemm["bf16"]) == 1.0
        assert attention_extrapolated(4096.0, kernels.attention_for(128)) == 1.0


def test_borrowed_rates_are_shares_of_the_own_peak() -> None:
    lender = load_accelerator("a100-80gb-sxm").kernels.gemm["bf16"]
    borrower = load_accelerator("rtx-a5000").kernels.gemm["bf16"]
    assert borrower.rate / 111.1e12 == pytest.approx(lender.rate / 312e12)
    assert borrower.bandwidth / 768e9 == pytest.approx(lender.bandwidth / 2.039e12)


def test_a_changed_accelerator_borrows_from_its_base(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    parts = "accelerator: {base: h200, name: capped, power: 500 W}, node: dgx-h100"
    path.write_text(f"name: mine\npools:\n  - {{{parts}}}\n", encoding="utf-8")
    changed = load_hardware(str(path)).pool.accelerator
    assert changed.curves == "h200-141gb"
    assert changed.kernels.gemm["bf16"].rate == load_accelerator("h200").kernels.gemm["bf16"].rate


def test_a_measured_ceiling_moves_borrowed_rates() -> None:
    part = load_accelerator("mi300x-192gb")
    unmeasured = part.model_copy(update={"matmul_efficiency": None})
    assert load_kernels(part).gemm["bf16"].rate < 0.8 * load_kernels(unmeasured).gemm["bf16"].rate


@every(
    ("name", "lender", "share"),
    # Fitted and measured: 0.6734 and 0.743 of an L40S's peak, 0.844 and 0.869 of an A100's.
    [("rtx-4090", "l40s", 0.6734 * 0.999 / 0.743), ("rtx-3090", "a100-80gb-sxm", 0.844 / 0.869)],
)
def test_a_card_with_power_to_spare_holds_what_its_products_were_measured_at(
    name: str, lender: str, share: float
) -> None:
    """450 W for 165 TFLOP/s is 2.8 times an L40S's, 350 W for 71 is 3.8 times an A100's: half the rate."""
    part = load_accelerator(name)
    burst, hours = (load_kernels(part, sustained=lasting).gemm["bf16"].rate for lasting in (False, True))
    assert hours == burst
    assert burst / part.peak["bf16"] == pytest.approx(share, rel=0.01)
    lent = load_accelerator(lender)
    assert load_kernels(lent, sustained=False).gemm["bf16"].rate > lent.kernels.gemm["bf16"].rate


@every(
    ("name", "lender", "share"),
    # 500 and 700 W for 989 TFLOP/s; 72 W for 121 against 350 W for 362; more for each FLOP than the lender's.
    [
        ("h100-96gb-hbm2e-500w", "h100-80gb-sxm", 0.8452),
        ("l4", "l40s", 0.7845),
        ("rtx-a5000", "a100-80gb-sxm", 1.0),
    ],
)
def test_less_power_for_each_flop_holds_less_of_the_peak(name: str, lender: str, share: float) -> None:
    own, lent = load_accelerator(name), load_accelerator(lender)
    rate = own.kernels.gemm["bf16"].rate / own.peak["bf16"]
    assert rate / (lent.kernels.gemm["bf16"].rate / lent.peak["bf16"]) == pytest.approx(share, abs=1e-4)
    fast, slow = own.kernels.attention_for(128).rate, lent.kernels.attention_for(128).rate
    assert fast / own.peak["bf16"] / (slow / lent.peak["bf16"]) == pytest.approx(share, abs=1e-4)


def test_a_device_without_a_stated_power_holds_what_its_lender_does() -> None:
    part = load_accelerator("l4").model_copy(update={"power": None})
    lender = load_accelerator("l40s")
    assert part.kernels.gemm["bf16"].rate / 121e12 == pytest.approx(lender.kernels.gemm["bf16"].rate / 362e12)


def test_an_accelerator_without_runs_takes_the_share_of_its_kin() -> None:
    """Those of its architecture, of the one whose curves it borrows, or all."""
    shares = {
        name: float(load_hardware(name).pool.accelerator.training_share or 1.0)
        for name in ("dgx-h100", "dgx-b200", "dgx-b300", "gb200-nvl72", "gb300-nvl72")
    }
    blackwell = np.prod([share for name, share in shares.items() if name != "dgx-h100"]) ** (1 / 4)
    every = np.prod(list(shares.values())) ** (1 / 6)
    kin = {
        "dgx-h200": shares["dgx-h100"],
        "grand-teton-h100": shares["dgx-h100"],
        "vera-rubin-nvl72": blackwell,
        "dgx-1-v100": 1.0,
        "mi300x-8": every,
    }
    for name, share in kin.items():
        found = load_hardware(name).pool.accelerator.training_share
        assert found is not None
        assert found.standing == "estimated"
        assert found == pytest.approx(share, abs=1e-4)
    assert load_hardware("dgx-a100-80gb").pool.accelerator.training_share is None


def test_what_a_file_says_of_training_comes_before_the_share_of_its_kin() -> None:
    stated = {"name": "mine", "arch": "cdna3", "training_share": {"value": "0.7"}}
    assert with_fitted(stated) == stated


def test_short_benchmarks_run_faster_than_hours_of_work() -> None:
    part = load_accelerator("b200-180gb")
    burst, sustained = load_kernels(part, sustained=False), load_kernels(part)
    assert burst.gemm["bf16"].rate > 1.05 * sustained.gemm["bf16"].rate


def test_a_large_product_on_h100_takes_what_was_measured() -> None:
    # 2 * 8192^3 FLOP at the 700 to 800 TFLOP/s that public benchmarks of H100 report.
    seconds = gemm_seconds(8192.0, 8192.0, 8192.0, load_accelerator("h100").kernels.gemm["bf16"])
    assert 2 * 8192**3 / 800e12 < seconds < 2 * 8192**3 / 600e12


def test_scalar_and_column_agree_bit_for_bit() -> None:
    curve = load_accelerator("rtx-4090").kernels.gemm["bf16"]
    sizes = np.array([512.0, 4096.0, 12288.0])
    column = gemm_seconds(sizes, 4096.0, 4096.0, curve)
    assert [gemm_seconds(size, 4096.0, 4096.0, curve) for size in sizes.tolist()] == column.tolist()


@every("text", ["gemm: {}\n", "gemm: 3\n", "accelerator: x\ndatasheet: {bandwidth: 3}\n"])
def test_a_curve_file_that_is_wrong_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "curves.yaml"
    path.write_text(text, encoding="utf-8")
    part = load_accelerator("h100").model_copy(update={"curves": str(path)})
    with pytest.raises(InputError, match=r"curves\.yaml"):
        load_kernels(part)


def test_a_missing_curve_file_is_told(tmp_path: Path) -> None:
    part = load_accelerator("h100").model_copy(update={"curves": str(tmp_path / "none.yaml")})
    with pytest.raises(InputError, match="no such file"):
        load_kernels(part)


def own_curves(folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Write a copy of H100's curves with a change, and return its file."""
    raw = read_yaml(hardware_folder("curves") / "h100-80gb-sxm.yaml")
    change(raw)
    path = folder / "own.curves.yaml"
    path.write_text(yaml.safe_dump(raw), encoding="utf-8")
    return path


def test_a_measured_fp16_curve_prices_fp16_and_bf16_keeps_its_own(tmp_path: Path) -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["gemm"]["fp16"] = raw["gemm"]["bf16"] | {"efficiency": "0.4"}

    part = load_accelerator("h100").model_copy(update={"curves": str(own_curves(tmp_path, change))})
    bf16, fp16 = part.kernels.gemm["bf16"], part.kernels.gemm["fp16"]
    # Efficiencies of 0.4 and 0.829 of the same 989 TFLOP/s.
    assert fp16.rate / bf16.rate == pytest.approx(0.4 / 0.829)
    assert bf16.rate == load_accelerator("h100").kernels.gemm["bf16"].rate
    assert fp16.m_range == bf16.m_range


def test_without_a_curve_of_its_own_fp16_is_that_of_bf16_and_measured() -> None:
    kernels = load_accelerator("h100").kernels
    assert kernels.gemm["fp16"] == kernels.gemm["bf16"]
    assert gemm_extrapolated(8192.0, 8192.0, 8192.0, kernels.gemm["fp16"]) == 0.0


def test_memory_bound_operators_measured_by_themselves_have_their_own_rate(tmp_path: Path) -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["memory_bound"]["operators"] = {"norm": {"efficiency": "0.5", "launch": "7 us"}}

    part = load_accelerator("h100").model_copy(update={"curves": str(own_curves(tmp_path, change))})
    norm, rotary = part.kernels.stream_for("norm_0"), part.kernels.stream_for("rotary")
    assert (norm.bandwidth, norm.launch) == (0.5 * 3.35e12, 7e-6)
    # Not measured by itself: 0.85 of the bandwidth and 3 us, as all of them together.
    assert (rotary.bandwidth, rotary.launch) == (0.85 * 3.35e12, 3e-6)


def test_curves_beside_a_profile_are_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    own_curves(home, lambda raw: raw["gemm"]["bf16"].update(efficiency="0.4"))
    (home / "chip.yaml").write_text(
        (hardware_folder("accelerators") / "h100-80gb-sxm.yaml").read_text("utf-8")
        + "\ncurves: own.curves.yaml\n",
        encoding="utf-8",
    )
    profile = "name: {}\npools:\n  - {{accelerator: {}, node: dgx-h100}}\n"
    (home / "named.yaml").write_text(profile.format("named", "chip.yaml"), encoding="utf-8")
    inline = "{base: h100, name: mine, curves: own.curves.yaml}"
    (home / "inline.yaml").write_text(profile.format("inline", inline), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    shipped = load_accelerator("h100").kernels.gemm["bf16"].rate
    parts = [load_hardware(str(home / name)).pool.accelerator for name in ("named.yaml", "inline.yaml")]
    for part in (*parts, load_accelerator(str(home / "chip.yaml"))):
        assert part.kernels.gemm["bf16"].rate == pytest.approx(shipped * 0.4 / 0.829)
