r"""What a cut of a graph of layers costs: the stage that takes longest, and what each holds.

Stages are a chain, and send to the next one alone: a result that a later stage reads passes through those
between. Of stage :math:`i` with layers :math:`V_i` and the bytes :math:`c_i` that cross its two borders

.. math:: t_i = \sum_{v \in V_i} (f_v + b_v) + \frac{c_{i-1} + c_i}{B}, \quad
          m_i = \sum_{v \in V_i} \left(w_v + \min(M, p - i)\, a_v\right)

it receives results over the border before it and gradients over the one behind it, while what it sends runs
beside its passes; and 1F1B keeps the activations of :math:`\min(M, p - i)` micro-batches.

References
----------
.. [1] J. Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators,"
   arXiv:2006.16423, 2020, sec. 5: stages as sets of layers closed under what they read.
.. [2] J. Chen, Z. Chen, X. Qian, "GNNPipe," arXiv:2308.10087, 2023: layers of a graph network as stages.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.dataclasses import dataclass
from planner.inputs.layer_graph import LayerGraph

Stages = tuple[int, ...]
"""The stage of each layer, from 0."""


@dataclass(frozen=True)
class CutProblem:
    """A graph to be cut."""

    graph: LayerGraph
    """Its layers, each after those that it reads."""
    stages: int
    """Stages, each of at least one layer. [-]"""
    microbatches: int
    """Micro-batches of a step. [-]"""
    memory_limit: float
    """What a stage may hold, infinite where nothing limits it. [byte]"""
    rate: float
    """Of the link between two stages, infinite where messages take no time. [byte/s]"""

    def in_flight(self, stage: int) -> int:
        """Micro-batches whose activations a stage of 1F1B keeps. [-]"""
        return min(self.microbatches, self.stages - stage)

    def layer_bytes(self, layer: int, stage: int) -> float:
        """Bytes that a layer holds on a stage. [byte]"""
        known = self.graph.layers[layer]
        return float(known.weights) + self.in_flight(stage) * float(known.kept)


@dataclass(frozen=True)
class CutStage:
    """One stage of a cut graph: its layers, time of their passes, of messages, and bytes held. [s], [byte]"""

    layers: tuple[str, ...]
    compute: float
    messages: float
    held: float

    @property
    def seconds(self) -> float:
        """Time of a micro-batch. [s]"""
        return self.compute + self.messages


def border_bytes(problem: CutProblem, stages: Sequence[int]) -> list[float]:
    """Return the bytes of the results that cross each border between two stages. [byte]"""
    crossing = [0.0] * (problem.stages - 1)
    for source, nbytes, readers in problem.graph.results():
        for border in range(stages[source], max(stages[reader] for reader in readers)):
            crossing[border] += nbytes
    return crossing


def cut_stages(problem: CutProblem, stages: Sequence[int]) -> list[CutStage]:
    """Return every stage of a cut, priced."""
    borders = [0.0, *border_bytes(problem, stages), 0.0]
    found = []
    for stage in range(problem.stages):
        here = [layer for layer, place in enumerate(stages) if place == stage]
        layers = [problem.graph.layers[layer] for layer in here]
        found.append(
            CutStage(
                tuple(layer.name for layer in layers),
                sum(layer.seconds for layer in layers),
                (borders[stage] + borders[stage + 1]) / problem.rate,
                sum(problem.layer_bytes(layer, stage) for layer in here),
            )
        )
    return found


def slowest(problem: CutProblem, stages: Sequence[int]) -> float:
    """Return the time of the slowest stage, infinite where one holds too much or no layer. [s]"""
    found = cut_stages(problem, stages)
    fits = all(one.layers and one.held <= problem.memory_limit for one in found)
    return max(one.seconds for one in found) if fits else float("inf")
