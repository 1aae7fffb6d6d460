"""What must hold however many layers keep their saved tensors on the host, on any cluster."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from planner.cost.estimate import estimate
from planner.search.choices import choices_of
from planner.search.request import objective_column
from planner.search.scan import Scan
from planner.search.space import make_space
from tests.deep import deep, in_turn
from tests.unit.cost_jobs import MODELS, any_runtime, job, random_plans, runtime
from tests.unit.test_activation_offload import linked

RUNTIME = any_runtime()
PASSING = any_runtime(engine="fsdp1")
LAYERS = (0, 1, 2, 3, 5, 8, 13)
EACH = pytest.mark.parametrize("name", MODELS)


def offloads() -> list[str]:
    return [f"activations:{layers}" if layers else "none" for layers in LAYERS]


@pytest.mark.parametrize(("name", "kind"), in_turn(MODELS, (RUNTIME, PASSING)))
def test_more_layers_on_the_host_never_need_more_memory_nor_less_time(name: str, kind: object) -> None:
    work = linked(job(MODELS[name]), 5e9)
    smaller = slower = 0
    for plan in random_plans(work, RUNTIME, deep(12, 20), seed=len(name), offload="none"):
        priced = [estimate(replace(plan, offload=offload), work, kind) for offload in offloads()]  # type: ignore[arg-type]
        for fewer, more in pairwise(priced):
            assert more.peak <= fewer.peak * (1 + 1e-12), plan
            assert more.step >= fewer.step, plan
            smaller += more.peak < fewer.peak
            slower += more.step > fewer.step
    assert smaller > deep(10, 20)
    assert slower > 5


@EACH
def test_a_faster_host_link_is_never_slower(name: str) -> None:
    work, faster = 0, 0
    plain = job(MODELS[name])
    jobs = [linked(plain, rate) for rate in (1e9, 8e9, 63e9)]
    for plan in random_plans(plain, RUNTIME, deep(10, 20), seed=5, offload="activations:2"):
        steps = [estimate(plan, one, RUNTIME).step for one in jobs]
        assert steps == sorted(steps, reverse=True), plan
        work, faster = work + 1, faster + (steps[0] > steps[2])
    assert faster > work / 2


@EACH
def test_the_bound_holds_with_copies_in_the_step(name: str) -> None:
    work = linked(job(MODELS[name]), 5e9)
    for plan in random_plans(work, RUNTIME, deep(10, 20), seed=6, offload="activations:2"):
        known = estimate(plan, work, RUNTIME)
        assert known.bound <= known.step * (1 + 1e-12), plan


@pytest.mark.parametrize(("name", "kind"), [("dense", runtime()), ("sliding", RUNTIME), ("latent", PASSING)])
def test_a_scan_over_layers_gives_the_bits_of_estimates(name: str, kind: object) -> None:
    work = job(MODELS[name], 8)
    degrees = {"pp": 1, "cp": 1, "etp": 1}
    fixed = degrees | {"offload": "activations", "recompute": "none", "cp_method": "ring", "schedule": "1f1b"}
    space = make_space(work, degrees)
    scan = Scan(work, kind, space, choices_of(kind, fixed, work), 1e30, 1e30, keep=10**6)  # type: ignore[arg-type]
    report = scan.run(objective_column("time"))
    assert report.enumerated == report.valid + sum(report.removed.values())
    assert len({candidate.plan.offload for candidate in report.best}) > 3
    draw = np.random.default_rng(3)
    for index in draw.choice(len(report.best), min(60, len(report.best)), replace=False):
        candidate = report.best[index]
        known = estimate(candidate.plan, work, kind)  # type: ignore[arg-type]
        assert known.violations == ()
        assert (candidate.value, candidate.bound, candidate.total_bytes) == (
            known.step,
            known.bound,
            known.peak,
        )
