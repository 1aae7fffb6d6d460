"""The fits: known constants come back, held-out rows are held out, the files are well formed."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from planner.calibrate.kernels.attention import fit_attention
from planner.calibrate.kernels.attention import model_of as attention_model
from planner.calibrate.kernels.fit import (
    Columns,
    Free,
    fit,
    folds,
    held_out_errors,
    naive_error,
    rounded,
    solve,
)
from planner.calibrate.kernels.gemm import ABSENT, split_launch, sustained_ratio
from planner.calibrate.kernels.gemm import model_of as gemm_model
from planner.calibrate.kernels.residuals import residual_fields, with_residuals
from planner.calibrate.kernels.tables import DATASHEETS
from planner.errors import InputError
from planner.formulas.collective_curves import BUS_FACTOR
from planner.inputs.curves import attention_curve, expert_curve, gemm_curve, unfused_attention
from planner.units import parse
from tests.cases import every
from tests.helpers import ROOT
from tests.lab.kernels import __main__ as command
from tests.lab.kernels import files
from tests.lab.kernels.experts import skew
from tests.lab.kernels.files import collectives_entries, rows
from tests.lab.kernels.gemm import backend_of as gemm_backend
from tests.lab.kernels.gemm import fit_gemm
from tests.lab.kernels.page import with_tables

CURVES = sorted((ROOT / "hardware_profiles/curves").glob("*.yaml"))

H100 = DATASHEETS["h100-80gb-sxm"]


def table_of(shapes: Mapping[str, Any], seconds: Any, **others: str) -> list[dict[str, str]]:
    """Write shapes and times as rows of a kernel table."""
    names = list(shapes)
    lines = zip(*shapes.values(), seconds, strict=True)
    return [
        {name: str(value) for name, value in zip(names, line, strict=False)}
        | {"time_us": repr(float(line[-1]) * 1e6)}
        | others
        for line in lines
    ]


def gemm_shapes() -> dict[str, Any]:
    draw = np.random.default_rng(1)
    sizes = np.array([256, 512, 1024, 1536, 2560, 4096, 8192, 16384])
    return {name: draw.choice(sizes, 400) for name in ("m", "n", "k")}


def floats(shapes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(column, dtype=float) for name, column in shapes.items()}


def test_a_line_is_recovered_and_an_outlier_does_not_pull() -> None:
    size = np.linspace(1, 50, 50)
    seconds = 3e-6 + 2e-6 * size
    seconds[10] *= 5

    def line(values: Mapping[str, float], shape: Columns) -> Any:
        return values["start"] + values["slope"] * shape["size"]

    free = [Free("start", 1e-6, 0, 1), Free("slope", 1e-6, 0, 1)]
    found = solve(line, free, {}, {"size": size, "seconds": seconds})
    assert found == pytest.approx({"start": 3e-6, "slope": 2e-6}, rel=0.01)


def test_held_out_rows_are_not_fitted() -> None:
    """A constant for each shape would fit all rows; held out, it knows nothing of them."""
    size = np.arange(1.0, 41.0)
    data = {"size": size, "seconds": 1e-6 * np.where(folds({"size": size, "seconds": size}) == 0, 9.0, 1.0)}

    def constant(values: Mapping[str, float], shape: Columns) -> Any:
        return values["time"] * np.ones_like(shape["size"])

    errors = held_out_errors(constant, [Free("time", 1e-6, 0, 1)], {}, data)
    outside = int((data["seconds"] > 2e-6).sum())
    # Fold 0 is priced from the others: 1 us for 9 us.
    assert errors[:outside] == pytest.approx(1 - 1 / 9, rel=0.05)


def test_folds_follow_the_shape_alone() -> None:
    shape = {"m": np.arange(100.0), "seconds": np.ones(100)}
    again = {"m": np.arange(100.0), "seconds": np.full(100, 7.0)}
    assert folds(shape).tolist() == folds(again).tolist()
    assert set(folds(shape).tolist()) == {0, 1, 2, 3, 4}


def test_naive_error_by_hand() -> None:
    # Rates 1, 1 and 2: the median is 1, and the third row is off by all of its time.
    data = {"seconds": np.array([1.0, 1.0, 1.0])}
    assert naive_error(data, np.array([1.0, 1.0, 2.0])) == pytest.approx(1 / 3)


def test_rounding_drops_what_is_as_good_as_nothing() -> None:
    assert rounded(123.456, 100.0) == 123.5
    assert rounded(1e-12, 100.0) == 0.0


@pytest.mark.parametrize(
    "known",
    [
        {"half_mn": 40.0, "wave_weight": 0.0},
        {"half_mn": 0.0, "wave_weight": 0.6},
    ],
    ids=["smooth", "waves"],
)
def test_known_products_are_recovered(known: dict[str, float]) -> None:
    truth = ABSENT | known
    truth |= {"efficiency": 0.75, "half_k": 150.0, "launch": 3e-6, "memory_efficiency": 0.8, "droop": 0.15}
    shapes = gemm_shapes()
    table = table_of(shapes, gemm_model("bf16", H100)(truth, floats(shapes)))
    fitted = fit_gemm(table, "bf16", H100)
    assert fitted.mean_error < 0.002
    for name in (
        "efficiency",
        "half_k",
        "launch",
        "memory_efficiency",
        *(key for key in known if known[key]),
    ):
        assert fitted.values[name] == pytest.approx(truth[name], rel=0.05), name


def test_quantisation_is_told_from_the_rate() -> None:
    base = ABSENT | {"efficiency": 0.8, "half_k": 100.0, "launch": 3e-6, "half_mn": 10.0}
    base |= {"memory_efficiency": 0.7, "droop": 0.1}
    truth = base | {"efficiency": 0.6, "half_k": 300.0, "launch": 12e-6, "quantisation_bytes": 6.0}
    shapes = gemm_shapes()
    table = table_of(shapes, gemm_model("fp8", H100)(truth, floats(shapes)))
    fitted = fit_gemm(table, "fp8", H100, base)
    assert fitted.values["quantisation_bytes"] == pytest.approx(6.0, rel=0.05)
    assert fitted.values["efficiency"] == pytest.approx(0.6, rel=0.02)
    assert fitted.values["launch"] == 3e-6
    assert fitted.values["quantisation_launch"] == pytest.approx(9e-6, rel=0.05)


def test_launch_below_the_product_leaves_nothing_to_quantise() -> None:
    assert split_launch({"launch": 2e-6}, 3e-6) == {"launch": 2e-6, "quantisation_launch": 0.0}


def test_sustained_ratio_is_recovered() -> None:
    values = ABSENT | {"efficiency": 0.8, "half_k": 100.0, "launch": 3e-6, "half_mn": 10.0}
    values |= {"memory_efficiency": 0.7, "droop": 0.1}
    shapes = gemm_shapes()
    slow = values | {"efficiency": 0.8 * 0.87, "droop": 0.0}
    table = table_of(shapes, gemm_model("bf16", H100)(slow, floats(shapes)))
    ratio, error = sustained_ratio(table, "bf16", H100, values)
    assert (ratio, error) == (pytest.approx(0.87, abs=0.002), pytest.approx(0, abs=0.002))


def test_known_attention_is_recovered() -> None:
    truth = {"efficiency": 0.6, "half_keys": 300.0, "half_queries_per_multiprocessor": 50.0, "launch": 1e-5}
    truth["shared_half_keys"] = 250.0
    draw = np.random.default_rng(2)
    shapes = {
        "batch": draw.choice([1, 2, 4, 8], 200),
        "heads": draw.choice([8, 16, 32], 200),
        "seq": draw.choice([1024, 2048, 4096, 16384], 200),
        "head_dim": np.full(200, 128),
        "kv_heads": draw.choice([1, 4, 8], 200),
    }
    seconds = attention_model("bf16", H100)(truth | {"droop": 0.16}, floats(shapes))
    fitted = fit_attention(table_of(shapes, seconds), "bf16", H100, droop=0.16)
    assert fitted.values == pytest.approx(truth | {"droop": 0.16}, rel=0.03)


def test_a_table_without_heads_of_their_own_keys_borrows_what_they_take() -> None:
    draw = np.random.default_rng(3)
    shapes = {
        "batch": draw.choice([1, 2, 4, 8], 100),
        "heads": np.full(100, 32),
        "seq": draw.choice([1024, 2048, 4096, 16384], 100),
        "head_dim": np.full(100, 64),
        "kv_heads": draw.choice([4, 8], 100),
    }
    truth = {"efficiency": 0.5, "half_keys": 300.0, "half_queries_per_multiprocessor": 50.0, "launch": 1e-5}
    known = {"droop": 0.0, "shared_half_keys": 400.0}
    seconds = attention_model("bf16", H100)(truth | known, floats(shapes))
    fitted = fit_attention(table_of(shapes, seconds), "bf16", H100, droop=0.0, shared_half_keys=400.0)
    assert fitted.values["shared_half_keys"] == 400.0
    assert fitted.values["half_keys"] == pytest.approx(300, rel=0.03)


def test_known_collective_is_recovered() -> None:
    sizes = 2.0 ** np.arange(10, 30)
    wire = 2 * 3 / 4 * sizes / 300e9
    seconds = 12e-6 + wire + np.sqrt(20e-6 * wire)
    shapes = {"bytes": sizes.astype(int), "ranks": np.full(20, 4)}
    table = table_of(shapes, seconds, op="all_reduce", impl="nccl", dtype="fp16", source="nccl-0")
    (operation,) = collectives_entries(table)["nccl"].values()
    entry = operation["ranks"]["4"]  # type: ignore[index]
    times = [parse(entry[name], "s") for name in ("launch", "ramp")]
    assert times == pytest.approx([12e-6, 20e-6], rel=0.02)
    assert parse(entry["bandwidth"], "byte/s") == pytest.approx(300e9, rel=0.02)


def test_skew_is_the_median_ratio() -> None:
    shapes = {name: [1, 2, 3] for name in ("tokens", "hidden", "inter", "topk", "experts", "etp")}
    shapes["ep"] = [8, 8, 8]
    balanced = table_of(shapes, [1.0, 1.0, 1.0], distribution="balanced")
    skewed = table_of(shapes, [1.5, 2.0, 9.0], distribution="power_law_1.2")
    assert skew(balanced + skewed) == {"8": "2"}


def test_backends_are_never_mixed() -> None:
    table = (
        [{"source": "trtllm-1.3.0rc20"}] * 3 + [{"source": "sglang-0.5.10"}] * 2 + [{"source": "other"}] * 9
    )
    assert gemm_backend(table) == "trtllm-1.3.0rc20"
    with pytest.raises(ValueError, match="no rows of"):
        gemm_backend([{"source": "other"}])


def test_a_missing_table_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gemm\.csv"):
        rows(tmp_path, "gemm")


def test_the_command_writes_the_same_bytes_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole run on a small made-up accelerator, end to end."""
    monkeypatch.setattr(files, "DATASHEETS", {"h100-80gb-sxm": H100})
    truth = ABSENT | {"efficiency": 0.8, "half_k": 100.0, "half_mn": 10.0, "launch": 3e-6}
    truth |= {"memory_efficiency": 0.7, "droop": 0.1}
    shapes = {name: column[:80] for name, column in gemm_shapes().items()}
    gemm = table_of(
        shapes, gemm_model("bf16", H100)(truth, floats(shapes)), gpu="h100-80gb-sxm", dtype="bf16"
    )
    written = {"gemm": [row | {"source": "trtllm-1.3.0rc20"} for row in gemm]}
    for name in command.TABLES:
        own = written.get(name, [{"gpu": "other", "dtype": "", "impl": ""}])
        with (tmp_path / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(own[0]))
            writer.writeheader()
            writer.writerows(own)
    outputs = []
    for folder in ("one", "two"):
        assert command.main([str(tmp_path), "--out", str(tmp_path / folder)]) == 0
        outputs.append((tmp_path / folder / "h100-80gb-sxm.yaml").read_bytes())
    assert outputs[0] == outputs[1]
    assert yaml.safe_load(outputs[0])["gemm"]["bf16"]["efficiency"].startswith("0.8")


