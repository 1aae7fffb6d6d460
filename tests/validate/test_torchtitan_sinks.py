"""torchtitan's own code takes the files of GPT-OSS as they are meant: degrees, stages, numbers, model."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from planner.inputs.load import load_model
from planner.plan import Plan
from planner.runtimes.torchtitan import ENTRY
from tests.validate.numerics import titan_says
from tests.validate.random_plans import stage_params
from tests.validate.titan_plans import taken

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
    model = load_model(name)
    for verdict in taken(ENTRY, model, PLANS, tmp_path):
        plan, derived = verdict.case.plan, verdict.answer["derived"]
        for layer, found in zip(model.layers, derived["numerics"], strict=True):
            wanted = titan_says(model, layer)
            assert {key: found[key] for key in wanted} == wanted
        if plan.pp > 1:
            assert derived["stage_params"] == stage_params(plan, model)
