"""Runs in fp32: every byte twice, products at TF32's rate, the host as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.calibrate.batches import predictions_with
from planner.calibrate.pricing import Prediction
from planner.calibrate.runs.catalogue import Catalogue, shipped_catalogue
from planner.calibrate.runs.defaults import PricedRun, Skip, prepare
from planner.calibrate.runs.table import Run

RUN = Run(
    line=2, id="r", source="s", gpu="h100", gpus_per_node=8, num_gpus=16, tp=8, pp=1, dp=2, zero="1",
    model="llama2-7b", framework="megatron-lm", seq_len=4096, micro_batch=4, global_batch=64,
    step_time_s=60.0, peak_mem_gib=40.0, precision="bf16", overlap="bf16-true",
)  # fmt: skip


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return shipped_catalogue()


def priced(run: Run, catalogue: Catalogue) -> tuple[PricedRun, Prediction]:
    """Return a run and its price without fitted constants."""
    found = prepare(run, catalogue)
    assert isinstance(found, PricedRun)
    (price,) = predictions_with({})([found])
    assert isinstance(price, Prediction)
    return found, price


def test_all_bytes_are_twice_as_many(catalogue: Catalogue) -> None:
    """H100's TF32 is half of its 16-bit rate: a step that latencies do not rule takes twice as long."""
    (plain, short), (wide, long) = (
        priced(replace(RUN, precision=name), catalogue) for name in ("bf16", "tf32")
    )
    assert long.step_s / short.step_s == pytest.approx(2.0, rel=0.03)
    assert long.capacity_gib == pytest.approx(short.capacity_gib / 2)
    assert long.allocated_gib == pytest.approx(short.allocated_gib)
    assert wide.run.peak_mem_gib == pytest.approx(RUN.peak_mem_gib / 2 if RUN.peak_mem_gib else 0)
    assert plain.runtime.traits == wide.runtime.traits


def test_products_in_fp32_are_slower_still(catalogue: Catalogue) -> None:
    """67 TFLOP/s for TF32's 494.5: 7.4 times the products, and other work as before."""
    times = [priced(replace(RUN, precision=name), catalogue)[1].step_s for name in ("tf32", "fp32")]
    assert 3.0 < times[1] / times[0] < 494.5 / 67


def test_an_accelerator_without_the_format_is_refused(catalogue: Catalogue) -> None:
    found = prepare(replace(RUN, gpu="v100-16gb", precision="tf32"), catalogue)
    assert isinstance(found, Skip)
    assert "column precision: found 'tf32'" in found.reason