def entries(content: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each fitted entry of a curve file, with its place."""
    for family in ("gemm", "experts"):
        yield from ((f"{family}.{dtype}", entry) for dtype, entry in content[family].items())
    for dtype, heads in content["attention"].items():
        yield from ((f"attention.{dtype}.{head_dim}", entry) for head_dim, entry in heads.items())
    for operation, entry in content["collectives"]["nccl"].items():
        yield from ((f"{operation}.{n}", entry | at) for n, at in entry["ranks"].items())


def test_every_accelerator_has_a_file() -> None:
    assert [path.stem for path in CURVES] == sorted(DATASHEETS)


@every("path", CURVES, ids=lambda path: path.stem)
def test_files_say_source_licence_range_and_error(path: Path) -> None:
    content = yaml.safe_load(path.read_text("utf-8"))
    assert content["accelerator"] == path.stem
    assert content["source"].startswith("https://")
    assert content["datasheet"]["source"].startswith("https://")
    assert "Apache-2.0" in content["licence"]
    for place, entry in entries(content):
        assert entry["standing"] == "fitted", place
        assert entry["rows"] >= 12, place
        assert entry["backend"], place
        assert all(low < high for low, high in entry["range"].values()), place
        mean, p90, held_out = (parse(entry[f"{name}_error"], "-") for name in ("mean", "p90", "held_out"))
        assert 0 < mean < 0.2, place
        assert p90 < 0.55, place
        assert held_out < mean + 0.1, place
    for place in ("unfused_attention", "memory_bound"):
        assert content[place]["standing"] == "literature"
        assert content[place]["source"].startswith("https://")


@every("path", CURVES, ids=lambda path: path.stem)
def test_files_become_curves(path: Path) -> None:
    """Every entry resolves, and no rate is above the dense peak."""
    content = yaml.safe_load(path.read_text("utf-8"))
    sheet = content["datasheet"]
    bandwidth, units = parse(sheet["bandwidth"], "byte/s"), parse(sheet["multiprocessors"], "-")
    peaks = {dtype: parse(sheet[f"{dtype}_peak"], "FLOP/s") for dtype in content["gemm"]}
    dense = {
        dtype: gemm_curve(entry, peaks[dtype], bandwidth, units) for dtype, entry in content["gemm"].items()
    }
    assert all(0 < curve.rate <= peaks[dtype] for dtype, curve in dense.items())
    assert all(0 < curve.bandwidth <= bandwidth for curve in dense.values())
    for dtype, heads in content["attention"].items():
        for entry in heads.values():
            curve = attention_curve(entry, peaks[dtype], units)
            assert 0 < curve.rate <= peaks[dtype]
            assert 0 < curve.backward_rate <= peaks[dtype]
    for dtype, entry in content["experts"].items():
        assert 0 < expert_curve(entry, dense[dtype], bandwidth).bandwidth <= bandwidth
    for operation, entry in content["collectives"]["nccl"].items():
        assert operation in BUS_FACTOR
        assert list(entry["ranks"])[:2] == ["2", "4"]
        assert all(0 < parse(one["bandwidth"], "byte/s") < 1e12 for one in entry["ranks"].values())
    assert unfused_attention(content["unfused_attention"], peaks["bf16"], bandwidth, True).rate > 0


@every("path", CURVES, ids=lambda path: path.stem)
def test_curves_beat_a_constant_rate(path: Path) -> None:
    content = yaml.safe_load(path.read_text("utf-8"))
    for place, entry in entries(content):
        assert parse(entry["held_out_error"], "-") < parse(entry["naive_error"], "-"), place


def test_datasheet_figures_stay_as_cited() -> None:
    # H100 SXM5: 989 TFLOP/s bf16 and 1979 TFLOP/s fp8 dense, 3.35 TB/s, 132 multiprocessors.
    assert (H100.peaks["bf16"], H100.peaks["fp8"], H100.bandwidth) == (989e12, 1979e12, 3.35e12)
    assert H100.multiprocessors == 132


def test_fit_reports_its_rows() -> None:
    size = np.arange(1.0, 31.0)

    def line(values: Mapping[str, float], shape: Columns) -> Any:
        return values["slope"] * shape["size"]

    fitted = fit(line, [Free("slope", 1e-6, 0, 1)], {}, {"size": size, "seconds": 2e-6 * size}, size)
    assert (fitted.rows, fitted.values) == (30, {"slope": 2e-6})
    assert fitted.held_out_error == pytest.approx(0, abs=1e-4)
    assert fitted.naive_error == pytest.approx(0, abs=1e-9)


def bent(values: Mapping[str, float], shape: Columns) -> Any:
    """A law of one constant, as far from the truth below as a real one."""
    return values["slope"] * shape["m"] * shape["n"] * shape["k"]


def test_residuals_find_a_bend_that_a_law_has_not_and_leave_noise_alone() -> None:
    """Products of few rows take up to 30% longer than the law: the truth is known, and met within 2%."""
    dice = np.random.default_rng(5)
    sizes = {name: 2.0 ** dice.uniform(9, 15, 400) for name in "mnk"}
    work = sizes["m"] * sizes["n"] * sizes["k"]
    truth = work * 1e-15 * (1 + 0.3 / (1 + sizes["m"] / 1500))
    free = [Free("slope", 1e-15, 0, 1e-12)]
    for seconds, finds in ((truth, True), (work * 1e-15 * np.exp(0.02 * dice.standard_normal(400)), False)):
        shape = sizes | {"seconds": seconds}
        law = fit(bent, free, {}, shape, work)
        corrected = with_residuals(law, bent, free, shape)
        assert (corrected.grid is not None) == finds
        assert (corrected.fitted.held_out_error < 0.02) == finds or seconds is not truth
        assert bool(residual_fields(corrected)) == finds
    few = {name: column[:30] for name, column in (sizes | {"seconds": truth}).items()}
    assert with_residuals(fit(bent, free, {}, few, few["m"]), bent, free, few).grid is None


def test_the_page_shows_the_files() -> None:
    page = (ROOT / "docs/explanation/kernels.md").read_text("utf-8")
    assert page.count("<!-- end -->") == 4
    files = [yaml.safe_load(path.read_text("utf-8")) for path in CURVES]
    assert with_tables(page, files) == page
    assert with_tables(page, files[:1]) != page
