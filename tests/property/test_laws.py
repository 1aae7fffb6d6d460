"""What must hold for any plan on any cluster, whatever the constants."""

from __future__ import annotations

from dataclasses import astuple, replace
from functools import cache
from itertools import pairwise, permutations

import pytest

from planner.cost.estimate import Estimate, estimate
from planner.cost.stages import crests
from planner.plan import Plan
from planner.runtimes.family import Job
from planner.simulate.plan import play_plan
from planner.techniques.context import CONTEXT_METHODS
from planner.techniques.schedules import SCHEDULES
from tests.deep import deep
from tests.unit.cost_jobs import MODELS, any_runtime, faster, job, plan_of, random_plans

RUNTIME = any_runtime()
CLUSTERS = {"dense": "dgx-h100", "tied": "l40s-8-pcie", "experts": "mi300x-8", "latent": "gb200-nvl72"}
PLANS = deep(12, 20)
EACH = pytest.mark.parametrize("name", MODELS)


@cache
def work_of(name: str) -> Job:
    return job(MODELS[name], hardware=CLUSTERS.get(name, "dgx-a100-80gb"))


@cache
def plans(name: str) -> tuple[tuple[Job, Plan, Estimate], ...]:
    """Return random plans of a job with their prices, drawn once for all laws."""
    work = work_of(name)
    drawn = random_plans(work, RUNTIME, PLANS, seed=len(name))
    return tuple((work, plan, estimate(plan, work, RUNTIME)) for plan in drawn)


@EACH
def test_the_terms_of_time_add_up(name: str) -> None:
    for _, plan, known in plans(name):
        terms = astuple(known.time)
        assert min(terms) >= 0, plan
        assert sum(terms) == pytest.approx(known.step, rel=1e-12), plan


@EACH
def test_the_parts_of_memory_add_up(name: str) -> None:
    for _, plan, known in plans(name):
        assert len(known.stages) == plan.pp
        for stage in known.stages:
            parts = stage.weights, stage.gradients, stage.optimizer, stage.activations, stage.workspace
            assert min(parts) >= 0
            assert sum(parts) == pytest.approx(stage.allocated, rel=1e-12)
            assert stage.allocated + stage.reserve + stage.framework == pytest.approx(stage.total, rel=1e-12)


@EACH
@pytest.mark.parametrize("part", ["compute", "links", "memory"])
def test_a_faster_part_never_makes_a_step_slower(name: str, part: str) -> None:
    for work, plan, known in plans(name):
        assert estimate(plan, faster(work, **{part: 1.7}), RUNTIME).step <= known.step * (1 + 1e-12), plan


@EACH
def test_sharding_over_more_ranks_never_needs_more_memory(name: str) -> None:
    compared = 0
    for work, plan, known in plans(name):
        if plan.zero and plan.zero_shards % 2 == 0:
            compared += 1
            fewer = estimate(replace(plan, zero_shards=plan.zero_shards / 2), work, RUNTIME)
            assert known.peak <= fewer.peak, plan
    assert compared > 2


