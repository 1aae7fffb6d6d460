"""The scan against a plain loop that prices every plan by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from planner.cost.case import case_of
from planner.cost.estimate import Estimate, estimate
from planner.cost.step.parts import PlanParts
from planner.cost.step.step_end import step_end
from planner.plan import DEGREES, Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.search import priced as priced_rows
from planner.search.candidates import NOTHING, ScanReport, Shortlist
from planner.search.choices import choices_of
from planner.search.request import objective_column
from planner.search.scan import Scan
from planner.search.space import AXES, axis_values, make_space
from planner.search.tables import distinct
from tests.cases import every
from tests.unit.cost_jobs import MODELS, is_legal, job, runtime

FIXED: dict[str, Any] = {"recompute": "selective", "offload": "none", "cp_method": "ring"}
KINDS = ("dense", "experts")
ENDLESS = 1e30


def work_of(kind: str) -> Job:
    return job(MODELS[kind], 4, global_batch=4)


def every_plan(kind: str) -> Iterator[Plan]:
    work, megatron = work_of(kind), runtime()
    axes = axis_values(work, {}, bare_ends=True)
    names = product(megatron.zero_stages, megatron.schedules, (False, True))
    for (zero, schedule, split), cell in product(names, product(*(axes[axis] for axis in AXES))):
        degrees = dict(zip(AXES, map(float, cell), strict=True))
        dp = work.gpus / (degrees["tp"] * degrees["cp"] * degrees["pp"])
        passes = work.workload.global_batch / (degrees["micro_batch"] * dp)
        alone = dp * degrees["cp"] == 1
        if dp < 1 or dp % 1 or passes < 1 or passes % 1 or (alone and zero) or (degrees["tp"] == 1 and split):
            continue
        if degrees["tp"] % degrees["etp"] or (degrees["pp"] == 1 and degrees["vpp"] > 1):
            continue
        if degrees["vpp"] > 1 and -work.model.num_layers % (degrees["pp"] * degrees["vpp"]) > 3:
            continue
        shards = dp * degrees["cp"] if zero else 1.0
        more = {"dp": dp, "num_microbatches": passes, "zero_shards": shards}
        plan = Plan(**degrees, **more, zero=zero, schedule=schedule, sequence_parallel=split, **FIXED)  # type: ignore[arg-type]
        if is_legal(plan, work, megatron):
            yield plan


@cache
def priced(kind: str) -> dict[Plan, Estimate]:
    return {plan: estimate(plan, work_of(kind), runtime()) for plan in every_plan(kind)}


def scanned(kind: str, limit: float = ENDLESS, objective: str = "time", keep: int = 100_000) -> ScanReport:
    work = work_of(kind)
    choices = choices_of(runtime(), FIXED)
    scan = Scan(work, runtime(), make_space(work, {}, bare_ends=True), choices, limit, limit, keep=keep)
    return scan.run(objective_column(objective))


@pytest.mark.parametrize("kind", KINDS)
def test_it_prices_every_legal_plan_and_no_other(kind: str) -> None:
    report, known = scanned(kind), priced(kind)
    assert report.valid == len(known) == len(report.best) > 50
    assert {candidate.plan for candidate in report.best} == set(known)


@every("kind", KINDS)
def test_every_cell_is_priced_or_removed_by_one_rule(kind: str) -> None:
    report = scanned(kind)
    axes = axis_values(work_of(kind), {}, bare_ends=True)
    cells = np.prod([len(axes[axis]) for axis in AXES])
    assert report.enumerated == cells * 2 * 2 * 4 == report.valid + sum(report.removed.values())
    assert min(report.removed.values()) > 0


@every("kind", KINDS)
@every("objective", ["time", "memory"])
@every("quantile", [0.02, 0.3, 1.0])
def test_the_winner_is_that_of_the_loop(kind: str, objective: str, quantile: float) -> None:
    known = priced(kind)
    limit = float(np.quantile([one.peak for one in known.values()], quantile))
    fitting = [one for one in known.values() if one.peak <= limit]
    report = scanned(kind, limit, objective, keep=3)
    values = sorted(one.step if objective == "time" else one.peak for one in fitting)
    assert [candidate.value for candidate in report.best] == values[: len(report.best)]
    assert len(report.best) == min(3, len(values))
    assert report.fits == len(fitting)
    assert [candidate.bound for candidate in report.of("split")] == sorted(one.bound for one in fitting)[:3]


def test_the_smallest_plan_is_known_where_nothing_fits() -> None:
    report = scanned("dense", limit=1.0)
    assert (report.best, report.fits) == ([], 0)
    assert report.smallest is not None
    assert report.smallest.total_bytes == min(one.peak for one in priced("dense").values())


def test_what_may_run_out_is_counted_and_not_offered() -> None:
    work = work_of("dense")
    peaks = sorted(one.peak for one in priced("dense").values())
    limit, capacity = peaks[len(peaks) // 3], peaks[len(peaks) // 2]
    scan = Scan(
        work,
        runtime(),
        make_space(work, {}, bare_ends=True),
        choices_of(runtime(), FIXED),
        limit,
        capacity,
        keep=10,
    )
    report = scan.run(objective_column("time"))
    assert report.fits == sum(peak <= capacity for peak in peaks)
    assert report.close == report.fits - sum(peak <= limit for peak in peaks)
    assert all(candidate.total_bytes <= limit for candidate in report.best)


def test_without_a_limit_only_legal_plans_are_kept() -> None:
    report = scanned("experts", limit=float("inf"))
    assert (report.valid, report.fits) == (len(report.best), len(report.best))
    assert {candidate.plan for candidate in report.best} == set(priced("experts"))


def test_chunks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = scanned("experts", keep=7)
    for place in ("scan", "priced"):
        monkeypatch.setattr(f"planner.search.{place}.CHUNK_ROWS", 13)
    parts = scanned("experts", keep=7)
    assert [one.value for one in whole.best] == [one.value for one in parts.best]
    assert (whole.valid, whole.removed) == (parts.valid, parts.removed)


def test_shards_that_the_user_fixes() -> None:
    work = work_of("dense")
    scan = Scan(
        work,
        runtime(),
        make_space(work, {}, bare_ends=True),
        choices_of(runtime(), FIXED | {"zero_shards": 4}),
        ENDLESS,
        ENDLESS,
        keep=999,
        shards=4,
    )
    report = scan.run(objective_column("time"))
    assert {candidate.plan.zero_shards for candidate in report.best} == {4.0}
    assert {candidate.plan.zero for candidate in report.best} == {1, 2, 3}
    assert report.removed["shards-divide"] + report.removed["zero-shards-divide"] > 0


@every("seed", range(5))
def test_merging_keeps_the_least(seed: int) -> None:
    draw = np.random.default_rng(seed)
    known = NOTHING
    seen: list[float] = []
    for _ in range(6):
        keys = np.where(draw.uniform(size=40) < 0.3, np.inf, draw.integers(0, 60, 40).astype(float))
        table, names = np.tile(keys, (len(NOTHING.table), 1)), np.full(40, dict(zero=1), dtype=object)
        rows = Shortlist(keys, table, names)
        known = known.merged(keys, keys < np.inf, 10, rows.taken)
        seen += keys[np.isfinite(keys)].tolist()
        assert known.keys.tolist() == [one.value for one in known] == sorted(seen)[:10]
        assert [one.plan for one in known] == [
            Plan(**dict.fromkeys(DEGREES, key), zero=1) for key in known.keys
        ]


def test_a_plan_of_the_scan_is_a_plan_of_its_own() -> None:
    candidate = scanned("dense").best[0]
    assert candidate.plan.shape == ()
    assert replace(candidate.plan, zero=0) != candidate.plan or candidate.plan.zero == 0


def test_distinct_combinations_are_those_of_numpy() -> None:
    draw = np.random.default_rng(4)
    columns = [draw.integers(1, 5, 300).astype(float) for _ in range(3)]
    values, which = distinct(columns)
    wanted, places = np.unique(np.stack(columns), axis=1, return_inverse=True)
    assert np.array_equal(np.stack(values), wanted)
    assert np.array_equal(which, places.reshape(-1))


def test_a_plan_without_stages_is_offered_under_one_schedule() -> None:
    """Torchtitan's ten schedules are the same program where there is no pipeline."""
    work = work_of("dense")
    titan = runtime("torchtitan")
    scan = Scan(
        work,
        titan,
        make_space(work, {}, bare_ends=True),
        choices_of(titan, {}),
        ENDLESS,
        ENDLESS,
        keep=100_000,
    )
    plans = [candidate.plan for candidate in scan.run(objective_column("time")).best]
    assert {plan.schedule for plan in plans if plan.pp == 1} == {"1f1b"}
    assert len({plan.schedule for plan in plans if plan.pp == 2}) > 3


