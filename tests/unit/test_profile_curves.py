"""Curves and profile of rows whose constants are known: they come back, load, and say where they are from.

The rows are made by formulas of this file, written out anew from the papers, so that a slip in the planner's
own formulas shows as constants that do not come back.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from planner.calibrate.measured.curves import curve_file, source_text
from planner.calibrate.measured.files import CURVES, Machine, beside, profile_files
from planner.calibrate.measured.links import Sample, link_of
from planner.calibrate.measured.rows import sheet_of
from planner.errors import InputError
from planner.inputs.hardware import HardwareProfile
from planner.inputs.load_hardware import hardware_folder, load_accelerator, load_hardware
from planner.inputs.yaml_file import read_yaml
from planner.units import GIB
from tests.cli.command import planner_in

H100 = load_accelerator("h100-80gb-sxm")
PEAK, BANDWIDTH = 989e12, 3.35e12
PROVENANCE = {
    "date": "2026-11-21",
    "device": "NVIDIA H100 80GB HBM3",
    "driver": "580.95",
    "cuda": "13.0",
    "nccl": "2.29.2",
    "torch": "2.13.0",
}


def row(bench: str, variant: str, shape: Mapping[str, int], seconds: float, **fields: Any) -> dict[str, Any]:
    base = {"bench": bench, "variant": variant, "dtype": "bf16", "shape": dict(shape), "seconds": seconds}
    return {**base, "flops": 0.0, "bytes": 0.0, "key": f"{bench}{variant}{dict(shape)}", **fields}


def product_rows() -> list[dict[str, Any]]:
    """Products at 80% of peak, half of it at k = 200, 3 us to launch, 90% of the bandwidth."""
    found = []
    for m, n, k in itertools.product([512, 1024, 3072, 8192], [1024, 4096, 6144], [512, 1024, 4096, 12288]):
        compute = 2 * m * n * (k + 200) / (0.8 * PEAK)
        memory = 2 * (m * k + n * k + m * n) / (0.9 * BANDWIDTH)
        seconds = 3e-6 + (compute**4 + memory**4) ** 0.25
        found.append(row("gemm", "product", {"m": m, "n": n, "k": k}, seconds, flops=2.0 * m * n * k))
    return found


def attention_rows() -> list[dict[str, Any]]:
    """Attention at 60% of peak forward and 50% backward, half of it at 300 and 100 keys, 10 us to launch."""
    found = []
    for batch, heads, seq in itertools.product([1, 4], [8, 32], [512, 1024, 2048, 4096, 8192]):
        shape = {"batch": batch, "heads": heads, "kv_heads": heads, "seq": seq, "head_dim": 128}
        for direction, factor, rate, half in (("forward", 4, 0.6, 300), ("backward", 10, 0.5, 100)):
            seconds = 1e-5 + factor * 128 * (seq / 2 + half) * batch * heads * seq / (rate * PEAK)
            found.append(row("attention", f"chosen-causal-{direction}", shape, seconds))
    return found


def memory_rows() -> list[dict[str, Any]]:
    """Operators at 75% of the bandwidth after 4 us; 4 bytes an element."""
    return [
        row(
            "elementwise",
            variant,
            {"rows": n, "width": 2500},
            4e-6 + n * 1e4 / (0.75 * BANDWIDTH),
            bytes=n * 1e4,
        )
        for variant in ("norm", "adam")
        for n in (256, 512, 1024, 4096, 16384, 65536)
    ]


def gather_rows(nodes: int, ranks: int, rate: float) -> list[dict[str, Any]]:
    """All-gathers at ``rate`` of bus bandwidth after 2 us a hop."""
    return [
        row(
            "collectives",
            "all_gather",
            {"ranks": ranks, "nodes": nodes, "bytes": size},
            2e-6 * (ranks - 1) + (ranks - 1) / ranks * size / rate,
        )
        for size in (2**10, 2**14, 2**18, 2**22, 2**25, 2**28, 2**30)
    ]


def everything() -> list[dict[str, Any]]:
    rows = product_rows() + attention_rows() + memory_rows()
    copies = row("copies", "to-device-pinned", {"bytes": 2**28}, 2**28 / 55e9, bytes=2.0**28)
    beside = row("overlap", "product-beside-all-reduce", {"ranks": 8}, 1.2e-3, alone_seconds=1e-3)
    return [*rows, *gather_rows(1, 8, 333e9), *gather_rows(2, 16, 320e9), copies, beside]


def files(tmp_path: Path, rows: list[dict[str, Any]], **changes: Any) -> HardwareProfile:
    """Write the profile of rows and load it."""
    machine = Machine(**({"product": "NVIDIA H100 80GB HBM3", "memory": 79.6 * GIB, "multiprocessors": 132.0,
                          "provenance": PROVENANCE} | changes))  # fmt: skip
    made = profile_files(tmp_path / "mine.yaml", machine, rows)
    for path, text in made.texts.items():
        path.write_text(text, encoding="utf-8")
    return load_hardware(str(tmp_path / "mine.yaml"))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> HardwareProfile:
    return files(tmp_path_factory.mktemp("profile"), everything())


def test_constants_of_products_come_back(measured: HardwareProfile) -> None:
    curve = measured.pool.accelerator.kernels.gemm["bf16"]
    assert curve.rate == pytest.approx(0.8 * PEAK, rel=0.01)
    assert curve.half_k == pytest.approx(200, rel=0.1)
    assert curve.launch == pytest.approx(3e-6, rel=0.05)


def test_constants_of_attention_come_back_for_both_passes(measured: HardwareProfile) -> None:
    curve = measured.pool.accelerator.kernels.attention[128]
    assert curve.rate == pytest.approx(0.6 * PEAK, rel=0.01)
    assert curve.backward_rate == pytest.approx(0.5 * PEAK, rel=0.01)
    assert curve.half_keys == pytest.approx(300, rel=0.05)
    assert curve.backward_half_keys == pytest.approx(100, rel=0.1)
    assert curve.seq_range == (512, 8192)


def test_constants_of_memory_bound_operators_come_back(measured: HardwareProfile) -> None:
    kernels = measured.pool.accelerator.kernels
    assert kernels.memory_bandwidth == pytest.approx(0.75 * BANDWIDTH, rel=0.01)
    assert kernels.launch == pytest.approx(4e-6, rel=0.02)
    for name in ("norm_0", "optimizer"):
        assert kernels.stream_for(name).bandwidth == pytest.approx(0.75 * BANDWIDTH, rel=0.01)
    assert set(kernels.streams) == {"norm", "adam"}


def test_links_and_copies_are_those_that_were_measured(measured: HardwareProfile) -> None:
    """333 of 450 GB/s inside; 320 GB/s over 8 ports of 50 between two nodes; 55 GB/s from pinned memory."""
    pool = measured.pool
    assert float(pool.node.scaleup.efficiency) == pytest.approx(333 / 450, rel=0.01)
    assert float(pool.node.scaleup.latency) == pytest.approx(2e-6, rel=0.02)
    assert pool.network is not None
    assert float(pool.network.efficiency) == pytest.approx(0.8, rel=0.01)
    assert float(pool.accelerator.host_link or 0) == pytest.approx(55e9, rel=0.01)
    assert float(pool.accelerator.memory_visible) == pytest.approx(79.6 * GIB, rel=1e-4)


@pytest.mark.parametrize(
    ("told", "usable"),
    [
        ({}, 79.6 - 550 / 1024),
        ({"usable": 79.2 * GIB}, 79.2),
        ({"usable": 79.6 * GIB}, 79.6),
        ({"usable": 40 * GIB}, 79.6),
    ],
    ids=["not told", "less", "the same", "a slice's"],
)
def test_what_a_driver_keeps_is_what_torch_does_not_see(
    told: dict[str, float], usable: float, tmp_path: Path
) -> None:
    part = files(tmp_path, product_rows(), **told).pool.accelerator
    assert part.memory_usable == pytest.approx(usable * GIB, rel=1e-4)


def test_every_measured_number_says_where_it_is_from(measured: HardwareProfile) -> None:
    for number in (measured.pool.accelerator.memory_visible, measured.pool.node.scaleup.efficiency):
        assert number.standing == "measured"
        assert number.source == f"mine.raw.jsonl ({source_text(PROVENANCE)})"
        assert "driver 580.95" in number.source
        assert "torch 2.13.0" in number.source


def test_the_curve_file_tells_versions_and_the_error_of_each_fit(measured: HardwareProfile) -> None:
    content = read_yaml(Path(measured.pool.accelerator.curves))
    assert content["provenance"] == PROVENANCE
    for entry in (content["gemm"]["bf16"], content["attention"]["bf16"]["128"], content["memory_bound"]):
        assert {"rows", "mean_error", "held_out_error", "standing"} <= set(entry)
        assert entry["standing"] == "measured"
        assert float(entry["held_out_error"].removesuffix("%")) < 1
    assert content["overlap"]["compute_slowdown"] == "1.2"


def test_what_was_not_measured_is_anothers_and_says_so() -> None:
    lender = read_yaml(hardware_folder("curves") / "h100-80gb-sxm.yaml")
    fitted = curve_file("mine", product_rows(), sheet_of(H100), PROVENANCE, lender)
    assert fitted.notes == tuple(
        f"no curve of {part} could be measured: that of h100-80gb-sxm"
        for part in ("attention", "experts", "memory_bound")
    )
    assert fitted.content["attention"]["bf16"] == lender["attention"]["bf16"]


def test_too_few_products_are_told() -> None:
    lender = read_yaml(hardware_folder("curves") / "h100-80gb-sxm.yaml")
    with pytest.raises(InputError, match=r"5 points of matrix products; expected at least 6.*--minutes"):
        curve_file("mine", product_rows()[:5], sheet_of(H100), PROVENANCE, lender)


def test_a_device_that_nobody_knows_gets_a_profile_of_its_own(tmp_path: Path) -> None:
    rows = product_rows() + memory_rows() + gather_rows(1, 4, 10e9)
    profile = files(tmp_path, rows, product="Some Processor", multiprocessors=16.0)
    best = max(one["flops"] / one["seconds"] for one in rows if one["bench"] == "gemm")
    assert float(profile.pool.accelerator.peak["bf16"]) == pytest.approx(1.25 * best, rel=1e-3)
    assert profile.pool.accelerator.aliases == ("some-processor",)
    assert profile.template
    assert (profile.pool.gpus_per_node, profile.pool.scaleup_domain) == (4, 4)
    curve = profile.pool.accelerator.kernels.gemm["bf16"]
    assert curve.rate == pytest.approx(0.8 * PEAK, rel=0.02)


def test_the_cluster_may_be_another_than_the_usual_one(tmp_path: Path) -> None:
    profile = files(tmp_path, product_rows() + memory_rows(), cluster="p5.48xlarge")
    assert profile.pool.node.name == "p5.48xlarge"
    assert profile.pool.network is not None
    assert profile.pool.network.name == load_hardware("p5.48xlarge").pool.network.name  # type: ignore[union-attr]


def test_products_of_fp8_take_clock_and_bandwidth_of_bf16() -> None:
    """The cast moves 5 bytes an element and starts 6 us late."""
    eight = []
    for one in product_rows():
        m, n, k = (one["shape"][name] for name in "mnk")
        compute = 2 * m * n * (k + 300) / (0.7 * 1979e12)
        memory = (m * k + n * k + 2 * m * n) / (0.9 * BANDWIDTH)
        seconds = 9e-6 + (compute**4 + memory**4) ** 0.25 + 5 * m * k / (0.9 * BANDWIDTH)
        eight.append(row("gemm", "product", one["shape"], seconds, dtype="fp8"))
    lender = read_yaml(hardware_folder("curves") / "h100-80gb-sxm.yaml")
    content = curve_file("mine", product_rows() + eight, sheet_of(H100), PROVENANCE, lender).content
    entry = content["gemm"]["fp8"]
    assert float(entry["efficiency"]) == pytest.approx(0.7, rel=0.02)
    assert float(entry["quantisation_bytes"].removesuffix(" B")) == pytest.approx(5, rel=0.05)
    assert float(entry["quantisation_launch"].removesuffix(" us")) == pytest.approx(6, rel=0.1)


def test_held_products_say_what_lasts() -> None:
    held = [
        row("sustained", "product", one["shape"], one["seconds"] / 0.85, flops=one["flops"])
        for one in product_rows()
        if min(one["shape"].values()) >= 4096
    ]
    lender = read_yaml(hardware_folder("curves") / "h100-80gb-sxm.yaml")
    content = curve_file("mine", product_rows() + held, sheet_of(H100), PROVENANCE, lender).content
    assert float(content["gemm"]["bf16"]["sustained_ratio"]) == pytest.approx(0.85, rel=0.01)


def test_a_link_is_judged_by_its_largest_group_and_buffers() -> None:
    facts = ((2, 2.0**30, 9e11), (8, 2.0**20, 1e9), (8, 2.0**30, 4e11))
    samples = [Sample("all_gather", ranks, 1, size, size / rate) for ranks, size, rate in facts]
    link = link_of(samples)
    assert link is not None
    assert link.bus_rate == pytest.approx(7 / 8 * 4e11)
    assert link_of([]) is None


def test_diff_shows_curves_and_versions(tmp_path: Path) -> None:
    for name, torch in (("one", "2.13.0"), ("two", "2.14.0")):
        machine = Machine("NVIDIA H100 80GB HBM3", 79.6 * GIB, 132.0, PROVENANCE | {"torch": torch})
        slower = [
            one | {"seconds": one["seconds"] * (1.0 if name == "one" else 2.0)} for one in memory_rows()
        ]
        for path, text in profile_files(
            tmp_path / f"{name}.yaml", machine, product_rows() + slower
        ).texts.items():
            path.write_text(text, encoding="utf-8")
    done = planner_in(tmp_path, "hardware", "diff", "one.yaml", "two.yaml", "--format", "csv")
    assert done.code == 0, done.err
    lines = {line.split(",")[0]: line.split(",")[1:] for line in done.out.splitlines()}
    assert lines["curves.provenance.torch"] == ["2.13.0", "2.14.0", ""]
    assert float(lines["curves.memory_bound.launch"][2]) == pytest.approx(2.0, rel=0.05)
    assert "curves.gemm.bf16.efficiency" not in lines


def test_diff_shows_measured_curves_beside_those_that_ship(tmp_path: Path) -> None:
    """The shipped efficiency of an H100 in bf16 stands in its curve file; what it alone has is not told."""
    machine = Machine("NVIDIA H100 80GB HBM3", 79.6 * GIB, 132.0, PROVENANCE)
    made = profile_files(tmp_path / "mine.yaml", machine, product_rows() + memory_rows())
    for path, text in made.texts.items():
        path.write_text(text, encoding="utf-8")
    shipped = read_yaml(hardware_folder("curves") / "h100-80gb-sxm.yaml")
    done = planner_in(tmp_path, "hardware", "diff", "mine.yaml", "dgx-h100", "--format", "csv")
    assert done.code == 0, done.err
    lines = {line.split(",")[0]: line.split(",")[1:] for line in done.out.splitlines()}
    assert lines["curves.gemm.bf16.efficiency"][1] == shipped["gemm"]["bf16"]["efficiency"]
    assert not any(name.startswith("curves.gemm.fp8_block") for name in lines)


def test_borrowed_curves_are_not_shown_as_fits(tmp_path: Path) -> None:
    machine = Machine("NVIDIA H100 80GB HBM3", 79.6 * GIB, 132.0, PROVENANCE)
    made = profile_files(tmp_path / "mine.yaml", machine, product_rows() + gather_rows(1, 8, 333e9))
    assert [fit["curve"] for fit in made.fits] == ["gemm bf16", "collectives nccl all_gather ranks 8"]


def test_the_files_of_a_profile_lie_side_by_side() -> None:
    assert beside(Path("a/b.yml"), CURVES) == Path("a/b.curves.yaml")
