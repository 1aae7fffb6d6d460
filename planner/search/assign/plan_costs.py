"""From a plan to the assignment problem: what each kind of layer costs under each recompute choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from planner.cost.case import Case, case_of
from planner.cost.layer.layer_costs import LayerCost
from planner.cost.memory.message_buffers import message_buffer_bytes
from planner.cost.memory.peaks import waiting_bytes
from planner.cost.memory.reserve import needed_share
from planner.cost.memory.stage_memory import pass_bytes, stage_memory
from planner.cost.memory.weights import stage_weights
from planner.cost.stages import ENCODER, ENDS, Piece, Stages
from planner.cost.step.layout import piece_costs, priced_layers
from planner.cost.traffic.messages import hop_seconds, pipeline_messages
from planner.cost.traffic.rank_order import stage_order
from planner.dataclasses import dataclass, replace
from planner.formulas.pipeline import Pipe
from planner.numeric import Column
from planner.plan import Plan
from planner.runtimes.family import Job, Runtime
from planner.search.assign.problem import ROUNDING, AssignProblem, layer_kinds
from planner.search.relaxed import is_splittable
from planner.techniques.engines.family import PassBytes

Table = Mapping[str, LayerCost]
"""What one layer or end of each kind costs."""

MOST_TIMES_MEAN = 4
"""Layers of a stage tried at most, in multiples of the mean."""


@dataclass(frozen=True)
class PlanCosts:
    """A plan's layers under several recompute choices."""

    problem: AssignProblem
    """The assignment problem in which every layer chooses freely; a strategy for each name."""
    names: tuple[str, ...]
    """Recompute choices, as the plan spells them."""
    rebuilt: Column
    """Shape (S,): bytes that the largest layer of the model rebuilds under each choice. [byte]"""
    hop: float = 0.0
    """Seconds of a micro-batch's messages on a stage, at most. [s]"""


def is_assignable(plan: Plan, case: Case) -> bool:
    """Whether a rank holds one run of layers, once, so that its memory is a sum over them."""
    return bool(1 < plan.pp <= case.model.num_layers and plan.vpp == 1 and is_splittable(case))


def plan_costs(
    plan: Plan, job: Job, runtime: Runtime, names: Sequence[str], limit: float, relaxed: bool = False
) -> PlanCosts:
    """Return what the layers of a plan cost under each recompute choice.

    Parameters
    ----------
    plan, job, runtime : Plan, Job, Runtime
        A scalar plan that `is_assignable`.
    names : sequence of str
        Recompute choices, each for all layers.
    limit : float
        Bytes that a rank may be predicted to use. [byte]
    relaxed : bool
        Whether extra prediction layers take the fastest and the smallest of the choices, for a bound; else
        the first.
    """
    cases = [case_of(replace(plan, recompute=name), job, runtime) for name in names]
    case, kinds = cases[0], list(job.model.blocks)
    ends = _ends(case)
    priced = []
    for one in cases:
        pieces = [*((kind, one.recompute.layers > 0) for kind in kinds), *((end, False) for end in ends)]
        priced.append(piece_costs(one, plan, priced_layers(one, plan, pieces), pieces))
    tables: list[Table] = [{piece[0]: cost for piece, cost in costs.items()} for costs in priced]
    layers = [[table[kind] for table in tables] for kind in kinds]
    slack = 1.0 + needed_share(case)
    alone = _one_each(plan, priced[0])
    passes = pass_bytes(case, plan, priced[0], alone)
    static = _static_bytes(case, plan, priced[0], passes, alone)
    present = sorted(set(job.model.layers), key=kinds.index)
    rebuilt = [slack * max(float(table[kind].rebuilt) for kind in present) for table in tables]
    sum_weight = _sum_weight(case, plan, tables[0])
    extra = tables if relaxed else tables[:1]
    loss, in_flight, hops = float(np.max(passes.loss)), _in_flight(case, plan), _hops(case, plan)
    problem = AssignProblem(
        runs=tuple((kinds.index(name), len(list(group))) for name, group in groupby(job.model.layers)),
        seconds=_array(layers, "seconds"),
        held=slack * _array(layers, "held"),
        rebuilt=slack * _array(layers, "rebuilt"),
        static=np.array([[static[kind]] * len(names) for kind in kinds]),
        extra_seconds=_extra_seconds(case, hops, extra),
        extra_bytes=_extra_bytes(case, extra, static, loss, in_flight)
        + float(message_buffer_bytes(case, plan)),
        floor_bytes=_floor_bytes(case, loss, len(in_flight)),
        in_flight=in_flight,
        capacity=np.full(int(plan.pp), limit),
        sum_weight=sum_weight,
        slowest_weight=float(plan.num_microbatches) - sum_weight,
    )
    return PlanCosts(problem, tuple(names), np.array(rebuilt), float(hops.max()))


