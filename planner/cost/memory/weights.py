"""Weights of the stages of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from planner.cost.case import Case
from planner.cost.layer.layer_costs import LayerCost, stage_sum
from planner.cost.stages import Piece, Stages
from planner.dataclasses import dataclass, field
from planner.numeric import Num


@dataclass(frozen=True)
class StageWeights:
    """Weights of each stage, or of one, on one rank; zero experts where the model has none."""

    stored: Num
    expert_stored: Num
    """Bytes at rest before sharding. [byte]"""
    trained: Num
    expert_trained: Num
    """Weights that learn. [element]"""
    counts: Mapping[Piece, Num] = field(default_factory=dict)
    """Layers and ends whose weights they are. [-]"""

    def on(self, stage: int) -> StageWeights:
        """Return those of one stage."""
        return self.mapped(lambda column: _on(column, stage))

    def mapped(self, change: Callable[[Num], Num]) -> StageWeights:
        """Return those with every number or array changed alike."""
        return StageWeights(
            change(self.stored),
            change(self.expert_stored),
            change(self.trained),
            change(self.expert_trained),
            {piece: change(count) for piece, count in self.counts.items()},
        )


def _on(column: Num, stage: int) -> float:
    values = np.atleast_1d(np.asarray(column, float))
    return float(values[stage if values.size > 1 else 0])


def stage_weights(case: Case, costs: Mapping[Piece, LayerCost], stages: Stages) -> StageWeights:
    """Return the weights of each stage."""
    stored, trained = stage_sum(costs, stages, "stored"), stage_sum(costs, stages, "trained")
    if not case.has_experts:
        return StageWeights(stored, 0.0, trained, 0.0, stages.counts)
    expert_stored, expert_trained = (
        stage_sum(costs, stages, name) for name in ("expert_stored", "expert_trained")
    )
    return StageWeights(stored, expert_stored, trained, expert_trained, stages.counts)
