"""Runs priced under many constants: the same figures, and only what a constant touches is priced again."""

from __future__ import annotations

from pathlib import Path

import pytest

import planner.calibrate.batches as module
from planner.calibrate.batches import Batches, batches_of, predictions_with
from planner.calibrate.constants import Values, WithConstants, shipped_values
from planner.calibrate.pricing import cost_predictions
from planner.calibrate.refit import constants_of
from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.defaults import PricedRun, prepared
from planner.calibrate.runs.table import read_runs

TABLES = ("bridge.csv", "fsdp.csv", "zero_bubble.csv")
FOLDER = Path(__file__).parents[1] / "measured" / "runs"
H100 = ("accelerator", "h100-80gb-sxm", "training_share")


@pytest.fixture(scope="module")
def runs() -> list[PricedRun]:
    found: list[PricedRun] = []
    for name in TABLES:
        with (FOLDER / name).open(encoding="utf-8", newline="") as lines:
            found += prepared(list(read_runs(lines, name).rows)[::4], shipped_catalogue(), [])
    return found


def changed() -> dict[tuple[str, str, str], float]:
    return dict(shipped_values()) | {H100: 0.9}


@pytest.mark.parametrize(
    "values",
    [
        shipped_values(),
        changed(),
        {key: value for key, value in shipped_values().items() if key[0] != "accelerator"},
        {key: 1.05 * value if key[0] == "era" else value for key, value in shipped_values().items()},
        dict(shipped_values()) | {("site", "megatron-bridge", "compute_share"): 0.8},
    ],
)
def test_prices_are_those_of_each_run_with_its_constants_replaced(
    runs: list[PricedRun], values: Values
) -> None:
    assert predictions_with(values)(runs) == cost_predictions(WithConstants(values)(runs))


def test_only_batches_that_a_constant_touches_are_priced_again(
    runs: list[PricedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    priced: list[str] = []
    plain = module.batch_predictions

    def counted(members: list[PricedRun]) -> object:
        priced.extend(run.job.hardware.pool.accelerator.name for run in members)
        return plain(members)

    monkeypatch.setattr(module, "batch_predictions", counted)
    batches = Batches(tuple(runs))
    batches.predictions(shipped_values())
    assert len(priced) == len(runs)
    batches.predictions(shipped_values())
    assert len(priced) == len(runs)
    batches.predictions(changed())
    kin = {"h100-80gb-sxm", "h100-96gb-hbm2e-500w"}  # the second takes the first's share
    assert set(priced[len(runs) :]) == kin
    assert batches_of(runs) is batches_of(list(runs))


def test_a_fit_depends_on_another_accelerators_share_only_where_its_own_is_unknown(
    runs: list[PricedRun],
) -> None:
    on_blackwell = [run for run in runs if run.job.hardware.pool.accelerator.name == "gb200-186gb"]
    assert on_blackwell
    assert constants_of(on_blackwell, shipped_values()) == constants_of(on_blackwell, changed())
    without = {key: value for key, value in shipped_values().items() if key[1] != "gb200-186gb"}
    other = without | {("accelerator", "b200-180gb", "training_share"): 0.5}
    assert constants_of(on_blackwell, without) != constants_of(on_blackwell, other)
