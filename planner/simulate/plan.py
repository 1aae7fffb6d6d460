"""One step of a plan, played with the cost model's times for every chunk of the model."""

from __future__ import annotations

from collections import Counter

import numpy as np

from planner.cost.case import case_of
from planner.cost.estimate import Estimate, estimate
from planner.cost.memory.reserve import needed_share
from planner.cost.memory.stage_memory import held_in_flight
from planner.cost.stages import Piece
from planner.cost.step.host_time import host_step_seconds
from planner.cost.step.hosted import hosted_of, is_hosted
from planner.cost.step.parts import PlanParts
from planner.cost.step.played import (
    chunk_pieces,
    chunk_pipeline,
    mean_times,
    message_seconds,
    piece_sum,
    route_twice,
)
from planner.dataclasses import dataclass, replace
from planner.plan import Plan
from planner.runtimes.family import Job, Runtime
from planner.simulate.bare import check_supported
from planner.simulate.record import ActivationBytes, StepRecord, step_record
from planner.techniques.pipelines import PIPELINE_CODES
from planner.techniques.schedules.engine import Pipeline, Timeline, Times, play
from planner.techniques.schedules.family import Orders


@dataclass(frozen=True)
class PlayedPlan:
    """A plan's step, played."""

    estimate: Estimate
    """The closed form's answer."""
    pipeline: Pipeline
    """Chunks, and the times of their passes, exposed messages included."""
    wires: Times
    """Time of the message from each chunk to the next, hidden or not. [s]"""
    timeline: Timeline
    """The passes."""
    exchange: Times
    optimizer: Times
    offload: Times
    """What each rank does after the last pass of all: the exposed data-parallel traffic, the optimizer and
    its offload. [s]"""
    sizes: ActivationBytes
    """What a micro-batch leaves in each chunk, allocator reserve included. [byte]"""
    resting: Times
    """All other bytes of each rank at its peak. [byte]"""
    floor: float
    """Seconds that no assignment of the plan's layers to its stages can beat, however it is played. [s]"""
    host: float
    """Seconds that the host takes for the step, whatever the device does. [s]"""

    @property
    def tails(self) -> Times:
        """Seconds of each rank after the last pass of all. [s]"""
        parts = zip(self.exchange, self.optimizer, self.offload, strict=True)
        return tuple(map(sum, parts))

    @property
    def step(self) -> float:
        """Seconds from step to step: the longest span of a rank, where ranks need not wait for all. [s]"""
        apart = PIPELINE_CODES[self.estimate.runtime.traits.pipeline.code].ends_apart
        return self.record.longest_span if apart else self.record.makespan

    @property
    def record(self) -> StepRecord:
        """The step summed up: passes, data parallelism and optimizer."""
        passes, tails = step_record(self.timeline, self.sizes), self.tails
        makespan = max(passes.makespan + max(tails), self.host)
        stages = tuple(
            replace(stage, busy=stage.busy + tail, peak_bytes=(stage.peak_bytes or 0.0) + resting)
            for stage, tail, resting in zip(passes.stages, tails, self.resting, strict=True)
        )
        spans = [
            passes.makespan + tail - starts[0]
            for starts, tail in zip(self.timeline.starts, tails, strict=True)
        ]
        return StepRecord(
            makespan=makespan,
            bubble=makespan - max(stage.busy for stage in stages),
            longest_span=max(*spans, self.host),
            stages=stages,
        )


def play_plan(
    plan: Plan,
    job: Job,
    runtime: Runtime,
    memory_limit: float | None = None,
    jitter: float = 0.0,
    seed: int = 0,
    orders: Orders | None = None,
) -> PlayedPlan:
    """Play one step of a scalar plan.

    Parameters
    ----------
    plan, job, runtime : Plan, Job, Runtime
        What is played.
    memory_limit : float, optional
        Device memory that may be used. [byte]
    jitter : float
        Relative spread of pass times, log-normal with mean one. [-]
    seed : int
        Seed of the spread.
    orders : Orders, optional
        The passes of every rank, where not those of the plan's schedule.

    Raises
    ------
    UnsupportedPlan
        If the schedule cannot run the plan's degrees, or an order waits for ever; has every reason.
    """
    known = estimate(plan, job, runtime, memory_limit)
    plan, case = known.plan, case_of(known.plan, job, runtime)
    degrees = plan.pipeline
    check_supported(case.schedule, *degrees)
    chunks, parts = chunk_pieces(plan, case), PlanParts(plan, case)
    wires = message_seconds(plan, case)
    pipeline = chunk_pipeline(plan, case, chunks, parts.costs, wires)
    orders = orders or case.schedule.order(*degrees, mean_times(pipeline))
    if is_hosted(case, plan):
        timeline = hosted_of(case, plan, parts.costs).play(orders, pipeline, jitter, seed).timeline
    else:
        timeline = play(orders, pipeline, jitter, seed)
    columns = (parts.step.data_parallel, parts.step.optimizer, parts.step.offload)
    exchange, optimizer, offload = (_each_rank(column, degrees[0]) for column in columns)
    sizes, resting = rank_bytes(parts, known, chunks)
    return PlayedPlan(
        estimate=known,
        pipeline=pipeline,
        wires=wires,
        timeline=timeline,
        exchange=exchange,
        optimizer=optimizer,
        offload=offload,
        sizes=sizes,
        resting=resting,
        floor=float(parts.step.floor),
        host=float(host_step_seconds(case, plan)),
    )


def rank_bytes(
    parts: PlanParts, known: Estimate, chunks: list[Counter[Piece]]
) -> tuple[ActivationBytes, Times]:
    """Return what a micro-batch leaves in each chunk, and all other bytes of each rank at its peak.

    Where the peak moment has fewer activations than the micro-batches in flight leave, on the host or given
    back already, those of each chunk count for as much less.
    """
    plan, case, ranks, costs = parts.plan, parts.case, parts.ranks, parts.costs
    slack = 1.0 + needed_share(case)
    flying = np.broadcast_to(held_in_flight(case, plan, costs, parts.stages), (len(ranks),)).tolist()
    shares, resting = [], []
    for stage, pieces, layers in zip(known.stages, ranks, flying, strict=True):
        ends = piece_sum(pieces, costs, "held") - piece_sum(pieces, costs, "held", ends=False)
        shares.append(stage.activations / (layers + ends) if layers + ends else 0.0)  # an embedding alone
        resting.append(stage.total - slack * shares[-1] * layers)
    left = route_twice(case, [slack * piece_sum(chunk, costs, "held", ends=False) for chunk in chunks])
    homes = case.schedule.chunk_ranks(int(plan.pp), int(plan.vpp))
    held = tuple(size * shares[rank] for size, rank in zip(left, homes, strict=True))
    return ActivationBytes(held, held), tuple(resting)


def _each_rank(column: object, ranks: int) -> Times:
    return tuple(np.broadcast_to(np.asarray(column, float), (ranks,)).tolist())
