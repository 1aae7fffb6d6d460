r"""Whether some split of the layers fits the stages, by filling one stage after another.

A stage that starts at layer :math:`s` may end at most where :math:`\sum_{l=s}^{e} b_{il} \le r_i + x`. No
partition gets further than the one that fills every stage, so what does not reach the last layer fits in no
way; and where every stage got a layer, the filling is itself a partition.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from planner.dataclasses import dataclass
from planner.numeric import Column
from planner.search.assign.plan_costs import PlanCosts
from planner.search.assign.problem import ROUNDING, layer_kinds


@dataclass(frozen=True)
class StageRoom:
    """What the layers of a plan need on each stage, and the room for them there."""

    sums: Column
    """Shape (stages, layers + 1): bytes of all layers before one, were they on that stage. [byte]"""
    room: Column
    """Shape (stages,): what a stage may use beside what it holds whatever its layers. [byte]"""
    capacity: float
    """What the roomiest stage may use. [byte]"""

    @classmethod
    def of(cls, costs: PlanCosts) -> StageRoom:
        """Return what a plan's layers need under the first of its recompute choices."""
        problem = costs.problem
        kinds = layer_kinds(problem)
        static, held = problem.static[kinds, 0], problem.held[kinds, 0]
        layers = static + problem.in_flight[:, None] * held
        sums = np.zeros((problem.stages, problem.layers + 1))
        np.cumsum(layers, axis=1, out=sums[:, 1:])
        fixed = problem.extra_bytes + np.maximum(float(costs.rebuilt[0]), problem.floor_bytes)
        return cls(sums, problem.capacity - fixed, float(problem.capacity.max()))

    @cached_property
    def fits(self) -> bool | None:
        """Whether a split fits; None where that is too close to say, or takes a search."""
        if self._filled(0.5 * ROUNDING * self.capacity):
            return True
        return False if self._filled(1.5 * ROUNDING * self.capacity) is False else None

    def _filled(self, excess: float) -> bool | None:
        """Whether the layers fit with so much more room; None where a stage got none."""
        room = self.room + excess
        if np.any(np.diff(self.sums, axis=1).min(axis=1) > room):
            return False
        stages, layers = len(room), self.sums.shape[1] - 1
        end, each = 0, True
        for stage, sums in enumerate(self.sums):
            start = end
            furthest = int(sums.searchsorted(sums[start] + room[stage], side="right")) - 1
            end = min(furthest, layers - (stages - 1 - stage))
            each = each and end > start
        return (each or None) if end == layers else False
