"""Printed TFLOP/s and MFU become seconds by the count that their source used."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from planner.calibrate.runs.catalogue import Catalogue, shipped_catalogue
from planner.calibrate.runs.conventions import gpt_token_flops, palm_token_flops, peak_rate
from planner.calibrate.runs.defaults import PricedRun, Skip, prepare
from planner.calibrate.runs.table import Run, read_runs
from planner.inputs.load_hardware import load_accelerator
from tests.cases import every

RUNS = Path(__file__).parents[1] / "measured" / "runs"


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return shipped_catalogue()


def table(name: str) -> list[Run]:
    with (RUNS / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
        return [row for row in read_runs(lines).rows if isinstance(row, Run)]


def test_gpt3_takes_34_days_on_1024_accelerators() -> None:
    # arXiv:2104.04473, sec. 5.1: 1,024 A100 at 140 TFLOP/s train GPT-3 on 300 billion tokens in 34 days.
    flops = gpt_token_flops(96, 12288, 51200, 2048, 4) * 300e9
    assert flops / (1024 * 140e12) / 86400 == pytest.approx(34, abs=1)


def test_palm_by_hand() -> None:
    # 6 x 540.35e9 + 12 x 118 x 48 x 256 x 2048, the shape of PaLM 540B (arXiv:2204.02311, table 1).
    assert palm_token_flops(540.35e9, 118, 48 * 256, 2048) == pytest.approx(3.2777e12, rel=1e-3)


def test_the_peak_of_a_format_that_a_chip_lacks_is_that_of_the_next_wider_one() -> None:
    a100, h100, v100 = (load_accelerator(name) for name in ("a100-80gb-sxm", "h100-80gb-sxm", "v100-32gb"))
    assert peak_rate(a100, "bf16") == peak_rate(a100, "fp8") == peak_rate(a100, "nvfp4") == 312e12
    assert (
        peak_rate(h100, "mxfp8")
        == peak_rate(h100, "fp8")
        == peak_rate(h100, "fp8-delayed")
        == pytest.approx(2 * peak_rate(h100, "bf16"), rel=1e-2)
    )
    assert peak_rate(v100, "bf16") == 125e12


def both_ways(run: Run, catalogue: Catalogue) -> float | None:
    """Seconds from a run's printed FLOP/s or MFU over its printed seconds, None where it prints but one."""
    direct, printed = prepare(run, catalogue), prepare(run.with_values(dict.fromkeys(DIRECT)), catalogue)
    if not (isinstance(direct, PricedRun) and isinstance(printed, PricedRun)):
        return None
    if direct.measured.basis not in DIRECT or printed.measured.seconds is None:
        return None
    return printed.measured.seconds / (direct.measured.seconds or 0)


DIRECT = ("step_time_s", "tokens_per_s_per_gpu")


@pytest.mark.parametrize(
    ("name", "share", "rows"),
    [
        ("bloom", 0.03, 100),  # logged TFLOPs of iteration 2; those before the fix are said to be 3% low
        ("llm_foundry", 0.01, 140),
        ("megatron", 0.03, 10),  # the README prints whole TFLOPs
        ("torchtitan", 0.01, 5),
    ],
)
def test_sources_that_print_both_agree_with_the_convention(
    name: str, share: float, rows: int, catalogue: Catalogue
) -> None:
    ratios = [ratio for run in table(name) if not run.mark and (ratio := both_ways(run, catalogue))]
    assert len(ratios) >= rows
    close = [ratio for ratio in ratios if abs(ratio - 1) <= share]
    assert len(close) >= 0.95 * len(ratios)


def test_sc21_table_1_gives_the_implied_step(catalogue: Catalogue) -> None:
    # The 1.7B row: 137 TFLOP/s on 32 GPUs with 512 sequences.
    run = next(run for run in table("sc21") if run.model == "gpt-1.7B")
    found = prepare(run, catalogue)
    assert isinstance(found, PricedRun)
    hand = (
        512 * 2048 * (96 * 24 * 2304**2 * (1 + 2048 / (6 * 2304) + 51200 / (16 * 24 * 2304))) / (32 * 137e12)
    )
    assert found.measured.seconds == pytest.approx(hand, rel=1e-6)
    assert found.measured.basis == "tflops_per_gpu"


def test_a_figure_without_a_known_convention_is_no_measure(catalogue: Catalogue) -> None:
    run = next(run for run in table("sc21") if run.model == "gpt-1.7B").with_values({"flops_convention": ""})
    assert "flops_convention" in refused(run, catalogue)
    found = prepare(run.with_values({"peak_mem_gib": 30.0}), catalogue)
    assert isinstance(found, PricedRun)
    assert found.measured.seconds is None


def test_the_extract_has_no_column_outside_the_schema() -> None:
    for path in RUNS.glob("*.csv"):
        with path.open(encoding="utf-8", newline="") as lines:
            assert not [text for text in read_runs(lines, path.name).warnings if "not in the schema" in text]
        with path.open(encoding="utf-8", newline="") as lines:
            assert all(row["source"] and row["ref"] for row in csv.DictReader(lines))


@every("words", ["6N", "model (6N..)", "6*N*D", "Chinchilla 6ND"])
def test_six_for_each_parameter_is_a_known_count(words: str, catalogue: Catalogue) -> None:
    """64 sequences of 2,048 tokens through 6.74 billion weights at 100 TFLOP/s on 8 accelerators: 6.63 s."""
    run = Run(
        line=2, id="a", gpu="a100", num_gpus=8, framework="fsdp", model="llama2-7b", params_b=6.74,
        seq_len=2048, global_batch=64, tflops_per_gpu=100.0, flops_convention=words,
    )  # fmt: skip
    found = prepare(run, catalogue)
    assert isinstance(found, PricedRun)
    assert found.measured.seconds == pytest.approx(6.6255, rel=1e-4)


def refused(run: Run, catalogue: Catalogue) -> str:
    found = prepare(run, catalogue)
    assert isinstance(found, Skip)
    return found.reason


def test_a_count_that_is_not_said_is_no_measure(catalogue: Catalogue) -> None:
    run = Run(
        line=2, id="a", gpu="a100", num_gpus=8, framework="fsdp", model="llama2-7b", seq_len=2048,
        global_batch=64, tflops_per_gpu=100.0, flops_convention="about 6(N-embedding)+12LHs",
    )  # fmt: skip
    assert "about 6(N-embedding)+12LHs" in refused(run, catalogue)
