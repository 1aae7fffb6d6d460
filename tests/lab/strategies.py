"""Choices per run of layers: recompute, sharding, what goes to the host, and tensor parallelism.

No runtime takes all of these run by run, so that a search offers less: see ``improve``. The problem is
what a planner of runtimes to come would solve, and what shows how much such a runtime could gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.cost.block_cost import LayerCost
from planner.cost.case import Case, case_of, filled_expert_shards
from planner.cost.data_parallel import data_parallel_seconds, traffic_of
from planner.cost.layout import piece_costs, priced_layers
from planner.cost.legal import HOST_SHARE
from planner.cost.memory import StageWeights
from planner.cost.peaks import gathered_bytes
from planner.cost.step_end import optimizer_seconds
from planner.cost.whole_matrices import whole_matrix_seconds
from planner.formulas.collectives import ring_seconds
from planner.numeric import Column, Num
from planner.plan import Plan
from planner.runtimes._family import Job, Runtime
from planner.search.assign.plan_costs import plan_costs
from planner.search.assign.problem import Ending, Host, Problem


@dataclass(frozen=True)
class Strategy:
    """How a run of layers is trained.

    Parameters
    ----------
    recompute : str
        As a plan spells it.
    zero : int
        What is sharded over data parallel.
    offload : str
        ``none``, ``optimizer`` or ``activations``: what of a layer is in host memory.
    tp : int, optional
        Tensor parallel degree, data parallelism taking what is left of the stage; None for the plan's own.
    """

    recompute: str = "none"
    zero: int = 1
    offload: str = "none"
    tp: int | None = None


def layout_of(plan: Plan, strategy: Strategy) -> Plan:
    """Return the plan in which all layers take a strategy, activations on the device.

    Raises
    ------
    ValueError
        If the degrees do not divide.
    """
    tp = plan.tp if strategy.tp is None else float(strategy.tp)
    dp = plan.dp * plan.tp / tp
    micro_batch = plan.micro_batch * plan.dp / dp
    if dp % 1 or micro_batch % 1:
        raise ValueError(f"tp {tp:.0f} leaves no whole data parallelism or micro-batch of {plan.slug}")
    return replace(
        plan,
        tp=tp,
        dp=dp,
        micro_batch=micro_batch,
        recompute=strategy.recompute,
        zero=strategy.zero,
        zero_shards=dp * plan.cp if strategy.zero else 1.0,
        offload="optimizer" if strategy.offload == "optimizer" else "none",
        stage_layers=None,
    )


def strategy_problem(
    plan: Plan, job: Job, runtime: Runtime, strategies: Sequence[Strategy], limit: float
) -> Problem:
    """Return the problem in which every layer of a plan chooses among strategies.

    Parameters
    ----------
    plan, job, runtime : Plan, Job, Runtime
        A scalar plan that `is_assignable`; the embedding and the head are trained as it says.
    strategies : sequence of Strategy
        What a layer may take.
    limit : float
        Bytes that a rank may be predicted to use. [byte]

    Notes
    -----
    A copy to the host hides behind the passes of its own layer; traffic of data parallelism is priced as
    part of a stage of mean length; parameters that are sharded are gathered for two layers at a time.
    """
    base = plan_costs(plan, job, runtime, [plan.recompute], limit).problem
    columns = [_Priced(layout_of(plan, one), one, job, runtime, limit) for one in strategies]
    kinds = len(job.model.blocks)

    def table(name: str) -> Column:
        return np.array([[getattr(column, name)(kind) for column in columns] for kind in range(kinds)])

    case = case_of(plan, job, runtime)
    memory = case.pool.node.host_memory
    ranks = min(case.pool.gpus_per_node, job.gpus)
    room = np.inf if memory is None else HOST_SHARE * float(memory) / ranks
    flat = np.zeros(base.stages)
    return replace(
        base,
        seconds=table("seconds"),
        held=table("held"),
        rebuilt=table("rebuilt"),
        static=table("static"),
        reshard=_reshard(case, [column.plan for column in columns]),
        host=Host(table("host_held"), table("host_static"), flat, np.full(base.stages, room)),
        ending=Ending(table("ending"), _ends_ending(case, plan, base)),
    )


class _Priced:
    """Layers of every kind under one strategy."""

    def __init__(self, plan: Plan, strategy: Strategy, job: Job, runtime: Runtime, limit: float) -> None:
        self.plan, self.hosted = plan, strategy.offload == "activations"
        self.case = case_of(plan, job, runtime)
        self.mean = float(job.model.num_layers / plan.pp)
        kept = plan if not self.case.sharding.shards_parameters else replace(plan, zero=2)
        resident = runtime.with_traits(sharded_at_rest=False)
        self.problem = plan_costs(kept, job, resident, [plan.recompute], limit).problem
        self.costs = layer_costs(self.case, plan, list(job.model.blocks))
        self.slack = 1.0 + self.case.traits.allocator.reserve_share

    def seconds(self, kind: int) -> float:
        """Seconds of a micro-batch, with what of the copies no pass hides. [s]"""
        cost, seconds = self.costs[kind], float(self.problem.seconds[kind, 0])
        if not self.hosted:
            return seconds
        copy = float(cost.held) / self.case.host_link
        backward = float(cost.seconds) - float(cost.forward)
        return seconds + max(0.0, copy - float(cost.forward)) + max(0.0, copy - backward)

    def held(self, kind: int) -> float:
        """Bytes on the device for each micro-batch in flight. [byte]"""
        return 0.0 if self.hosted else float(self.problem.held[kind, 0])

    def rebuilt(self, kind: int) -> float:
        """Bytes beside a layer while its backward runs: what comes back, and gathered weights. [byte]"""
        back = float(self.problem.held[kind, 0]) if self.hosted else 0.0
        gathered = 0.0
        if self.case.sharding.shards_parameters:
            cost = self.costs[kind]
            trained = float(cost.trained + cost.expert_trained)
            whole = gathered_bytes(self.case, trained, float(cost.stored + cost.expert_stored))
            gathered = self.slack * (2.0 * float(whole) + self.case.reduce_bytes * trained)
        return float(self.problem.rebuilt[kind, 0]) + back + gathered

    def static(self, kind: int) -> float:
        """Bytes at rest; sharded parameters are a share of what the others have. [byte]"""
        nbytes, cost, sharding = float(self.problem.static[kind, 0]), self.costs[kind], self.case.sharding
        if not sharding.shards_parameters:
            return nbytes
        dense = float(cost.stored) * (1.0 - 1.0 / float(sharding.parameter_shards(self.plan.zero_shards)))
        experts = float(cost.expert_stored)
        experts *= 1.0 - 1.0 / float(sharding.parameter_shards(filled_expert_shards(self.case, self.plan)))
        return nbytes - dense - experts

    def host_held(self, kind: int) -> float:
        """Bytes in host memory for each micro-batch in flight. [byte]"""
        return float(self.costs[kind].held) if self.hosted else 0.0

    def host_static(self, kind: int) -> float:
        """Bytes of optimizer states and gradients in host memory. [byte]"""
        if not self.case.offload.optimizer:
            return 0.0
        cost, sharding = self.costs[kind], self.case.sharding
        shard = float(cost.trained) / float(sharding.optimizer_shards(self.plan.zero_shards))
        experts = filled_expert_shards(self.case, self.plan)
        shard += float(cost.expert_trained) / float(sharding.optimizer_shards(experts))
        return (self.case.optimizer_bytes + self.case.offload.down_bytes) * shard

    def ending(self, kind: int) -> float:
        """Seconds after the passes, as part of a stage of mean length. [s]"""
        return ending_seconds(self.case, self.plan, [(self.costs[kind], self.mean)]) / self.mean


def layer_costs(case: Case, plan: Plan, names: Sequence[str]) -> list[LayerCost]:
    """Return the costs of layers or ends under a plan."""
    pieces = [(name, name in case.model.blocks and case.recompute.layers > 0) for name in names]
    table = piece_costs(case, plan, priced_layers(case, plan, pieces), pieces)
    return [table[piece] for piece in pieces]


def ending_seconds(case: Case, plan: Plan, parts: Sequence[tuple[LayerCost, float]]) -> float:
    """Seconds after the passes of a stage that holds so many of each layer or end. [s]"""

    def total(field: str) -> Num:
        return sum((count * getattr(cost, field) for cost, count in parts), 0.0)

    outside, inside = ("stored", "trained"), ("expert_stored", "expert_trained")
    (stored, trained), (expert_stored, expert_trained) = map(total, outside), map(total, inside)
    held = StageWeights(stored, expert_stored, trained, expert_trained)
    micro = total("seconds")
    exchange = data_parallel_seconds(case, plan, traffic_of(case, plan, held), micro, micro)
    optimizer, offload = optimizer_seconds(case, plan, held.trained, held.expert_trained)
    if case.optimizer.whole_matrices:
        optimizer = optimizer + whole_matrix_seconds(case, plan, held, divisible=True)
    return float(exchange + optimizer + offload)


def _ends_ending(case: Case, plan: Plan, base: Problem) -> Column:
    """Seconds that the ends add after the passes of a stage of mean length. [s]"""
    names = list(case.model.blocks)
    counts = [case.model.layers.count(name) / base.stages for name in names]
    mean = list(zip(layer_costs(case, plan, names), counts, strict=True))
    without = ending_seconds(case, plan, mean)

    def added(ends: Sequence[str], counts: Sequence[float]) -> float:
        parts = list(zip(layer_costs(case, plan, ends), counts, strict=True))
        return ending_seconds(case, plan, [*mean, *parts]) - without

    extra = np.zeros(base.stages)
    extra[0] += added(["embedding"], [1.0])
    prediction = case.model.prediction
    if prediction is None:
        extra[-1] += added(["head"], [1.0])
    else:
        again = float(prediction.layers)
        extra[-1] += added(["head", "prediction", prediction.block], [1.0 + again, again, again])
    return extra


def _reshard(case: Case, plans: Sequence[Plan]) -> Column | None:
    """Seconds of a micro-batch between layers of unlike tensor parallelism: gathered forward and back. [s]

    Ranks whose layers have fewer ranks to a copy hold fewer sequences; the others gather theirs.
    """
    if len({plan.tp for plan in plans}) == 1:
        return None
    costs = np.zeros((len(plans), len(plans)))
    for row, one in enumerate(plans):
        for column, other in enumerate(plans):
            narrow, wide = sorted((one, other), key=lambda plan: plan.tp)
            nbytes = 2.0 * wide.micro_batch * case.workload.seq_len / wide.cp * case.model.hidden
            once = ring_seconds(nbytes, wide.tp / narrow.tp, narrow.tp, case.tensor_tiers)
            costs[row, column] = 2.0 * float(once)
    return costs
