"""torchtitan's own config and mesh code takes every legal plan as it is meant.

TORCHTITAN names a checkout at the commit that the runtime writes for, VALIDATE_PYTHON an interpreter with
what its requirements.txt lists.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from planner.plan import Plan
from planner.runtimes.torchtitan import ENTRY
from planner.runtimes.torchtitan.rules import training_dtype
from planner.runtimes.torchtitan.schedules import SCHEDULES
from planner.runtimes.training_run import TrainingRun, run_of
from tests.validate.ask import counted, judged, ours_alone, refusals
from tests.validate.known_rules import UNSEEN
from tests.validate.numerics import titan_says
from tests.validate.random_plans import stage_params

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not os.environ.get("TORCHTITAN"), reason="TORCHTITAN names no checkout of torchtitan"),
    pytest.mark.needs("tyro", "no interpreter with tyro in VALIDATE_PYTHON"),
]


def expected(plan: Plan, shards: float) -> dict[str, Any]:
    """Return torchtitan's degrees of a plan."""
    sizes = {"dp_replicate": plan.dp * plan.cp / shards, "dp_shard": shards / plan.cp}
    return sizes | {name: getattr(plan, name) for name in ("tp", "cp", "pp", "ep", "sequence_parallel")}


def assert_run(derived: dict[str, Any], run: TrainingRun) -> None:
    """Assert that torchtitan's schedule is that of the run, and that a smoke run saves nothing."""
    wanted = {
        "steps": run.train_steps, "rate": run.learning_rate, "betas": [run.beta1, run.beta2],
        "weight_decay": run.weight_decay, "clip": run.clip, "warmup": run.warmup_steps,
        "decay": run.decay_steps, "decay_style": "cosine",
        "lowest": run.min_learning_rate / run.learning_rate,
        "saves": True, "save_interval": run.save_interval, "seed": run.seed, "timeout": 600,
    }  # fmt: skip
    assert derived["run"] == wanted
    assert (derived["smoke"]["saves"], derived["smoke"]["steps"]) == (False, 20)
    assert derived["smoke"]["loader"] == "MadeUp.Config"


def test_legal_plans_are_taken_as_meant(tmp_path: Path) -> None:
    verdicts = judged(ENTRY, "check_torchtitan.py", legal=True, folder=tmp_path)
    assert refusals(verdicts) == []
    for verdict in verdicts:
        derived, plan, job = verdict.answer["derived"], verdict.case.plan, verdict.case.job
        wanted = expected(plan, plan.zero_shards if plan.zero else plan.cp)
        assert {name: derived[name] for name in wanted} == wanted
        assert derived["params"] == job.model.params
        assert derived["tokens_per_microbatch"] == plan.micro_batch * job.workload.seq_len
        assert derived["tokens_per_step"] == job.workload.tokens_per_step
        assert derived["tied"] == job.model.tied_embeddings
        assert derived["dtype"] == training_dtype(job.workload)
        for name, found in zip(job.model.layers, derived["numerics"], strict=True):
            wanted = titan_says(job.model, name)
            assert {key: found[key] for key in wanted} == wanted
        assert_run(derived, run_of(job))
        assert derived["recompute"].lower().startswith(plan.recompute)
        if plan.pp > 1:
            assert derived["pp_microbatches"] == plan.num_microbatches
            assert derived["schedule"] == f"Schedule{SCHEDULES[plan.schedule].name}"
            assert derived["stage_params"] == stage_params(plan, job.model)
            assert all(len(stages) == plan.vpp for stages in derived["stages_of_rank"])


def test_what_torchtitan_refuses_we_refuse_and_what_only_we_refuse_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts = judged(ENTRY, "check_torchtitan.py", legal=False, folder=tmp_path)
    with capsys.disabled():
        print(counted(verdicts))  # noqa: T201
    assert refusals(verdicts)
    assert ours_alone(verdicts) <= set(UNSEEN[ENTRY.name])
