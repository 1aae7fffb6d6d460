"""Rules of any runtime: what they allow, and what they answer, against counting."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import floor
from typing import Any

import numpy as np

from planner.cost.case import case_of
from planner.cost.legal import technique_rules
from planner.rules import divides, divisors, nearest_divisors, structural_rules, violations
from tests.cases import every
from tests.unit.cost_jobs import MODELS, job, plan_of, runtime


@every("whole", [1, 2, 12, 97, 360, 1024])
def test_divisors_are_those_that_one_counts(whole: int) -> None:
    counted = [n for n in range(1, whole + 1) if whole % n == 0]
    assert divisors(whole) == counted
    assert [bool(divides(float(n), whole)) for n in range(1, whole + 1)] == [
        n in counted for n in range(1, whole + 1)
    ]


def test_divides_takes_columns() -> None:
    assert divides(np.array([2.0, 3.0, 5.0]), np.array([8.0, 9.0, 9.0])).tolist() == [True, True, False]


@every(("value", "whole", "told"), [(5, 12, "4 or 6"), (6, 12, "6 or 12"), (99, 12, "12"), (0.5, 12, "1")])
def test_the_nearest_divisors(value: float, whole: int, told: str) -> None:
    assert nearest_divisors(value, whole) == told


def broken(
    model: str = "dense", gpus: int = 16, workload: dict[str, int] | None = None, **fields: object
) -> dict[str, str]:
    work = job(MODELS[model], gpus, **(workload or {}))
    plan = plan_of(work, **fields)
    plan = replace(plan, dp=floor(plan.dp), num_microbatches=floor(plan.num_microbatches))
    found = violations(structural_rules(plan, work.model, work.workload, gpus))
    return {violation.rule: violation.nearest for violation in found}


def test_a_good_plan_breaks_nothing() -> None:
    assert broken(tp=4, pp=2) == {}


@every(
    ("fields", "rule", "nearest"),
    [
        ({"tp": 3}, "degrees-make-gpus", "dp 4 or 8"),
        ({"tp": 8, "micro_batch": 3}, "batch-divides", "micro-batch 2 or 4"),
        ({"micro_batch": 1, "workload": {"global_batch": 100}}, "batch-divides", "global batch 96"),
        ({"micro_batch": 2, "workload": {"global_batch": 8}}, "batch-divides", "global batch 32"),
        ({"pp": 16}, "stages-have-layers", "pp 12, vpp 1"),
        ({"ep": 2}, "experts-divide", "1"),
        ({"pp": 4, "stage_layers": (3, 3, 3)}, "split-has-all-stages", "3-3-3-3"),
        ({"pp": 4, "stage_layers": (3, 3, 3, 4)}, "split-has-all-stages", "3-3-3-3"),
        ({"pp": 4, "stage_layers": (-1, 4, 4, 5)}, "split-has-all-stages", "3-3-3-3"),
        ({"pp": 4, "stage_layers": (0, 4, 4, 4)}, "split-has-all-stages", "3-3-3-3"),
        ({"pp": 4, "stage_layers": ()}, "split-has-all-stages", "3-3-3-3"),
    ],
)
def test_a_broken_rule_says_what_would_be_right(fields: dict[str, Any], rule: str, nearest: str) -> None:
    found = broken(**fields)
    assert rule in found
    assert not nearest or found[rule] == nearest


def test_all_broken_rules_are_told_at_once() -> None:
    found = broken("experts", ep=3, etp=5, pp=16, micro_batch=7)
    assert {"batch-divides", "stages-have-layers", "experts-divide", "expert-mesh-divides"} <= set(found)
    assert found["experts-divide"] == "2 or 4"


def told(
    work_fields: dict[str, object] | None = None, model: str = "dense", **fields: object
) -> dict[str, str]:
    work = job(MODELS[model], **(work_fields or {}))
    plan = plan_of(work, **fields)
    case = case_of(plan, work, runtime())
    return {broken.rule: broken.nearest for broken in violations(technique_rules(plan, case))}


@every(
    ("fields", "rule", "nearest"),
    [
        ({"pp": 2, "vpp": 2, "schedule": "1f1b"}, "schedule-runs", "interleaved-1f1b"),
        ({"pp": 2, "vpp": 1, "schedule": "interleaved-1f1b"}, "schedule-runs", "1f1b"),
        ({"cp": 32, "cp_method": "all-to-all"}, "context-splits-heads", "ring"),
        ({"zero": 1, "zero_shards": 3}, "shards-divide", "16"),
        ({"work_fields": {"precision": "nvfp4"}}, "precision-has-units", ""),
        ({"work_fields": {"seq_len": 2047}, "tp": 4, "sequence_parallel": True}, "sequence-divides", "2044"),
        ({"cp": 2, "work_fields": {"seq_len": 2046}}, "sequence-divides", "2044"),
    ],
)
def test_a_technique_says_why_it_cannot_run(fields: dict[str, object], rule: str, nearest: str) -> None:
    found = told(**fields)  # type: ignore[arg-type]
    assert rule in found
    assert not nearest or found[rule] == nearest


@every("schedule", ["1f1b", "interleaved-1f1b", "zb-v", "gpipe", "dualpipe"])
def test_a_schedule_that_cannot_run_says_what_it_expects(schedule: str) -> None:
    """One that has no micro-batch too: no rule of a schedule speaks of that."""
    refused = 0
    for pp, vpp, passes in product((1, 2, 4), (1, 2), (0.25, 1.0, 3.0, 8.0)):
        work = job(MODELS["dense"])
        plan = plan_of(work, pp=pp, vpp=vpp, schedule=schedule)
        plan = replace(plan, num_microbatches=passes)
        case = case_of(plan, work, runtime())
        for fault in violations(technique_rules(plan, case)):
            if fault.rule == "schedule-runs":
                refused += 1
                assert fault.expected
                assert passes >= 1 or "one micro-batch" in fault.expected
    assert refused >= 6


def test_more_ranks_than_sequences_are_told_how_many_there_may_be() -> None:
    work = job(MODELS["dense"], global_batch=8)
    plan = replace(plan_of(work, pp=1), dp=16.0, num_microbatches=0.5)
    (fault,) = (
        fault
        for fault in violations(technique_rules(plan, case_of(plan, work, runtime())))
        if fault.rule == "schedule-runs"
    )
    assert fault.nearest == "dp 8"


def test_legal_techniques_break_nothing() -> None:
    assert told(tp=2, cp=2, pp=2, zero=1, sequence_parallel=True) == {}
    assert told(cp=4, cp_method="all-to-all") == {}


def test_a_pool_has_no_more_accelerators_than_it_says() -> None:
    work = job()
    pool = work.hardware.pool.model_copy(update={"gpus": 8})
    small = replace(work, hardware=work.hardware.model_copy(update={"pools": (pool,)}))
    (fault,) = violations(technique_rules(plan_of(small), case_of(plan_of(small), small, runtime())))
    assert (fault.rule, fault.nearest) == ("pool-has-gpus", "8")