@EACH
@pytest.mark.parametrize("graphed", ["mlp", "passes"])
def test_a_graph_never_needs_less_memory_and_its_shards_never_more(name: str, graphed: str) -> None:
    work = work_of(name)
    without, graph = (any_runtime(step_bytes=4.0, graphed=word) for word in ("", graphed))
    for plan in random_plans(work, graph, PLANS // 2, seed=len(name)):
        needed = estimate(plan, work, graph).peak
        assert needed >= estimate(plan, work, without).peak * (1 - 1e-12), plan
        if plan.zero and plan.zero_shards % 2 == 0:
            fewer = replace(plan, zero_shards=plan.zero_shards / 2)
            assert needed <= estimate(fewer, work, graph).peak * (1 + 1e-12), plan


@EACH
def test_more_sequences_in_a_micro_batch_never_need_less_memory(name: str) -> None:
    """Whatever else is in the plan: context and expert parallelism, chunks, offload; the pipeline is full."""
    compared = 0
    for work, plan, known in plans(name):
        twice = replace(plan, micro_batch=2 * plan.micro_batch, num_microbatches=plan.num_microbatches / 2)
        if plan.num_microbatches % 2 == 0 and twice.num_microbatches >= max(plan.pp, 2.0):
            compared += 1
            assert known.peak <= estimate(twice, work, RUNTIME).peak * (1 + 1e-12), plan
    assert compared > 2


@EACH
def test_a_higher_stage_of_sharding_never_holds_more_states(name: str) -> None:
    for work, plan, _ in plans(name):
        shards = plan.dp * plan.cp
        held = [
            estimate(replace(plan, zero=zero, zero_shards=shards if zero else 1.0), work, RUNTIME)
            for zero in range(4)
        ]
        for lower, higher in pairwise(held):
            for before, after in zip(lower.stages, higher.stages, strict=True):
                states = before.weights + before.gradients + before.optimizer
                assert after.weights + after.gradients + after.optimizer <= states, plan


@EACH
def test_recompute_never_holds_more_activations(name: str) -> None:
    for work, plan, _ in plans(name):
        none, one, whole = (
            estimate(replace(plan, recompute=choice), work, RUNTIME) for choice in ("none", "full:1", "full")
        )
        for before, between, after in zip(none.stages, one.stages, whole.stages, strict=True):
            assert after.activations <= between.activations <= before.activations, plan
        assert whole.peak <= none.peak * (1 + 1e-12), plan
        assert none.recompute_flops == 0 < one.recompute_flops <= whole.recompute_flops


@pytest.mark.parametrize("name", ["dense", "tied", "experts"])
def test_recompute_never_makes_a_step_of_equal_layers_faster(name: str) -> None:
    """Without offloaded activations: of those recompute leaves fewer to move, and may be worth it.

    The whole may be faster than attention alone where a method's own checkpoints spare just that one.
    """
    for work, known, _ in plans(name):
        plan = replace(known, offload="none")
        none, selective, whole = (
            estimate(replace(plan, recompute=choice), work, RUNTIME).step
            for choice in ("none", "selective", "full")
        )
        assert none <= min(selective, whole), plan
        assert selective <= whole or CONTEXT_METHODS[plan.cp_method].keeps_attention, plan


@EACH
def test_more_sequences_in_a_step_never_take_less_time(name: str) -> None:
    work = work_of(name)
    more = replace(
        work, workload=work.workload.model_copy(update={"global_batch": 2 * work.workload.global_batch})
    )
    for _, plan, known in plans(name):
        longer = replace(plan, num_microbatches=2 * plan.num_microbatches)
        assert estimate(longer, more, RUNTIME).step > known.step, plan


def test_equal_stages_may_stand_in_any_order() -> None:
    """On one node: beside a message from another node a stage is unlike the others."""
    work = job(MODELS["dense"], 8)
    for pp, split in ((4, (3, 2, 4, 3)), (8, (1, 2, 1, 2, 1, 2, 2, 1))):
        plan = plan_of(work, tp=8 // pp, pp=pp, zero=1)
        middles = sorted(set(permutations(split[1:-1])))[:12]
        steps = {
            estimate(replace(plan, stage_layers=(split[0], *middle, split[-1])), work, RUNTIME).step
            for middle in middles
        }
        assert len(middles) > 1
        assert max(steps) == pytest.approx(min(steps), rel=1e-12)


@EACH
def test_a_step_costs_no_less_than_its_model_flops_at_the_peak(name: str) -> None:
    for _, plan, known in plans(name):
        assert 0 < known.mfu <= known.hfu < 1, plan


@pytest.mark.parametrize(
    "schedule", ["interleaved-1f1b", "interleaved-zb", "breadth-first", "zb-v", "dualpipe-v"]
)
def test_no_rank_is_played_with_more_memory_than_is_estimated(schedule: str) -> None:
    """Chunks of one and two layers, also of whole ones beside such that run again.

    Kinds of layers that keep nearly the same are counted as if they kept the same: up to 0.4%.
    """
    runner = replace(RUNTIME, schedules=(schedule,), offloads=("none",))
    unlike = 0
    for name in MODELS:
        work = job(MODELS[name], 8)
        slack = 1e-9 if len(set(work.model.layers)) == 1 else 0.004
        for plan in random_plans(work, runner, deep(5, 12), seed=7):
            played, alike = play_plan(plan, work, runner), work.model.num_layers % (plan.pp * plan.vpp) == 0
            unlike += not alike
            for stage, known in zip(played.record.stages, played.estimate.stages, strict=True):
                assert (stage.peak_bytes or 0.0) <= known.total * (1 + slack), (plan, stage.stage)
    assert unlike > deep(2, 5)


def test_chunks_in_flight_by_hand() -> None:
    """Two ranks, two chunks each, the first of three layers and the second of one.

    Rank 1 holds three chunks, all of its first one at the forward of micro-batches 2 and 3: 9 layers for 3
    mean chunks of 2. Rank 0 holds five, four of them of its first chunk: 13 layers for 10.
    """
    schedule = SCHEDULES["interleaved-1f1b"]
    assert crests(schedule, (2, 2), (3, 3, 1, 1)) == (1.3, 1.5)
    assert crests(schedule, (2, 2), (1, 1, 3, 3)) == (1.0, 1.0)
    assert crests(schedule, (2, 2), (2, 2, 2, 2)) == (1.0, 1.0)
    assert crests(schedule, (2, 2), (3, 1, 3, 1)) == (1.0, 1.0), "unlike ranks, but alike chunks on each"
    assert crests(SCHEDULES["breadth-first"], (2, 2), (3, 3, 1, 1)) == (1.0, 1.0), "all chunks are in flight"


@pytest.mark.parametrize(
    ("name", "hardware"), [("latent", "l40s-8-pcie"), ("sliding", "l40s-8-pcie"), ("experts", "dgx-h100")]
)
def test_recompute_of_some_layers_never_makes_a_step_faster(name: str, hardware: str) -> None:
    """Unlike layers, slow links; without offloaded activations, of which recompute leaves fewer to move."""
    work, slower = job(MODELS[name], hardware=hardware), 0
    for known in random_plans(work, RUNTIME, deep(40, 100), seed=9):
        plan = replace(known, offload="none")
        none, some, more, every = (
            estimate(replace(plan, recompute=choice), work, RUNTIME).step
            for choice in ("none", "full:1", "full:2", "full")
        )
        assert none <= min(some, more, every) * (1 + 1e-12), plan
        slower += none < some
    assert slower > deep(20, 50)
