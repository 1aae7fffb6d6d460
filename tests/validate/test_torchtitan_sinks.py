"""torchtitan's own code takes the files of GPT-OSS as they are meant: degrees, stages, numbers, model."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from planner.cost.case import case_of
from planner.cost.legal import all_rules
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes.family import Job
from planner.runtimes.torchtitan import ENTRY
from tests.validate.ask import asked, refusals
from tests.validate.numerics import titan_says
from tests.validate.random_plans import Case, stage_params

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not os.environ.get("TORCHTITAN"), reason="TORCHTITAN names no checkout of torchtitan"),
    pytest.mark.needs("tyro", "no interpreter with tyro in VALIDATE_PYTHON"),
]

WHOLE = Plan(dp=64.0, zero=3, zero_shards=32.0, micro_batch=1.0, num_microbatches=4.0, recompute="full")
PLANS = (
    WHOLE,
    replace(WHOLE, ep=8.0, recompute="selective"),
    replace(
        WHOLE, tp=2.0, dp=32.0, num_microbatches=8.0, etp=2.0, sequence_parallel=True, recompute="none"
    ),
    replace(
        WHOLE, pp=2.0, vpp=2.0, ep=4.0, dp=32.0, zero_shards=8.0, num_microbatches=8.0, zero=2,
        schedule="interleaved-1f1b",
    ),
)  # fmt: skip


@pytest.mark.parametrize("name", ["gpt-oss-20b", "gpt-oss-120b"])
def test_plans_of_gpt_oss_are_taken_as_meant(tmp_path: Path, name: str) -> None:
    model, written = load_model(name), []
    assert ENTRY.command is not None
    for plan in PLANS:
        job = Job(model, load_hardware("dgx-h100"), 64, Workload(seq_len=8192, global_batch=256))
        assert not violations(all_rules(plan, case_of(plan, job, ENTRY)))
        command = ENTRY.command(plan, job, ENTRY.versions[0])
        place = tmp_path / str(len(written))
        place.mkdir()
        for file, text in (command.files or {}).items():
            (place / file).write_text(text, encoding="utf-8")
        written.append((Case(job, plan, ()), command, place))
    verdicts = asked(written, "check_torchtitan.py")
    assert refusals(verdicts) == []
    for verdict in verdicts:
        plan, derived = verdict.case.plan, verdict.answer["derived"]
        assert derived["dp_replicate"] == plan.dp / plan.zero_shards
        assert {axis: derived[axis] for axis in ("tp", "pp", "ep")} == {
            axis: getattr(plan, axis) for axis in ("tp", "pp", "ep")
        }
        assert derived["params"] == model.params
        for layer, found in zip(model.layers, derived["numerics"], strict=True):
            wanted = titan_says(model, layer)
            assert {key: found[key] for key in wanted} == wanted
        if plan.pp > 1:
            assert derived["stage_params"] == stage_params(plan, model)
