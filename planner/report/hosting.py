"""What a schedule sends to the host in a plan, in words."""

from __future__ import annotations

import numpy as np

from planner.cost.estimate import Estimate
from planner.cost.memory.activation_offload import copied_share
from planner.cost.step.parts import PlanParts
from planner.report.page import Page
from planner.techniques.schedules import SCHEDULES
from planner.units import GIB


def hosting_lines(answer: Estimate) -> Page:
    """Return how much waits on the host, or that copies outlast the passes."""
    if not SCHEDULES[answer.plan.schedule].hosts:
        return []
    parts = PlanParts(answer.plan, answer.case)
    if parts.hosted is None:
        return []
    share = float(np.max(copied_share(parts.case, answer.plan, parts.passes.layers)))
    if share > 1.0:
        return [
            f"Mind: copies to the host and back take {share:.2f} times the passes (k), so that memory is "
            f"reckoned as if nothing left; po-h copies half of it, gis-h nothing."
        ]
    return [
        f"Up to {max(parts.hosted.host) / GIB:.1f} GiB of each rank's activations wait on the host; copies "
        f"both ways take {share:.2f} of the passes (k)."
    ]
