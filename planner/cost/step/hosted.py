"""Schedules that send activations to the host: the step with its copies, and what stays on the device."""

from __future__ import annotations

import math
from collections.abc import Mapping

from planner.cost.case import Case
from planner.cost.layer.layer_costs import LayerCost
from planner.cost.legal import MOST_COPIED_PASSES
from planner.cost.stages import Piece
from planner.cost.step.layout import split_of
from planner.cost.step.played import chunk_pieces, chunk_pipeline, mean_times, message_seconds, piece_sum
from planner.dataclasses import dataclass
from planner.plan import Plan
from planner.techniques.schedules.copies import CopiedStep, play_copied
from planner.techniques.schedules.engine import Pipeline, play
from planner.techniques.schedules.family import Orders


@dataclass(frozen=True)
class Hosted:
    """What a schedule keeps on the host, for a scalar plan."""

    chunks: range
    """Chunks whose activations go there between forward and backward."""
    sizes: tuple[float, ...]
    """What the layers of each chunk save for backward in a micro-batch, on one rank. [byte]"""
    copy: float
    """Time to copy those of the largest chunk, one way. [s]"""

    def play(self, orders: Orders, pipeline: Pipeline, jitter: float = 0.0, seed: int = 0) -> CopiedStep:
        """Play a step with its copies."""
        return play_copied(orders, pipeline, self.chunks, self.copy, jitter, seed)


def is_hosted(case: Case, plan: Plan) -> bool:
    """Whether the schedule of a scalar plan sends activations to the host, in an order that can run."""
    degrees = plan.pipeline
    if not case.schedule.hosts or plan.pp <= 1 or case.schedule.supports(*degrees):
        return False
    if 3.0 * degrees[0] * degrees[1] * degrees[2] > MOST_COPIED_PASSES:
        return False
    return len(split_of(plan, case)) == degrees[0] * degrees[1]


def hosted_of(case: Case, plan: Plan, costs: Mapping[Piece, LayerCost]) -> Hosted:
    """Return what the schedule of a scalar plan keeps on the host.

    Copies of a chunk take as long as those of the largest; without a known link they take no time, and a
    rule refuses the plan.
    """
    pp, vpp = int(plan.pp), int(plan.vpp)
    chunks = range(int(case.schedule.offloaded_chunks(vpp)) * pp)
    sizes = tuple(piece_sum(chunk, costs, "held", ends=False) for chunk in chunk_pieces(plan, case))
    largest = max(sizes[chunk] for chunk in chunks)
    return Hosted(chunks, sizes, largest / case.host_copy if math.isfinite(case.host_copy) else 0.0)


@dataclass(frozen=True)
class HostedStep:
    """A step of a scalar plan played with its copies, and without."""

    seconds: float
    alone: float
    """Passes from first to last, with copies and without. [s]"""
    device: tuple[float, ...]
    host: tuple[float, ...]
    """Most bytes of layers' saved tensors at once on each rank's device, those on their way included, and on
    the host. [byte]"""


def hosted_step(case: Case, plan: Plan, costs: Mapping[Piece, LayerCost]) -> HostedStep:
    """Play a scalar plan whose schedule sends activations to the host."""
    pipeline = chunk_pipeline(plan, case, chunk_pieces(plan, case), costs, message_seconds(plan, case))
    degrees = plan.pipeline
    orders = case.schedule.order(*degrees, mean_times(pipeline))
    hosted = hosted_of(case, plan, costs)
    step = hosted.play(orders, pipeline)
    peaks = step.peaks(hosted.sizes)
    return HostedStep(
        seconds=step.timeline.makespan,
        alone=play(orders, pipeline).makespan,
        device=tuple(device for device, _ in peaks),
        host=tuple(host for _, host in peaks),
    )
