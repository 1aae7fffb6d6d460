"""Passes of one plan played event by event, where no closed form of its schedule holds for unlike stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from planner.cost.case import Case
from planner.cost.layer.communication import beside_message_seconds, exposed_message_share, message_bytes
from planner.cost.layer.layer_costs import LayerCost
from planner.cost.stages import ENDS, Piece, end_pieces
from planner.cost.step.layout import split_of
from planner.cost.traffic.messages import chunk_tiers, message_widths, pipeline_messages
from planner.cost.traffic.rank_order import stage_order
from planner.formulas.messages import shared_seconds
from planner.plan import Plan
from planner.techniques.schedules.engine import Pipeline, Times, play
from planner.techniques.schedules.family import PassTimes, Schedule

MOST_PLAYED_PASSES: Final = 20_000
"""Passes of a step up to which it is played: a tenth of a second. [-]"""


def can_be_played(case: Case, plan: Plan) -> bool:
    """Whether a step has not too many passes to be played, in an order that can run."""
    schedule, degrees = case.schedule, plan.pipeline
    passes = 3.0 * schedule.routes * plan.pp * plan.vpp * plan.num_microbatches
    whole = len(split_of(plan, case)) == degrees[0] * degrees[1]
    return bool(passes <= MOST_PLAYED_PASSES and whole and not schedule.supports(*degrees))


def crosses_tiers(case: Case, plan: Plan) -> bool:
    """Whether some messages between the stages of a scalar plan cross another tier than others."""
    stages = pipeline_messages(case, int(plan.pp), int(plan.vpp), order=stage_order(case, plan))
    return len({tier for counts in stages for tier in counts}) > 1


def played_seconds(case: Case, plan: Plan, costs: Mapping[Piece, LayerCost]) -> float:
    """Seconds from the first pass of a step to the last, played with the plan's own chunks. [s]"""
    pipeline = chunk_pipeline(plan, case, chunk_pieces(plan, case), costs, message_seconds(plan, case))
    return makespan(case.schedule, plan.pipeline, pipeline)


@lru_cache(maxsize=1024)
def makespan(schedule: Schedule, degrees: tuple[int, int, int], pipeline: Pipeline) -> float:
    """Seconds that passes take: those of plans that differ in how they shard are played once. [s]"""
    return play(schedule.order(*degrees, mean_times(pipeline)), pipeline).makespan


def chunk_pieces(plan: Plan, case: Case) -> list[Counter[Piece]]:
    """Pieces of every chunk of a scalar plan; over the chunks of a rank they add up to `ranks_of`."""
    model, choice = case.model, case.recompute
    pp, vpp = int(plan.pp), int(plan.vpp)
    chunks: list[Counter[Piece]] = []
    again = [0] * pp
    start = 0
    for chunk, size in enumerate(split_of(plan, case)):
        pieces: Counter[Piece] = Counter()
        rank = case.schedule.placement(chunk, pp, vpp)
        for name in model.layers[start : start + size]:
            recomputed = again[rank] < choice.layers
            again[rank] += recomputed
            pieces[name, recomputed] += 1
        start += size
        chunks.append(pieces)
    shared = case.schedule.placement(0, pp, vpp) == case.schedule.placement(pp * vpp - 1, pp, vpp)
    ends = end_pieces(model, split_of(plan, case), shared, choice.layers > 0, case.prediction_apart)
    for chunk, piece, count in ends:
        chunks[chunk][piece] += count
    return chunks


def message_seconds(plan: Plan, case: Case) -> Times:
    """Seconds of the message from each chunk of a route to the next, by the tier that joins their ranks. [s]

    None at the end of a route, and where the next chunk is on the same rank.
    """
    pp = int(plan.pp)
    nbytes = message_bytes(case, plan, case.rank_tokens(plan))
    stride, widths = case.job.gpus / pp, message_widths(case, split_of(plan, case))
    return tuple(
        0.0 if tier is None else float(shared_seconds(width * nbytes, case.tiers[tier], stride))
        for tier, width in zip(wire_tiers(plan, case), widths * case.schedule.routes, strict=True)
    )


def wire_tiers(plan: Plan, case: Case) -> tuple[int | None, ...]:
    """Place of the tier of the message from each chunk of a route to the next; None where there is none."""
    degrees, parts = (int(plan.pp), int(plan.vpp)), int(plan.pp * plan.vpp)
    order = stage_order(case, plan)
    found: tuple[int | None, ...] = ()
    for route in range(case.schedule.routes):
        chunks = range(route * parts, (route + 1) * parts)
        found += chunk_tiers(case.schedule.placement, degrees, chunks, case.tiers, order)
    return found


def chunk_pipeline(
    plan: Plan,
    case: Case,
    chunks: list[Counter[Piece]],
    costs: Mapping[Piece, LayerCost],
    wires: Times,
    alone: Sequence[bool] | None = None,
) -> Pipeline:
    """Return the times of every chunk and message; ``alone`` says which go over a link that ranks share.

    As in the closed form, a message is in the pass of the chunk that it comes to, for every chunk, and over a
    link that ranks share for those alone to which one comes; where it occupies nobody, it is a latency.
    """
    occupies = case.pipeline_code.occupies
    tokens = case.rank_tokens(plan)
    beside = float(beside_message_seconds(case, plan, tokens)) if plan.pp > 1 else 0.0
    share = float(exposed_message_share(case, plan))
    alone = alone or [tier is not None and bool(case.tiers[tier].shared) for tier in wire_tiers(plan, case)]
    shown = tuple(
        (1.0 if shared else share) * seconds + beside if seconds else 0.0
        for shared, seconds in zip(alone, wires, strict=True)
    )
    still = (0.0,) * len(shown)
    exposed, last = shown if occupies else still, max(len(chunks) - 2, 0)
    forward, data, weight = [], [], []
    for number in range(len(exposed)):
        route, place = divmod(number, len(chunks))
        start, chunk = route * len(chunks), chunks[place]
        ahead = piece_sum(chunk, costs, "forward")
        behind = piece_sum(chunk, costs, "weight_gradient")
        before, after = start + max(place - 1, 0), start + min(place, last)
        coming = 0.0 if place == 0 and alone[before] else exposed[before]
        returning = 0.0 if place > last and alone[after] else exposed[after]
        forward.append(ahead + coming)
        data.append(piece_sum(chunk, costs, "seconds") - ahead - behind + returning)
        weight.append(behind)
    return Pipeline(
        ranks=case.schedule.chunk_ranks(int(plan.pp), int(plan.vpp)),
        forward=tuple(forward),
        input_gradient=tuple(data),
        weight_gradient=tuple(weight),
        hops=still if occupies else shown,
        routes=case.schedule.routes,
    )


def mean_times(pipeline: Pipeline) -> PassTimes:
    """Return the mean times of a chunk, for which orders are searched."""
    return PassTimes(
        float(np.mean(pipeline.forward)),
        float(np.mean(pipeline.input_gradient)),
        float(np.mean(pipeline.weight_gradient)),
    )


def piece_sum(
    chunk: Counter[Piece], costs: Mapping[Piece, LayerCost], field: str, ends: bool = True
) -> float:
    """Sum of a field of the cost over the pieces of a chunk, the model's ends included or not."""
    return sum(
        count * float(getattr(costs[piece], field))
        for piece, count in sorted(chunk.items())
        if ends or piece[0] not in ENDS
    )


def route_twice(case: Case, values: list[float]) -> Times:
    """Return the values of all chunks: a second route has its own copies."""
    return tuple(values) * case.schedule.routes