HYBRID = job(MODELS["dense"], 16, global_batch=16)
TORCH = runtimes()["torchtitan"]


def hybrid_scan(keep: int, objective: str = "time") -> ScanReport:
    fixed = {"recompute": "none", "cp_method": "all-gather", "schedule": "1f1b", "micro_batch": 1}
    choices = choices_of(TORCH, fixed, HYBRID)
    scan = Scan(
        HYBRID, TORCH, make_space(HYBRID, {"micro_batch": 1}), choices, ENDLESS, ENDLESS, keep=keep,
        by_memory=objective == "memory",
    )  # fmt: skip
    return scan.run(objective_column(objective))


def test_shards_fill_a_node_beside_replicas_where_the_runtime_can_say_it() -> None:
    """Against a loop over every number of shards: those that fill eight accelerators, and all ranks."""
    report = hybrid_scan(100_000)
    found = {candidate.plan for candidate in report.best}
    whole = {plan for plan in found if plan.zero_shards == plan.dp * plan.cp or plan.zero == 0}
    expected = set(whole)
    for plan in whole:
        shards = 8.0 / plan.tp
        ranks = plan.dp * plan.cp
        if plan.zero >= 2 and shards % 1 == 0 and 1 < shards < ranks and ranks % shards == 0:
            hybrid = replace(plan, zero_shards=shards)
            if is_legal(hybrid, HYBRID, TORCH):
                expected.add(hybrid)
    assert found == expected
    assert len(found) > len(whole)
    assert report.enumerated == report.valid + sum(report.removed.values())
    assert report.skipped == 0
    for candidate in report.best:
        parts = PlanParts(candidate.plan, case_of(candidate.plan, HYBRID, TORCH))
        assert candidate.value == parts.step.step


