"""What the plans of a chunk of rows share while a scan prices them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.cost.memory import StageWeights
from planner.cost.step import PassPrice
from planner.cost.step_end import StepEnd, taken_weights
from planner.search.legality import PassNames
from planner.search.tables import LayerGrid, Rows, StageTables


@dataclass(frozen=True)
class Ends:
    """The end of a step under every choice of states, priced once for each layout of the cluster.

    Parameters
    ----------
    states : tuple of StepEnd, optional
        For each choice of states; None where it is not known.
    which : array (rows,)
        The layout of each row.
    weights : tuple of StageWeights, optional
        Weights of each stage, and of the mean one, of each layout; None where they are not known.
    """

    states: tuple[StepEnd | None, ...]
    which: Rows
    weights: tuple[StageWeights, StageWeights] | None = None

    def part(self, rows: slice | Rows) -> Ends:
        """Return those of some rows."""
        return Ends(self.states, self.which[rows], self.weights)

    def taken(self) -> tuple[StageWeights, StageWeights] | None:
        """Return the weights of the rows."""
        if self.weights is None:
            return None
        held, mean = (taken_weights(one, self.which) for one in self.weights)
        return held, mean


@dataclass(frozen=True)
class Chunk:
    """Rows whose passes are priced.

    Parameters
    ----------
    names : PassNames
        Techniques of the passes.
    places : array (rows,)
        Their places in the space.
    passes : PassPrice
        What the passes take.
    grid, tables : LayerGrid, StageTables
        Layers and stages of all rows of the space.
    """

    names: PassNames
    places: Rows
    passes: PassPrice
    grid: LayerGrid
    tables: StageTables

    def below(self, seconds: float, among: NDArray[np.bool_]) -> Rows:
        """Return the rows among some that no bound of their passes keeps from taking less. [s]"""
        bounds = np.broadcast_to(np.asarray(self.passes.bound), among.shape)
        return np.flatnonzero(among & (bounds < seconds))
