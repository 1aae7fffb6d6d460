"""A scalar plan taken apart: what its ranks hold, what each piece costs, and the step that they make."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from planner import numeric
from planner.cost.case import Case
from planner.cost.layer.block_cost import PricedLayer
from planner.cost.layer.layer_costs import LayerCost, LayerDetail
from planner.cost.stages import Piece, RankPieces, Stages, both_ways, stages_of
from planner.cost.step.hosted import HostedStep, hosted_step, is_hosted
from planner.cost.step.layout import piece_costs, piece_details, priced_layers, ranks_of
from planner.cost.step.played import can_be_played, crosses_tiers
from planner.cost.step.step import (
    PassPrice,
    StepBytes,
    StepPrice,
    piece_totals,
    price_bytes,
    price_passes,
    price_step,
)
from planner.cost.step.step_end import StepEnd, step_end
from planner.cost.traffic.sharing import sharing
from planner.dataclasses import dataclass
from planner.numeric import Num
from planner.plan import Plan


@dataclass(frozen=True)
class PlanParts:
    """What a scalar plan is made of, each part worked out when it is first asked for."""

    plan: Plan
    """The plan."""
    case: Case
    """The job and its techniques."""

    @cached_property
    def ranks(self) -> list[RankPieces]:
        """Pieces of every pipeline rank."""
        return both_ways(ranks_of(self.plan, self.case), self.case.schedule)

    @cached_property
    def is_played(self) -> bool:
        """Whether the passes are priced by playing them.

        They are where ranks fill their waits, and where some messages come from so much farther away than
        others that stages are unlike; not where a step would take too many passes.
        """
        case, plan = self.case, self.plan
        if plan.pp == 1 or case.pipeline_code.ends_apart:
            return False
        unlike = case.plays or (crosses_tiers(case, plan) and bool(self.passes.unlike))
        return unlike and can_be_played(case, plan)

    @cached_property
    def stages(self) -> Stages:
        """The same as arrays."""
        return stages_of(self.ranks)

    @cached_property
    def totals(self) -> dict[Piece, Num]:
        """Pieces of the whole model."""
        return piece_totals(self.ranks)

    @cached_property
    def layers(self) -> dict[str, PricedLayer]:
        """Operators and messages of each kind of layer."""
        return priced_layers(self.case, self.plan, self.totals)

    @cached_property
    def costs(self) -> dict[Piece, LayerCost]:
        """What each piece costs."""
        return piece_costs(self.case, self.plan, self.layers, self.totals)

    @cached_property
    def details(self) -> dict[Piece, LayerDetail]:
        """What each piece costs, by cause."""
        return piece_details(self.case, self.plan, self.layers, self.totals)

    @cached_property
    def passes(self) -> PassPrice:
        """The price of all passes, by the schedule's closed form."""
        return price_passes(self.case, self.plan, self.costs, self.stages, self.totals)

    @cached_property
    def hosted(self) -> HostedStep | None:
        """The step played with its copies, where the schedule sends activations to the host."""
        return hosted_step(self.case, self.plan, self.costs) if is_hosted(self.case, self.plan) else None

    @cached_property
    def end(self) -> StepEnd:
        """What the end of the step takes."""
        held, mean = (
            sharing(self.case, self.plan, weights) for weights in (self.passes.weights, self.passes.mean)
        )
        return step_end(self.case, held, mean)

    @cached_property
    def held(self) -> StepBytes:
        """What the step needs in memory."""
        return price_bytes(self.case, self.plan, self.passes, self.stages)

    @property
    def peak(self) -> float:
        """What the peak stage needs, whatever the step takes. [byte]"""
        return float(numeric.max(self.held.total))

    def stepped(self, passes: PassPrice) -> StepPrice:
        """Return the price of the step whose passes take other seconds."""
        return price_step(self.case, self.plan, passes, self.end, self.held)

    @cached_property
    def step(self) -> StepPrice:
        """The price of the step that has these passes."""
        return self.stepped(self.passes)

    @cached_property
    def slowest(self) -> int:
        """The stage that takes longest for a micro-batch."""
        return int(np.argmax(self.passes.micro))

    @property
    def slowest_hop(self) -> float:
        """Seconds of messages in a micro-batch on that stage. [s]"""
        return float(np.broadcast_to(self.passes.hop, (len(self.ranks),))[self.slowest])

    @cached_property
    def microbatches(self) -> float:
        """Passes of a step. [-]"""
        return float(self.plan.num_microbatches)

    def on_stage(self, field: str, stage: int | None = None) -> float:
        """Return a detail summed over the pieces of a stage, the slowest where none is named."""
        place = self.slowest if stage is None else stage
        return float(
            sum(
                float(count[place]) * float(getattr(self.details[piece], field))
                for piece, count in self.stages.counts.items()
            )
        )
