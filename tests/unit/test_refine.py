"""Refinement: better splits of the layers, and what is proved of the best plan."""

from __future__ import annotations

from itertools import combinations

import pytest

from planner.cost.estimate import Estimate, estimate
from planner.search.assign.improve import Improver
from planner.search.candidates import Candidate
from planner.search.choices import choices_of
from planner.search.operators.split import balanced, best_of
from planner.search.refine import refine
from planner.search.request import objective_column
from planner.search.scan import Scan
from planner.search.space import make_space
from tests.cases import every
from tests.unit.cost_jobs import DENSE, GQA, job, model, plan_of, runtime

HEAVY_HEAD = model("heavy-head", {"a": {"mixer": GQA, "ffn": DENSE}}, "12 a", vocab=256_000)
WORK = job(HEAVY_HEAD, 8, global_batch=16)


def scan(limit: float = 1e30, split: tuple[int, ...] | None = None, keep: int = 10_000) -> Scan:
    fixed = {"cp_method": "ring", "offload": "none", "recompute": "none", "zero": 1}
    return Scan(
        WORK, runtime(), make_space(WORK, {"cp": 1}, split), choices_of(runtime(), fixed), limit, limit,
        keep=keep, split=split,
    )  # fmt: skip


def candidate(**fields: int) -> Candidate:
    return Candidate(0.0, 0.0, 0.0, plan_of(WORK, zero=1, **fields))


def test_a_heavy_head_takes_layers_from_its_stage() -> None:
    plan = balanced(candidate(pp=4).plan, scan())
    assert plan is not None
    assert plan.stage_layers is not None
    assert sum(plan.stage_layers) == 12
    assert plan.stage_layers[-1] < 3
    default = estimate(candidate(pp=4).plan, WORK, runtime())
    assert best_of(candidate(pp=4), Improver(scan())).step < default.step


def passes(known: Estimate) -> float:
    """Seconds of a step without what its end adds."""
    return known.step - known.time.dp_comm - known.time.optimizer


@every("pp", [2, 4])
def test_the_balanced_split_has_the_fastest_passes_of_all(pp: int) -> None:
    found = balanced(candidate(pp=pp, micro_batch=2).plan, scan())
    assert found is not None
    times = []
    for cut in combinations(range(1, 12), pp - 1):
        split = tuple(b - a for a, b in zip((0, *cut), (*cut, 12), strict=True))
        plan = plan_of(WORK, zero=1, pp=pp, micro_batch=2, stage_layers=split)
        times.append(passes(estimate(plan, WORK, runtime())))
    assert passes(estimate(found, WORK, runtime())) == pytest.approx(min(times), rel=1e-9)


def test_one_stage_chunks_and_a_given_split_stay() -> None:
    assert balanced(candidate(pp=1).plan, scan()) is None
    assert balanced(plan_of(WORK, pp=2, vpp=2, schedule="interleaved-1f1b"), scan()) is None
    assert balanced(candidate(pp=2).plan, scan(split=(6, 6))) is None


def test_a_split_that_is_not_safe_is_not_taken() -> None:
    free = best_of(candidate(pp=4), Improver(scan()))
    tight = best_of(candidate(pp=4), Improver(scan(limit=free.peak * 0.999)))
    assert free.plan.stage_layers != (3, 3, 3, 3) == tight.plan.stage_layers


def test_the_proof_holds_against_refining_everything() -> None:
    whole = scan()
    report = whole.run(objective_column("time"))
    everything = sorted(best_of(one, Improver(whole)).step for one in report.best)
    refined = refine(whole, report, "time", 3)
    assert refined.proved
    assert refined.plans[0].step == everything[0] == refined.bound
    assert refined.refined < report.valid


def test_without_a_proof_the_bound_says_how_far_it_may_be() -> None:
    """Only two candidates are kept, so what else there was is known by the last bound alone."""
    few = scan(keep=2)
    refined = refine(few, few.run(objective_column("time")), "time", 1)
    everything = [best_of(one, Improver(scan())).step for one in scan().run(objective_column("time")).best]
    assert refined.bound <= min(everything) <= refined.plans[0].step
    assert refined.proved == (refined.bound == refined.plans[0].step)


def test_nothing_to_refine() -> None:
    none = scan(limit=1.0)
    refined = refine(none, none.run(objective_column("time")), "time", 3)
    assert (refined.plans, refined.proved) == ((), False)
