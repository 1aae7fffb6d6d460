"""torchtitan's own code takes the files of FLUX.1 as they are meant: degrees, images, text, model."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planner.cost.case import case_of
from planner.cost.legal import all_rules
from planner.inputs.hf_config import model_from_config
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes.family import Job
from planner.runtimes.torchtitan import ENTRY
from tests.validate.ask import asked, refusals
from tests.validate.random_plans import Case

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not os.environ.get("TORCHTITAN"), reason="TORCHTITAN names no checkout of torchtitan"),
    pytest.mark.needs("tyro", "no interpreter with tyro in VALIDATE_PYTHON"),
]


def test_plans_of_flux_are_taken_as_meant(tmp_path: Path) -> None:
    model = model_from_config({"_class_name": "FluxTransformer2DModel"}, "config.json", "flux").model
    runtime, written = ENTRY.for_model(model), []
    assert runtime.command is not None
    for side, cp, shards, batch, recompute in (
        (64, 1, 8, 4, "full"),
        (64, 4, 64, 16, "full"),
        (16, 1, 64, 8, "none"),
        (128, 8, 16, 8, "full"),
    ):
        work = Workload(seq_len=side**2 + 512, global_batch=batch * 64 // cp)
        job = Job(model, load_hardware("dgx-h100"), 64, work)
        plan = Plan(
            cp=float(cp), dp=64.0 / cp, zero=3, zero_shards=float(shards), micro_batch=float(batch),
            num_microbatches=1.0, recompute=recompute, cp_method="all-gather",
        )  # fmt: skip
        assert not violations(all_rules(plan, case_of(plan, job, runtime)))
        command = runtime.command(plan, job, runtime.versions[0])
        place = tmp_path / str(len(written))
        place.mkdir()
        for name, text in (command.files or {}).items():
            (place / name).write_text(text, encoding="utf-8")
        written.append((Case(job, plan, ()), command, place))
    verdicts = asked(written, "check_torchtitan.py")
    assert len(verdicts) == 4
    assert refusals(verdicts) == []
    for verdict in verdicts:
        plan, job, derived = verdict.case.plan, verdict.case.job, verdict.answer["derived"]
        assert derived["dp_replicate"] == plan.dp * plan.cp / plan.zero_shards
        assert (derived["dp_shard"], derived["cp"]) == (plan.zero_shards / plan.cp, plan.cp)
        assert derived["params"] == job.model.params
        assert derived["tokens"] == derived["context"] == job.workload.seq_len
        assert derived["tokens_per_microbatch"] == plan.micro_batch * job.workload.seq_len
        assert derived["tokens_per_step"] == job.workload.tokens_per_step
        assert derived["recompute"] == {"full": "FullAC.Config", "none": "NoneType"}[plan.recompute]
        assert derived["text"] == 512
