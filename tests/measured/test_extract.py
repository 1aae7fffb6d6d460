"""The published runs that the project carries: nearly all of them can be priced, and the rest says why."""

from __future__ import annotations

import io
from collections import Counter
from functools import cache

from planner.calibrate.eras import unmeasured
from planner.calibrate.pricing import cost_predictions
from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.table import Run, read_runs
from planner.calibrate.validate import Validation, as_json, validate
from tests.cases import every
from tests.measured.matched import RUNS, validated

TABLES = sorted(path.stem for path in RUNS.glob("*.csv"))

UNPRICEABLE = {
    "bloom": {"320 but tp 8": 1},  # the log's own contradiction, 640 ranks on 320 GPUs
    "layouts_sweep": {"neither time, memory nor outcome": 20},
    "sc21": {"column num_gpus: found blank": 4},  # sentences of section 5 that name no cluster
    "torchtitan": {"column num_layers": 4},  # a page that does not name its model
}
"""Rows of each table that nobody could price, by reason; the tables not named here have none."""


@cache
def of_table(name: str) -> Validation:
    """Return what is said of the rows of one table."""
    with (RUNS / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(read_runs(lines, name).rows)
    ids, whole = {row.id for row in rows}, validated()
    outcomes = tuple(one for one in whole.outcomes if one.scored.id in ids)
    return Validation(len(rows), outcomes, tuple(one for one in whole.skipped if one.id in ids))


def test_an_era_without_a_published_run_has_no_error_band_where_none_ran() -> None:
    eras = {outcome.era for name in TABLES for outcome in of_table(name).outcomes}
    assert eras.isdisjoint(unmeasured())
    run = next(read_runs(io.StringIO("id,gpu,num_gpus,framework,model,seq_len,tp,pp,micro_batch,oom\n"
                                     "j,a100,8,MaxText,llama3-8b,8192,1,1,1,0\n")).rows)  # fmt: skip
    assert isinstance(run, Run)
    for framework, gpu, known in (
        ("MaxText", "a100", False),
        ("fsdp", "a100", True),
        ("MaxText", "tpu-v6e", True),
    ):
        row = run.with_values({"framework": framework, "gpu": gpu, "step_time_s": 9.0})
        (outcome,) = validate([row], shipped_catalogue(), cost_predictions).outcomes
        assert (outcome.error_band is not None) is known


@every("name", [name for name in TABLES if "bridge" not in name and name != "zero_bubble"])
def test_every_row_is_priced_or_has_a_true_reason(name: str) -> None:
    result = of_table(name)
    expected = UNPRICEABLE.get(name, {})
    told = Counter(
        next((why for why in expected if why in skip.reason), skip.reason) for skip in result.skipped
    )
    assert dict(told) == expected
    assert len(result.outcomes) + len(result.skipped) == result.rows


@every("name", ["layouts_sweep", "bloom", "llm_foundry", "megatron", "libai", "torchtitan"])
def test_the_cost_model_beats_the_rule_of_thumb(name: str) -> None:
    document = as_json(of_table(name))
    assert document["step_time"]["mape"] < document["naive"]["mape"]


def test_no_run_of_llm_foundry_is_called_out_of_memory_in_vain_too_often() -> None:
    oom = as_json(of_table("llm_foundry"))["oom"]
    assert oom["true_positive"] == oom["false_negative"] == 0
    assert oom["false_positive"] + oom["true_negative"] == 145
