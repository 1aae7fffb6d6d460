"""What a notebook asks for: columns bit-equal to plans priced alone, and the answers of the commands."""

from __future__ import annotations

import itertools
import json
import re
import time
from pathlib import Path

import numpy as np
import pytest

import planner
from planner.search.columns import PricedColumns
from tests.cli.command import planner as command

JOB = planner.Job(
    planner.load_model("llama3-8b"),
    planner.load_hardware("dgx-h100"),
    16,
    planner.Workload(seq_len=4096, global_batch=64),
)
MIXED = planner.Job(
    planner.load_model("qwen3-30b-a3b"),
    planner.load_hardware("dgx-h100"),
    16,
    planner.Workload(seq_len=4096, global_batch=64),
)
AXES = {
    "tp": [1, 2, 4, 16],
    "pp": [1, 2, 4],
    "micro_batch": [1, 2],
    "zero": [0, 1],
    "recompute": ["none", "full"],
}
PLAN = planner.estimate_plan(JOB, tp=4, pp=2, sequence_parallel=True, zero=1)


def columns(axes: dict[str, list[object]]) -> dict[str, list[object]]:
    """Return every combination, as columns."""
    return {
        name: list(column)
        for name, column in zip(axes, zip(*itertools.product(*axes.values()), strict=True), strict=True)
    }


def check_each(job: planner.Job, axes: dict[str, list[object]], found: PricedColumns, runtime: str) -> None:
    for place in range(len(found.step)):
        row = {name: column[place] for name, column in axes.items()}
        try:
            one = planner.estimate_plan(job, runtime, **row)
        except (planner.UnsupportedPlan, planner.InputError):
            assert np.isnan(found.step[place])
            assert not found.legal[place]
            continue
        assert (found.step[place], found.peak[place]) == (one.step, one.peak), row
        assert (found.legal[place], found.fits[place]) == (not one.violations, one.feasible), row


@pytest.mark.parametrize("runtime", ["megatron-lm", "torchtitan"])
def test_columns_have_the_price_of_each_plan_alone(runtime: str) -> None:
    axes = columns(AXES)
    axes["sequence_parallel"] = [int(str(tp)) > 1 for tp in axes["tp"]]
    found = planner.estimate_plans(JOB, runtime, **axes)
    assert found.fits.any()
    assert not found.fits.all()
    check_each(JOB, axes, found, runtime)


def test_columns_of_experts_chunks_and_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    axes = columns(
        {
            "tp": [1, 2],
            "pp": [2, 4],
            "vpp": [1, 2],
            "ep": [1, 4],
            "offload": ["none", "optimizer", "activations:2"],
        }
    )
    found = planner.estimate_plans(MIXED, **axes, micro_batch=1, zero=1)
    check_each(
        MIXED,
        axes | {"micro_batch": [1] * len(found.step), "zero": [1] * len(found.step)},
        found,
        "megatron-lm",
    )


def test_ten_thousand_plans_take_a_tenth_of_a_second() -> None:
    """The limit is three times that, for a machine that does something else too."""
    draw = np.random.default_rng(0)
    axes = {name: draw.choice(values, 10_000) for name, values in AXES.items()}
    planner.estimate_plans(JOB, tp=[1])
    started = time.process_time()
    found = planner.estimate_plans(JOB, **axes)
    assert time.process_time() - started < 0.3
    assert found.step.shape == (10_000,)


def test_wrong_columns_are_refused() -> None:
    with pytest.raises(planner.InputError, match="tp 2, pp 3"):
        planner.estimate_plans(JOB, tp=[1, 2], pp=[1, 2, 4])
    with pytest.raises(planner.InputError, match="ful"):
        planner.estimate_plans(JOB, tp=[1, 0], recompute=["ful", "none"])


def test_what_answers_are_made_of_is_one_line() -> None:
    parts = (JOB, JOB.model, JOB.hardware, planner.load_runtime("megatron-lm"), planner.simulate_plan(PLAN))
    for part in (*parts, planner.estimate_plans(JOB, tp=[1, 2])):
        assert re.fullmatch(rf"<{type(part).__name__} [^\n]{{5,120}}>", repr(part))


def test_answers_are_short_and_have_tables() -> None:
    result = planner.search_plans(JOB, top=3)
    told = planner.explain_plan(PLAN)
    for answer in (PLAN, result, told):
        assert len(repr(answer)) < 220
        assert "llama3-8b on 16 dgx-h100" in repr(answer)
        assert answer.to_dict() == planner.as_document(answer)
        html = answer._repr_html_()
        assert html is not None
        assert html.startswith("<table>")
        assert html.endswith("</table>")
    table = result._repr_html_()
    assert table is not None
    assert table.count("<tr>") == 1 + len(result.plans) + len(result.baselines)


def test_lists_are_those_of_the_commands() -> None:
    assert planner.list_models() == json.loads(command("models", "list", "--format", "json").out)
    rows = json.loads(command("hardware", "list", "--format", "json").out)
    assert [row["name"] for row in planner.list_hardware()] == [row["name"] for row in rows]


def test_figures_are_those_of_the_commands(tmp_path: Path) -> None:
    one, other = tmp_path / "one.yaml", tmp_path / "other.yaml"
    planner.save_plan(PLAN, one)
    second = planner.estimate_plan(JOB, tp=2, micro_batch=2, zero=1)
    planner.save_plan(second, other)
    said = json.loads(command("compare", str(one), str(other), "--format", "json").out)
    assert planner.compare_plans({"one": PLAN, "other": second})["plans"] == said["plans"]
    said = json.loads(command("mfu", str(one), "--step-time", "9", "--format", "json").out)
    assert planner.plan_mfu(PLAN, 9.0)["mfu"] == said["mfu"]
    times = ("--checkpoint-time", "30s", "--restart-time", "10min")
    said = json.loads(command("goodput", str(one), *times, "--format", "json").out)
    told = planner.plan_goodput(PLAN, 30.0, 600.0)
    assert {name: told[name] for name in said if name != "estimate"} == {
        name: value for name, value in said.items() if name != "estimate"
    }
    with pytest.raises(planner.InputError, match="seconds"):
        planner.plan_mfu(PLAN, 0.0)


def test_a_sweep_has_a_row_for_each_case() -> None:
    rows = planner.sweep_plans({"dense": JOB}, ["megatron-lm", "fsdp"], tp=[1, 2], recompute="full")
    assert [(row["searched"], row["axis_tp"]) for row in rows] == list(
        itertools.product(["megatron-lm", "fsdp"], [1, 2])
    )
    for row in rows:
        best = planner.search_plans(JOB, row["searched"], tp=row["axis_tp"], recompute="full", top=1).plans
        assert row["fits"] == bool(best)
        assert not best or row["step_time_s"] == best[0].step