@every("objective", ["time", "memory"])
@every("keep", [1, 5, 20])
def test_replicas_that_are_not_priced_could_not_be_kept(keep: int, objective: str) -> None:
    few, every = hybrid_scan(keep, objective), hybrid_scan(100_000, objective)
    assert [one.value for one in few.best] == [one.value for one in every.best[:keep]]
    assert [one.bound for one in few.of("split")] == [one.bound for one in every.of("split")[:keep]]
    assert few.valid == every.valid
    assert few.fits + few.skipped == every.fits


def test_runtimes_that_cannot_say_it_have_no_replicas_of_shards() -> None:
    for name, runner in runtimes().items():
        assert bool(choices_of(runner, {}, HYBRID).domains) == runner.hybrid_sharding, name
        assert not choices_of(runner, {"zero_shards": 4}, HYBRID).domains
    assert not choices_of(TORCH, {}, job(MODELS["dense"], 8)).domains


@every("hardware", ["p4d.24xlarge", "dgx-a100-80gb"])
def test_smaller_groups_gain_nothing_where_states_alone_are_sharded(hardware: str) -> None:
    """Why they are not searched: gradients and weights travel once a step, and then between nodes as well."""
    work = job(MODELS["dense"], 64, hardware=hardware, global_batch=64)
    whole = Plan(dp=64, num_microbatches=1, zero=1, zero_shards=64)
    steps = {
        shards: estimate(replace(whole, zero_shards=shards), work, runtime()).step for shards in (8, 32, 64)
    }
    assert min(steps, key=steps.__getitem__) == 64


@pytest.mark.parametrize("name", ["megatron-lm", "deepspeed", "fsdp"])
def test_choices_of_recompute_share_the_end_of_a_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An end is priced for whole layers that run again and for all else, and is that of each plan alone."""
    work, runner, asked = job(MODELS["dense"], 8, global_batch=8), runtimes()[name], []
    monkeypatch.setattr(priced_rows, "RECENT", [])
    monkeypatch.setattr(priced_rows, "step_end", lambda *given: asked.append(given) or step_end(*given))
    choices = choices_of(runner, {"offload": "none", "cp_method": runner.cp_methods[0]}, work)
    report = Scan(work, runner, make_space(work, {}), choices, ENDLESS, ENDLESS, keep=100_000).run(
        objective_column("time")
    )
    kinds = {(one.sequence_parallel, one.schedule) for one in choices.passes()}
    assert len({one.recompute for one in choices.passes()}) > 1
    assert 0 < len(asked) <= 2 * len(kinds) * len(choices.states())
    for candidate in report.best[::11]:
        assert candidate.value == PlanParts(candidate.plan, case_of(candidate.plan, work, runner)).step.step
