"""Of any legal plan: the arguments say the plan, whatever starts them."""

from __future__ import annotations

import re

import pytest

from planner.cost.case import case_of
from planner.cost.legal import all_rules
from planner.launchers import Card, launch_files, launchers, target
from planner.launchers.skypilot import ACCELERATORS
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from tests.validate.megatron.plans import legal_plans

MEGATRON = runtimes()["megatron-lm"]
LEGAL = list(legal_plans(11, 50, MEGATRON))

PLANS = [(job, plan) for job, plan in LEGAL if not violations(all_rules(plan, case_of(plan, job, MEGATRON)))]
"""Legal plans that a node's memory holds too."""


def accelerator(job: Job) -> str:
    return job.hardware.pool.accelerator.name


def value(text: str, flag: str, default: str = "1") -> str:
    """Return the argument of a flag in a script, by plain search."""
    found = re.findall(rf"^ *{flag} (\S+)$", text, re.MULTILINE)
    assert len(found) <= 1
    return found[0].strip("'") if found else default


@pytest.mark.parametrize("launcher", ["torchrun", "slurm", "kubernetes", "skypilot"])
def test_the_script_says_the_plan(launcher: str) -> None:
    named = [case for case in PLANS if launcher != "skypilot" or accelerator(case[0]) in ACCELERATORS]
    for job, plan in named[::4] if launcher != "torchrun" else named:
        files = launch_files(plan, job, target(MEGATRON, launchers()[launcher]), Card())
        text = (
            files["trainjob.yaml"]
            if launcher == "kubernetes"
            else files.get("task.yaml") or next(iter(files.values()))
        )
        check(text, job, plan)


def check(text: str, job: Job, plan: Plan) -> None:
    degrees = {
        "tp": "--tensor-model-parallel-size",
        "pp": "--pipeline-model-parallel-size",
        "cp": "--context-parallel-size",
        "ep": "--expert-model-parallel-size",
        "micro_batch": "--micro-batch-size",
    }
    said = {name: float(value(text, flag)) for name, flag in degrees.items()}
    assert said == {name: getattr(plan, name) for name in degrees}
    assert float(value(text, "--global-batch-size")) == plan.micro_batch * plan.num_microbatches * plan.dp
    assert ("--sequence-parallel\n" in text) == (plan.sequence_parallel and plan.tp > 1)
    instances = float(value(text, "--num-distributed-optimizer-instances"))
    assert plan.zero == 0 or plan.dp * plan.cp / instances == plan.zero_shards
    nodes = float(value(text, "--nnodes", value(text, "numNodes:", "1")))
    size = job.hardware.pool.gpus_per_node
    assert nodes == max(1, job.gpus // size) or job.gpus < size


def test_the_same_seed_gives_the_same_plans() -> None:
    again = list(legal_plans(11, 50, MEGATRON))
    assert [plan for _, plan in again] == [plan for _, plan in LEGAL]
