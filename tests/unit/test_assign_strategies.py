"""Choices per run of real layers: prices as estimates have them, and answers that solvers agree on."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby, product

import numpy as np
import pytest

from planner.cost.case import case_of
from planner.cost.estimate import Estimate, estimate
from planner.cost.legal import HOST_SHARE
from planner.errors import Infeasible
from planner.plan import Plan
from planner.runtimes._family import Job
from planner.search.assign.decompose import decompose
from planner.search.assign.plan_costs import is_assignable
from planner.search.assign.problem import Assignment, Problem, Segment, layer_kinds, price
from planner.search.assign.program import GAP, Program, highs
from planner.techniques.offload._family import host_state_bytes
from planner.units import GIB
from tests.lab.strategies import Strategy, layout_of, strategy_problem
from tests.unit.assign_cases import brute_force
from tests.unit.cost_jobs import DENSE, GQA, MODELS, MOE, any_runtime, job, model, plan_of, random_plans
from tests.unit.test_activation_offload import linked

RUNTIME = any_runtime()


def uniform(problem: Problem, split: tuple[int, ...], strategy: int) -> Assignment:
    kinds, ends = layer_kinds(problem), np.cumsum(split)
    blocks = [kinds[end - size : end] for end, size in zip(ends, split, strict=True)]
    return tuple(
        tuple(Segment(kind, strategy, len(list(same))) for kind, same in groupby(block)) for block in blocks
    )


def of_estimate(work: Job, plan: Plan, strategy: Strategy) -> tuple[Problem, Assignment, Estimate]:
    """Return the problem of one strategy, its only assignment with the plan's split, and the estimate."""
    layout = layout_of(plan, strategy)
    known = estimate(layout, work, RUNTIME)
    problem = strategy_problem(layout, work, RUNTIME, [strategy], 1e15)
    assert known.plan.stage_layers is not None
    return problem, uniform(problem, known.plan.stage_layers, 0), known


EVERY = [
    Strategy(*names) for names in product(("none", "selective", "full"), (0, 1, 2), ("none", "optimizer"))
]


@pytest.mark.parametrize("name", ["dense", "experts", "sliding", "latent"])
def test_layers_that_all_take_a_strategy_are_priced_as_the_plan(name: str) -> None:
    """In one domain: stages with far and near messages are played, and an assignment has the closed form."""
    work, seen = linked(job(MODELS[name], 16, "gb200-nvl72", global_batch=64), 50e9), 0
    for plan in random_plans(work, RUNTIME, 60, seed=3, vpp=1, schedule="1f1b", offload="none"):
        if not is_assignable(replace(plan, zero=1), case_of(replace(plan, zero=1), work, RUNTIME)):
            continue
        strategy = EVERY[seen % len(EVERY)]
        problem, assignment, known = of_estimate(work, plan, strategy)
        told = price(problem, assignment)
        ending = known.time.dp_comm + known.time.optimizer + known.time.offload
        assert told.seconds - told.endings.max() == pytest.approx(known.step - ending, rel=1e-9)
        assert told.endings.max() == pytest.approx(ending, rel=0.25, abs=2e-3)
        expected = [stage.total for stage in known.stages]
        assert np.all(told.stage_bytes <= np.array(expected) * (1 + 1e-9))
        assert told.stage_bytes == pytest.approx(expected, rel=0.03)
        seen += 1
    assert seen >= 12


def test_what_an_offloaded_optimizer_takes_is_exact() -> None:
    """States and gradients on the host are those of the rule that bounds them."""
    work = linked(job(MODELS["dense"], 8, global_batch=64), 50e9)
    plan = plan_of(work, pp=4, zero=1, offload="optimizer")
    problem, assignment, known = of_estimate(work, plan, Strategy(offload="optimizer"))
    told, case = price(problem, assignment), case_of(plan, work, RUNTIME)
    layers = work.model.num_layers * work.model.blocks["a"].params(work.model.hidden, work.model.norm_params)
    whole = (case.optimizer_bytes + case.offload.down_bytes) * layers
    assert told.host_bytes.sum() * plan.dp == pytest.approx(host_state_bytes(whole, 1, 8, 8))
    assert problem.ending is not None
    assert told.endings.max() > 0.9 * known.time.offload
    assert problem.host is not None
    memory = case.pool.node.host_memory
    assert memory is not None
    assert problem.host.capacity.tolist() == [HOST_SHARE * float(memory) / 8] * 4


def test_offloaded_activations_leave_the_device() -> None:
    work = linked(job(MODELS["dense"], 8, global_batch=64), 1e9)
    plan = plan_of(work, pp=4, zero=1)
    problem = strategy_problem(plan, work, RUNTIME, [Strategy(), Strategy(offload="activations")], 1e15)
    assert problem.host is not None
    assert problem.held[0, 1] == problem.host.held[0, 0] == 0
    slack = 1 + RUNTIME.traits.allocator.reserve_share
    assert problem.host.held[0, 1] * slack == pytest.approx(problem.held[0, 0])
    copies = 2 * problem.host.held[0, 1] / 1e9
    hidden = problem.seconds[0, 0]
    assert problem.seconds[0, 1] == pytest.approx(hidden + copies - hidden, rel=0.2)
    assert problem.seconds[0, 1] >= copies


