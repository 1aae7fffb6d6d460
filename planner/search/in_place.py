"""A plan whose nodes are lost and that goes on in place: micro-batches sent elsewhere, layers cut anew.

No runner that the planner knows does either; torchft drops the whole replica, as long as the first.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from planner.cost.estimate import Estimate
from planner.dataclasses import dataclass
from planner.formulas.elastic import recut_layers, rerouted_slowdown
from planner.plan import even_split


@dataclass(frozen=True)
class InPlace:
    """A plan without some of its nodes, none of its degrees changed."""

    old: Estimate
    """The plan with all."""
    nodes: int
    """Nodes that are lost, the first ones of one stage, which is the worst place. [-]"""

    @property
    def replicas(self) -> int:
        """Replicas of each stage. [-]"""
        return int(self.old.plan.dp)

    @cached_property
    def lost(self) -> tuple[int, ...]:
        """Replicas that each stage loses. [-]"""
        plan = self.old.plan
        stages, gone = int(plan.pp), self.nodes * self.old.job.hardware.pool.gpus_per_node
        stage, replica = self.old.job.gpus // stages, int(plan.tp * plan.cp)
        found = []
        for number in range(stages):
            here = min(stage, max(0, gone - number * stage))
            found.append(-(-here // replica))
        return tuple(found)

    @property
    def possible(self) -> bool:
        """Whether a replica of every stage is left."""
        return max(self.lost) < self.replicas

    @property
    def rerouted(self) -> float:
        """Seconds of a step whose other replicas do the lost ones' micro-batches. [s]"""
        return self.old.step * float(rerouted_slowdown(float(self.replicas), float(max(self.lost))))

    @cached_property
    def cut(self) -> tuple[int, ...]:
        """Layers of each stage after a cut by what each has left."""
        left = 1.0 - np.array(self.lost) / self.replicas
        return recut_layers(self.old.job.model.num_layers, left)

    @property
    def recut(self) -> float:
        """Seconds of a step after that cut. [s]"""
        plan, left = self.old.plan, 1.0 - np.array(self.lost) / self.replicas
        before = even_split(self.old.job.model.num_layers, int(plan.pp))
        slowest = float(np.max(np.array(self.cut) / left)) / max(before)
        return min(self.rerouted, self.old.step * slowest)
