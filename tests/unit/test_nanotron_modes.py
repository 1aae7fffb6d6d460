"""Runs of nanotron's sweep that do not say how their tensor-parallel ranks meet, and what its logits take."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.calibrate.pricing import Prediction, cost_predictions
from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.defaults import PricedRun, prepare
from planner.calibrate.runs.table import Run, read_runs
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.nanotron.files import _unreduced
from tests.cases import every

SWEEP = Path(__file__).parents[1] / "measured" / "runs" / "ultrascale.csv"


def row(name: str, **changes: object) -> PricedRun:
    lines = SWEEP.read_text(encoding="utf-8").splitlines()
    chosen = [lines[0], *(line for line in lines[1:] if line.startswith(f"{name},"))]
    (run,) = read_runs(chosen).rows
    assert isinstance(run, Run)
    found = prepare(run.with_values(changes), shipped_catalogue())
    assert isinstance(found, PricedRun)
    return found


@every(
    ("name", "reduce_scatter"),
    [
        ("t2-2118", True),  # 8B, tp 16, 16 sequences at once: 101 GiB in ALL_REDUCE, and it printed 36.5
        ("t2-2132", False),  # the same with one
        ("t2-0797", True),  # 1B, tp 32, 64 at once: 93 GiB, and 26.3
        ("t2-0265", False),  # no tensor parallelism
    ],
)
def test_a_run_that_does_not_say_its_mode_has_the_one_that_fits(name: str, reduce_scatter: bool) -> None:
    assert row(name).plan.sequence_parallel == reduce_scatter
    assert ("seq_parallel" in row(name).defaults) == (row(name).plan.tp > 1)


def test_a_run_that_says_it_is_left_as_it_says() -> None:
    assert not row("t2-2118", seq_parallel=0).plan.sequence_parallel
    assert row("t2-2132", seq_parallel=1).plan.sequence_parallel


def test_read_so_memory_is_what_was_printed() -> None:
    for name, printed in (("t2-2118", 36.5), ("t2-0797", 26.3), ("t2-0628", 24.9)):
        (found,) = cost_predictions([row(name, **({"seq_parallel": 1} if name == "t2-0628" else {}))])
        assert isinstance(found, Prediction)
        assert found.by_counter("first-rank") == pytest.approx(printed, rel=0.12)


def test_a_logit_is_a_bf16_block_an_fp32_copy_and_a_difference() -> None:
    """`cast_to_fp32` and `_ShardedCrossEntropy`, which takes the power in the difference's place."""
    assert runtimes()["nanotron"].traits.loss.logit_bytes == 2 + 4 + 4


@pytest.mark.parametrize(("zero", "dp", "told"), [(1, 2, True), (0, 2, False), (1, 1, False)])
def test_files_tell_that_zero_1_reduces_nothing_over_several_replicas_today(
    zero: int, dp: int, told: bool
) -> None:
    assert bool(_unreduced(Plan(dp=float(dp), zero=zero))) == told