def test_sharded_parameters_are_close_to_a_plan_that_shards_all() -> None:
    work = job(MODELS["dense"], 16, global_batch=64)
    plan = plan_of(work, pp=2, zero=3)
    problem = strategy_problem(
        replace(plan, zero=1), work, RUNTIME, [Strategy(zero=3), Strategy(zero=1)], 1e15
    )
    known = {zero: estimate(replace(plan, zero=zero), work, RUNTIME) for zero in (1, 3)}
    told = {zero: price(problem, uniform(problem, (6, 6), row)) for row, zero in enumerate((3, 1))}
    saved = known[1].peak - known[3].peak
    assert told[1].stage_bytes.max() - told[3].stage_bytes.max() == pytest.approx(saved, rel=0.35)
    assert told[3].seconds > told[1].seconds


SMALL = model("small", {"a": {"mixer": GQA, "ffn": DENSE}, "b": {"mixer": GQA, "ffn": MOE}}, "2 a, 5 b")
MANY = [
    Strategy(),
    Strategy("selective"),
    Strategy("full"),
    Strategy(offload="activations"),
    Strategy(zero=2),
    Strategy(offload="optimizer"),
]


@pytest.mark.parametrize("share", [0.75, 0.85, 0.95])
def test_runs_choose_as_brute_force_does(share: float) -> None:
    work = linked(job(SMALL, 8, global_batch=24, seq_len=16384), 25e9)
    plan = plan_of(work, pp=4, ep=2, zero=1)
    problem = strategy_problem(plan, work, RUNTIME, MANY, share * estimate(plan, work, RUNTIME).peak)
    least = brute_force(problem)
    found = decompose(problem)
    assert found.incumbent == pytest.approx(least, rel=1e-12)
    program = Program(problem)
    highs(program, 30.0)
    assert price(problem, program.answer()).seconds == pytest.approx(least, rel=2 * GAP)
    chosen = {part.strategy for stage in found.assignment for part in stage}
    assert len(chosen) > 1


def with_small_host(problem: Problem) -> Problem:
    """Return the problem with hosts of one byte for each stage."""
    assert problem.host is not None
    return replace(problem, host=replace(problem.host, capacity=np.ones(problem.stages)))


def test_a_small_host_takes_less() -> None:
    """The second limit: with less host memory fewer layers go there, and the step is slower or impossible."""
    work = linked(job(SMALL, 8, global_batch=24, seq_len=16384), 400e9)
    plan = plan_of(work, pp=4, ep=2, zero=1)
    limit = 0.8 * estimate(plan, work, RUNTIME).peak
    problem = strategy_problem(plan, work, RUNTIME, [MANY[0], MANY[3]], limit)
    assert problem.host is not None
    roomy = decompose(problem)
    used = price(problem, roomy.assignment).host_bytes.max()
    assert used > GIB
    with pytest.raises(Infeasible, match="would need"):
        decompose(with_small_host(problem))
    rescued = with_small_host(strategy_problem(plan, work, RUNTIME, [MANY[0], MANY[3], MANY[2]], limit))
    assert decompose(rescued).incumbent == pytest.approx(brute_force(rescued), rel=1e-12)
    assert decompose(rescued).incumbent > roomy.incumbent


def test_layers_may_differ_in_tensor_parallelism_for_a_price() -> None:
    """Layer-wise layouts: what is unlike is gathered in between, forward and backward."""
    work = job(MODELS["dense"], 16, global_batch=64)
    plan = plan_of(work, pp=2, tp=2, dp=4, micro_batch=1, zero=1)
    problem = strategy_problem(plan, work, RUNTIME, [Strategy(), Strategy(tp=4)], 1e15)
    assert problem.reshard is not None
    assert problem.reshard[0, 1] == problem.reshard[1, 0] > 0 == problem.reshard[0, 0]
    wide = layout_of(plan, Strategy(tp=4))
    assert (wide.tp, wide.dp, wide.micro_batch) == (4, 2, 2)
    known = estimate(wide, work, RUNTIME)
    alone = strategy_problem(wide, work, RUNTIME, [Strategy(tp=4)], 1e15)
    assert problem.seconds[0, 1] == pytest.approx(alone.seconds[0, 0])
    assert known.plan.stage_layers == (6, 6)
    mixed = ((Segment(0, 0, 3), Segment(0, 1, 3)), (Segment(0, 0, 6),))
    one, two = problem.seconds[0, 0], problem.seconds[0, 1]
    told = price(problem, mixed)
    layers = told.stage_seconds[0] - problem.extra_seconds[0]
    assert layers == pytest.approx(3 * one + 3 * two + problem.reshard[0, 1])
    with pytest.raises(ValueError, match="no whole data parallelism"):
        layout_of(plan, Strategy(tp=16))
