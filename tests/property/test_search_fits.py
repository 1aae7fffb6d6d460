"""Whether anything fits, against whole scans; and memory that no split goes below, against random splits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.cost.case import case_of
from planner.cost.estimate import estimate
from planner.cost.step.layout import piece_costs, priced_layers, ranks_of
from planner.cost.step.step import piece_totals
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import even_split
from planner.runtimes import runtimes
from planner.search.choices import choices_of
from planner.search.fits import fits_any, is_refused, least_state_bytes
from planner.search.legality import named
from planner.search.relaxed import least_bytes
from planner.search.request import SearchRequest, objective_column
from planner.search.request import scan_of as requested_scan
from planner.search.scan import Scan
from planner.search.space import make_space
from planner.techniques.schedules import SCHEDULES
from tests.deep import deep, in_turn
from tests.unit.cost_jobs import BUILT, MODELS, any_runtime, job, random_plans, runtime

RUNTIMES = ("megatron-lm", "torchtitan", "deepspeed", "nanotron")

SHARES = deep((0.9, 0.999, 1.0), (0.5, 0.9, 0.999, 1.0, 1.3))
"""Limits, as shares of what the smallest plan needs."""


def scan_of(name: str, limit: float, shown: str = "megatron-lm", cp: int | None = 1, **fixed: object) -> Scan:
    work, runner = job(MODELS[name], 8, global_batch=16), runtime(shown)
    space = make_space(work, {"micro_batch": 1, "etp": 1, **({"cp": cp} if cp else {})})
    return Scan(work, runner, space, choices_of(runner, fixed), limit, limit, keep=1)


@pytest.mark.parametrize(
    ("shown", "name"), in_turn(("megatron-lm", "deepspeed", "torchtitan", "fsdp"), ("experts", "dense"))
)
def test_something_fits_where_a_whole_scan_finds_it(name: str, shown: str) -> None:
    smallest = scan_of(name, 1e30, shown).run(objective_column("memory")).best
    least = smallest[0].total_bytes if smallest else 1e10
    for share in SHARES:
        scan = scan_of(name, share * least, shown)
        assert (
            fits_any(scan) == bool(scan.run(objective_column("time")).best) == (share >= 1 and bool(smallest))
        )


@pytest.mark.parametrize("shown", RUNTIMES)
@pytest.mark.parametrize("name", ["gemma3-4b", "gpt-oss-20b", "llama3-8b"])
def test_a_model_that_a_runtime_cannot_build_is_refused_at_once(
    name: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one row answers for all, a whole scan has no legal plan, and no other row is asked."""
    work = Workload(seq_len=4096, global_batch=8)
    asked = SearchRequest(load_model(name), (load_hardware("dgx-h100"),), (8,), work, (runtimes()[shown],))
    scan = requested_scan(asked, *next(asked.jobs()))
    if not is_refused(scan):
        assert (name, shown) != ("gemma3-4b", "megatron-lm")
        return
    assert name != "llama3-8b"
    assert scan.run(objective_column("time")).valid == 0
    monkeypatch.setattr("planner.search.fits._fits_among", None)
    assert not fits_any(scan)


@pytest.mark.parametrize("name", BUILT)
def test_states_alone_are_no_more_than_the_whole(name: str) -> None:
    scan = replace(scan_of(name, 1e30, cp=None, recompute="none"), keep=100_000)
    least = least_state_bytes(scan)
    seen = 0
    for one in scan.run(objective_column("time")).best:
        for states, column in least.items():
            rows = named(scan.space.rows, scan.choices.passes()[0], states)
            if (states.zero, states.offload) != (one.plan.zero, one.plan.offload):
                continue
            axes = ("tp", "pp", "cp", "vpp", "ep", "micro_batch")
            same = np.all(
                [np.asarray(getattr(rows, axis)) == getattr(one.plan, axis) for axis in axes], axis=0
            )
            assert column[same].max() <= one.total_bytes * (1 + 1e-12), one.plan
            seen += 1
    assert seen > 100


def random_split(draw: np.random.Generator, layers: int, parts: int) -> tuple[int, ...]:
    if parts > layers:
        return even_split(layers, parts)
    cuts = sorted(draw.choice(np.arange(1, layers), parts - 1, replace=False).tolist())
    return tuple(int(size) for size in np.diff([0, *cuts, layers]))


@pytest.mark.parametrize(("name", "engine"), in_turn(MODELS, ("distributed-optimizer", "fsdp1")))
def test_no_split_needs_less_than_the_least(name: str, engine: str) -> None:
    work, runner = job(MODELS[name], 8, global_batch=16), any_runtime(engine=engine)
    draw, near = np.random.default_rng(5), []
    for plan in random_plans(work, runner, 60, seed=11):
        if plan.pp == 1 or plan.recompute.startswith("full:"):
            continue
        case = case_of(plan, work, runner)
        totals = piece_totals(ranks_of(plan, case))
        costs = piece_costs(case, plan, priced_layers(case, plan, totals), totals)
        least = float(least_bytes(case, plan, costs, totals))
        for _ in range(deep(2, 4)):
            split = random_split(draw, work.model.num_layers, int(plan.pp * plan.vpp))
            peak = estimate(replace(plan, stage_layers=split), work, runner).peak
            assert least <= peak * (1 + 1e-12), (plan, split)
            near.append(least / peak)
    assert len(near) > 20
    assert max(near) > 0.5


def test_the_first_rank_or_the_last_holds_the_fewest_micro_batches() -> None:
    """What the bound of memory rests on."""
    seen = 0
    for schedule in SCHEDULES.values():
        for pp, vpp, passes in np.ndindex(9, 4, 20):
            degrees = (pp + 2.0, vpp + 1.0, passes + 1.0)
            if schedule.legal(*degrees):
                ranks = np.arange(pp + 2.0)
                held = np.broadcast_to(schedule.in_flight_chunks(*degrees, ranks), ranks.shape)
                assert min(held[0], held[-1]) <= held.min() + 1e-9, (schedule.name, degrees)
                seen += 1
    assert seen > 1000