def stage_columns(
    costs: PlanCosts, strategy: int, plain: int = 0, first: float = np.inf, tie: float = 0.0
) -> Column:
    """Seconds of every block on every stage where the ``first`` layers of a stage take one strategy. [s]

    Parameters
    ----------
    costs : PlanCosts
        The plan's layers.
    strategy, plain : int
        What the first layers of each stage take, and what the others take.
    first : float
        How many; infinite for all. [-]
    tie : float
        Share by which a stage that fills its memory counts as longer: of equally fast splits the one that
        needs less memory is then the best. [-]

    Returns
    -------
    array (stages, layers + 1, most + 1)
        By the layer after the block's last and its size; infinite where it does not fit.
    """
    problem = costs.problem
    layers, stages = problem.layers, problem.stages
    most = min(layers - stages + 1, max(8, MOST_TIMES_MEAN * -(-layers // stages)))
    tables = problem.seconds, problem.static, problem.held
    seconds, static, held = _summed(tables, problem, most, strategy, plain, first)
    nbytes, outside = _stage_bytes(costs, static, held, strategy), _places(layers, most, first)[-1]
    capacity = problem.capacity[:, None, None]
    longer = 1.0 + tie * np.minimum(nbytes / capacity, 1.0)
    block = longer * (seconds + problem.extra_seconds[:, None, None])
    columns: Column = np.where((nbytes <= capacity * (1 + ROUNDING)) & ~outside, block, np.inf)
    return columns


def excess_columns(costs: PlanCosts) -> Column:
    """Bytes by which every block exceeds what a stage may use, all layers under the first strategy. [byte]

    Returns
    -------
    array (stages, layers + 1, most + 1)
        As `stage_columns`; negative where there is room, infinite where there is no such block.
    """
    problem = costs.problem
    most = problem.layers - problem.stages + 1
    outside = _places(problem.layers, most, np.inf)[-1]
    static, held = _summed((problem.static, problem.held), problem, most, 0, 0, np.inf)
    excess = _stage_bytes(costs, static, held, 0) - problem.capacity[:, None, None]
    columns: Column = np.where(outside, np.inf, excess)
    return columns


@lru_cache(maxsize=64)
def _places(
    layers: int, most: int, first: float
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]:
    """Return the first layer of every block, that after its ``first`` ones, and where there is no block."""
    ends, sizes = np.arange(layers + 1)[:, None], np.arange(most + 1)[None, :]
    starts = np.maximum(ends - sizes, 0)
    middle = np.minimum(starts + np.minimum(sizes, first), layers).astype(np.intp)
    return starts, middle, (sizes > ends) | (sizes == 0)


def _summed(tables: Sequence[Column], problem: AssignProblem, most: int, *chosen: float) -> list[Column]:
    """Sums of tables (K, S) over the layers of every block whose first layers take one strategy of two."""
    strategy, plain, first = chosen
    starts, middle, _ = _places(problem.layers, most, first)
    kinds = layer_kinds(problem)
    found = []
    for table in tables:
        own, others = (_cumulated(table[kinds, int(one)]) for one in (strategy, plain))
        found.append(own[middle] - own[starts] + others[:, None] - others[middle])
    return found


def _cumulated(values: Column) -> Column:
    """Sum of the values before each place."""
    return np.concatenate([[0.0], np.cumsum(values)])


def _stage_bytes(costs: PlanCosts, static: Column, held: Column, strategy: int) -> Column:
    """Bytes of every block on every stage, from those at rest and those of each micro-batch. [byte]"""
    problem = costs.problem
    rebuilt = np.maximum(float(costs.rebuilt[strategy]), problem.floor_bytes)
    fixed = (problem.extra_bytes + rebuilt)[:, None, None]
    nbytes: Column = fixed + static + problem.in_flight[:, None, None] * held
    return nbytes


def _static_bytes(
    case: Case, plan: Plan, costs: Mapping[Piece, LayerCost], passes: PassBytes, alone: Stages
) -> dict[str, float]:
    """Bytes at rest of one layer or end of each kind: weights, gradients and optimizer. [byte]"""
    memory = stage_memory(case, plan, passes, stage_weights(case, costs, alone), alone)
    total = np.broadcast_to(memory.weights + memory.gradients + memory.optimizer, (len(costs),))
    return {piece[0]: float(total[row]) for row, piece in enumerate(costs)}


def _one_each(plan: Plan, costs: Mapping[Piece, LayerCost]) -> Stages:
    """Return stages, as they are at the end of the pipeline, that hold one piece each."""
    identity = np.eye(len(costs))
    counts = {piece: identity[:, row] for row, piece in enumerate(costs)}
    return Stages(counts, np.full(len(costs), float(plan.pp) - 1.0))


def _ends(case: Case) -> list[str]:
    """Return the ends of a pipeline of several stages: a tied head is a copy of its own."""
    model = case.model
    return [
        "embedding",
        "head",
        *(["prediction"] * bool(model.prediction)),
        *(["tied_head"] * bool(model.prediction and model.prediction.layers > 1)),
        *([ENCODER] * bool(model.encoder)),
    ]


def _array(layers: list[list[LayerCost]], field: str) -> Column:
    return np.array([[float(getattr(cost, field)) for cost in row] for row in layers])


def _first_stage(case: Case) -> list[str]:
    """Return what the first stage holds beside its layers."""
    return ["embedding", *([ENCODER] * bool(case.model.encoder))]


def _last_stage(case: Case) -> list[tuple[str, int]]:
    """Return what the last stage holds beside its layers, with their numbers."""
    prediction = case.model.prediction
    if prediction is None:
        return [("head", 1)]
    again = prediction.layers
    others = [("tied_head", again - 1)] if again > 1 else []
    return [("head", 2), *others, ("prediction", again), (prediction.block, again)]


def _hops(case: Case, plan: Plan) -> Column:
    """Seconds of a micro-batch's messages on each stage. [s]"""
    messages = pipeline_messages(case, int(plan.pp), int(plan.vpp), order=stage_order(case, plan))
    return np.array([float(hop_seconds(case, plan, counts)) for counts in messages])


def _extra_seconds(case: Case, hops: Column, tables: Sequence[Table]) -> Column:
    """Seconds of each stage beside its layers; an extra layer by the fastest table. [s]"""
    extra = hops.copy()
    extra[0] += sum(float(tables[0][name].seconds) for name in _first_stage(case))
    for name, count in _last_stage(case):
        extra[-1] += count * min(float(table[name].seconds) for table in tables)
    return extra


def _extra_bytes(
    case: Case, tables: Sequence[Table], static: Mapping[str, float], loss: float, in_flight: Column
) -> Column:
    """Bytes of each stage beside its layers; an extra layer by the smallest table. [byte]"""
    slack = 1.0 + needed_share(case)
    extra = np.full(len(in_flight), case.traits.allocator.framework_bytes + slack * waiting_bytes(case))
    for name in _first_stage(case):
        flying = float(in_flight[0]) if name == ENCODER else 1.0
        extra[0] += static[name] + slack * flying * float(tables[0][name].held)
    last = float(in_flight[-1])
    for name, count in _last_stage(case):
        kept = min(float(table[name].held) for table in tables) * (1.0 if name in ENDS else last)
        extra[-1] += count * (static[name] + slack * kept)
    extra[-1] += slack * loss * case.loss.beside_backward
    return extra


def _floor_bytes(case: Case, loss: float, stages: int) -> Column:
    """Bytes of the loss beyond the backward that it stands beside. [byte]"""
    slack = 1.0 + needed_share(case)
    floor = np.zeros(stages)
    floor[-1] = slack * max(0.0, loss * (1.0 - case.loss.beside_backward))
    return floor


def _in_flight(case: Case, plan: Plan) -> Column:
    ranks = np.arange(int(plan.pp), dtype=float)
    held = case.schedule.chunks_alive(plan.pp, plan.vpp, plan.num_microbatches, ranks)
    return np.array(np.broadcast_to(held, ranks.shape), dtype=float)


def _sum_weight(case: Case, plan: Plan, table: Table) -> float:
    """What the bubble takes of each further stage's time, by the passes' mean shares; 1 for 1F1B. [-]"""
    whole = _model_sum(case, table, "seconds")
    forward = _model_sum(case, table, "forward") / whole
    weight = _model_sum(case, table, "weight_gradient") / whole
    pipe = Pipe(plan.pp, plan.vpp, plan.num_microbatches, forward, 1.0 - forward - weight, weight)
    return float(case.schedule.bubble_seconds(pipe)) / (float(plan.pp) - 1.0)


def _model_sum(case: Case, table: Table, field: str) -> float:
    """Sum of a field over the model's layers."""
    each = {name: float(getattr(table[name], field)) for name in case.model.blocks}
    return sum([each[name] for name in case.model.layers])
