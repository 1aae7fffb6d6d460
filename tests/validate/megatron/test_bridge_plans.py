"""Megatron-Bridge's own code takes every legal plan as it is meant.

Needs checkouts of Megatron-Bridge in ``MEGATRON_BRIDGE`` and of Megatron-LM in ``MEGATRON_LM``, PyTorch, and
the packages that Bridge imports; ``VALIDATE_PLANS`` says how many plans (20 where unset).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from planner.cost.case import case_of
from planner.plan import Plan
from planner.runtimes.family import Job
from planner.runtimes.megatron_bridge import ENTRY
from planner.runtimes.settings import NO_CHANGES, Changes
from tests.validate.megatron import cases
from tests.validate.megatron.bridge_runner import Bridge
from tests.validate.megatron.plans import legal_plans, settings
from tests.validate.megatron.runner import ROCM, Verdict
from tests.validate.megatron.tally import differences, settable, tally

BRIDGE, MEGATRON = os.environ.get("MEGATRON_BRIDGE", ""), os.environ.get("MEGATRON_LM", "")
COUNT = int(os.environ.get("VALIDATE_PLANS", "20"))
UNSEEN = ("world",)
LENGTHS = {"lr_decay_iters", "lr_decay_steps", "wd_incr_steps"}
SEED = int(os.environ.get("VALIDATE_SEED", "1"))

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not (BRIDGE and MEGATRON), reason="MEGATRON_BRIDGE or MEGATRON_LM names no checkout"),
]


@pytest.fixture(scope="module")
def bridge() -> Any:
    return Bridge(BRIDGE, MEGATRON)


@pytest.fixture(scope="module")
def judge(bridge: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Verdict]:
    file = tmp_path_factory.mktemp("emitted") / "train.py"

    def judged(job: Job, plan: Plan, changes: Changes = NO_CHANGES, smoke: bool = False) -> Verdict:
        assert ENTRY.command is not None
        file.write_text((ENTRY.command(plan, job, ENTRY.versions[0], changes).files or {})[file.name])
        return bridge.judge(file, job.gpus, job.hardware.pool.accelerator.compute_capability or ROCM, smoke)

    return judged


def test_every_legal_plan_is_accepted_as_meant(judge: Callable[..., Verdict]) -> None:
    faults = []
    for (job, plan), asked in zip(legal_plans(SEED, COUNT, ENTRY), settings(ENTRY), strict=False):
        changes = settable(job, plan, asked, ENTRY)
        verdict = judge(job, plan, changes)
        differs = differences(job, plan, verdict, UNSEEN, changes)
        if verdict.error or differs:
            faults.append(f"{job.model.name} {job.gpus} {plan} {changes}: {verdict.error or differs}")
    assert not faults, f"{len(faults)} of {COUNT}:\n" + "\n".join(faults)


def test_a_smoke_run_is_the_same_training(judge: Callable[..., Verdict]) -> None:
    """Of what Bridge derives only the length of the run differs: its schedule ends earlier."""
    kinds = set()
    for job, plan in legal_plans(SEED + 1, max(4, COUNT // 2), ENTRY):
        kinds.add((job.workload.method, bool(job.model.expert_kinds)))
        real, smoke = judge(job, plan), judge(job, plan, smoke=True)
        assert (real.error, smoke.error) == ("", ""), (job.model.name, plan)
        runs = real.derived.pop("run"), smoke.derived.pop("run")
        assert smoke.derived == real.derived
        (_, padded, held), (vocab, *_) = runs[1].pop("vocab"), runs[0].pop("vocab")
        assert padded
        assert held <= vocab
        assert _differing(runs[0].pop("schedule"), runs[1].pop("schedule")) <= LENGTHS
        assert runs[0] == runs[1]
    assert len(kinds) > 1


def _differing(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    return {name for name in one | other if one.get(name) != other.get(name)}


def test_what_our_rules_refuse_bridge_refuses_or_runs_otherwise(
    judge: Callable[..., Verdict], capsys: pytest.CaptureFixture[str]
) -> None:
    told, unexplained = tally(ENTRY, judge, SEED, COUNT, without=UNSEEN)
    with capsys.disabled():
        print(told)  # noqa: T201
    assert not unexplained, unexplained


@pytest.mark.parametrize("whole", [False, True])
def test_who_keeps_the_masters_of_bf16_weights_is_as_priced(
    judge: Callable[..., Verdict], whole: bool
) -> None:
    """Megatron-core asks for the recipe of low bits of jobs that have none."""
    job, plan = cases.job("llama3-8b", 16, seq_len=2048, global_batch=64), cases.plan(16, 64, zero=1)
    changes = {"precision_aware": True} | ({"whole_masters": True} if whole else {})
    case = case_of(plan, job, ENTRY.with_traits(**changes))
    assert judge(job, plan, changes).derived["takes_gradients"] == case.takes_gradients == (not whole)
