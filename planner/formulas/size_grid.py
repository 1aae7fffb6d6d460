"""A correction that was measured on a grid of sizes, for what a law of few constants leaves."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.dataclasses import dataclass
from planner.numeric import Column, Num

PRODUCT_AXES: Final = ("m", "n", "k")
ATTENTION_AXES: Final = ("seq", "rows", "shared")
"""Queries of a sequence, sequences times query heads, and query heads for each key and value head."""


@dataclass(frozen=True)
class SizeGrid:
    """By how much kernels of some sizes take longer than a law says, as shares of its time.

    Parameters
    ----------
    nodes : tuple of tuple of float
        Sizes of the grid on each of its three axes, rising. [element]
    shares : tuple of float
        Share at every node, the last axis running fastest; negative where they are faster. [-]
    """

    nodes: tuple[tuple[float, ...], ...]
    shares: tuple[float, ...]

    @cached_property
    def _table(self) -> Column:
        return np.array(self.shares)

    @cached_property
    def _axes(self) -> tuple[Column, ...]:
        return tuple(np.array(axis) for axis in self.nodes)

    def share(self, *sizes: Num) -> Num:
        r"""Share at any sizes, linear between the nodes and constant beyond them.

        .. math:: s = \sum_{c \in \{0, 1\}^3} s_{i + c} \prod_a \left|1 - c_a - f_a\right|,
                  \quad f_a = \frac{x_a - x_{a, i}}{x_{a, i + 1} - x_{a, i}}

        Parameters
        ----------
        sizes : Num
            One for each axis :math:`a`; :math:`i` is the node at or below it. [element]

        Returns
        -------
        Num
            What to add to one before multiplying a time. [-]

        References
        ----------
        .. [1] W. H. Press et al., "Numerical Recipes," 3rd ed., Cambridge, 2007, section 3.6.1.

        Examples
        --------
        >>> halves = SizeGrid(((1.0, 3.0), (1.0, 2.0), (1.0, 2.0)), (0.0, 0.0, 0.0, 0.0, 0.4, 0.4, 0.4, 0.4))
        >>> float(halves.share(2.0, 1.0, 1.5)), float(halves.share(9.0, 1.0, 1.0))
        (0.2, 0.4)
        """
        places = [_place(size, axis) for size, axis in zip(sizes, self._axes, strict=True)]
        (m, right_m), (n, right_n), (k, right_k) = places
        width_n, width_k = len(self.nodes[1]), len(self.nodes[2])
        total: Num = 0.0
        for step_m, weight_m in ((0, 1.0 - right_m), (1, right_m)):
            for step_n, weight_n in ((0, 1.0 - right_n), (1, right_n)):
                row = ((m + step_m) * width_n + n + step_n) * width_k + k
                along = (1.0 - right_k) * self._table[row] + right_k * self._table[row + 1]
                total = total + weight_m * weight_n * along
        return total


def corrected(seconds: Num, grid: SizeGrid | None, *sizes: Num) -> Num:
    """Seconds of a law with the share that a grid has at these sizes; the law's own without a grid."""
    return seconds if grid is None else seconds * (1.0 + grid.share(*sizes))


def _place(size: Num, axis: Column) -> tuple[NDArray[np.int64], Num]:
    """Return the node at or below a size and how far it is on the way to the next one."""
    inside = np.minimum(np.maximum(size, axis[0]), axis[-1])
    node = np.minimum(np.searchsorted(axis, inside, side="right") - 1, axis.size - 2)
    return node, (inside - axis[node]) / (axis[node + 1] - axis[node])
