"""A scan keeps no plan that breaks a rule, whatever is switched on beside it."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from planner.cost.case import case_of
from planner.cost.legal import all_rules
from planner.cost.settings import with_value
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import DEGREES, Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job, Runtime
from planner.runtimes.settings import ANY
from planner.search.candidates import ScanReport
from planner.search.request import SearchRequest, objective_column, scan_of
from planner.techniques.settings import SETTINGS
from tests.deep import deep

MODELS = ("llama3-8b", "qwen3-30b-a3b", "gpt-oss-20b")
KEPT = 256
"""Plans that a scan keeps for each of its uses."""

TECHNIQUES = ("zero", "recompute", "sequence_parallel", "cp_method", "schedule", "offload")


def switched(runtime: Runtime, draw: random.Random, turn: int) -> Runtime:
    """Return a runtime with settings at random that a search tries, and one of what else files can say."""
    for name in runtime.searched:
        runtime = with_value(runtime, name, draw.choice(list(SETTINGS[name].values)))
    said = [(name, values) for name, values in runtime.settings.items() if ANY not in values]
    name, values = said[turn % len(said)] if said else ("", ())
    return runtime.with_traits(**{name: draw.choice(values)}) if said else runtime


def scanned(job: Job, runtime: Runtime) -> ScanReport:
    """Return what a scan of a job keeps, without regard to memory."""
    request = SearchRequest(job.model, (job.hardware,), (job.gpus,), job.workload, (runtime,), {})
    scan = scan_of(request, job, runtime, keep=KEPT)
    scan.limit = scan.capacity = 1e30
    return scan.run(objective_column("time"))


def together(report: ScanReport) -> list[Plan]:
    """Return the plans that a scan kept, those of the same techniques as one of columns."""
    groups: dict[tuple[object, ...], set[Plan]] = defaultdict(set)
    for kept in (report.best, *report.candidates.values()):
        for one in kept:
            groups[tuple(getattr(one.plan, name) for name in TECHNIQUES)].add(one.plan)
    batches = []
    for names, plans in groups.items():
        columns: dict[str, Any] = {name: np.array([getattr(one, name) for one in plans]) for name in DEGREES}
        columns |= {"zero_shards": np.array([one.zero_shards for one in plans])}
        batches.append(Plan(**(columns | dict(zip(TECHNIQUES, names, strict=True)))))
    return batches


def broken(plan: Plan, job: Job, runtime: Runtime) -> set[str]:
    """Return the rules that some plan of a batch breaks."""
    rules = all_rules(plan, case_of(plan, job, runtime))
    return {rule.name for rule in rules if not np.all(rule.holds)}


@pytest.mark.parametrize("name", runtimes())
def test_no_plan_that_a_scan_keeps_breaks_a_rule(name: str) -> None:
    draw, rules, forbidden, kept = random.Random(name), set[str](), set[str](), 0
    for turn in range(deep(4, 16)):
        model = load_model(MODELS[turn % len(MODELS)])
        precision = draw.choice([one for one in ("bf16", "fp8") if one in runtimes()[name].precisions])
        work = Workload(seq_len=2048, global_batch=32, precision=precision)
        own = runtimes()[name].for_model(model)
        job = Job(own.trained(model), load_hardware(draw.choice(("dgx-h100", "dgx-b200"))), 8, work)
        runtime = switched(own, draw, turn)
        report = scanned(job, runtime)
        for plan in together(report):
            kept += len(np.atleast_1d(plan.tp))
            assert broken(plan, job, runtime) == set(), (model.name, plan)
            rules |= {rule.name for rule in runtime.setting_rules(plan, job, runtime)}
        forbidden |= rules & set(report.removed)
    assert kept > 0
    assert forbidden or not rules, "no setting forbade a plan: the law was not tried"
