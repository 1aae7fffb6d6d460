"""Plans that recompute because nothing else fits, and the time to expect of them with less recompute."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.cost.step.step import StepPrice
from planner.dataclasses import dataclass, field, replace
from planner.numeric import Column
from planner.search.legality import PassNames, StateNames
from planner.search.scope import KEPT_WHOLE
from planner.search.tables import Rows


@dataclass
class Squeezed:
    """Rows that do not fit without recompute, remembered until they are priced with it."""

    known: dict[tuple[PassNames, StateNames], list[tuple[Rows, Column]]] = field(default_factory=dict)
    """For the techniques of a plan their places in the space, and of each its seconds, its bound and its
    bytes, without recompute."""

    def add(
        self, names: tuple[PassNames, StateNames], rows: Rows, result: StepPrice, among: NDArray[np.bool_]
    ) -> None:
        """Remember those ``among`` some rising rows that were priced without recompute."""
        some = np.flatnonzero(among)
        if some.size:
            table = [np.asarray(one)[some] for one in (result.step, result.bound, result.total_bytes)]
            self.known.setdefault(names, []).append((rows[some], np.stack(table)))

    def places(self, names: PassNames, size: int) -> NDArray[np.bool_]:
        """Return which of the rows of a space were remembered under these techniques, whatever the states."""
        found = np.zeros(size, dtype=bool)
        for (passes, _), parts in self.known.items():
            if passes == replace(names, recompute=KEPT_WHOLE):
                for rows, _ in parts:
                    found[rows] = True
        return found

    def expected(
        self, names: tuple[PassNames, StateNames], rows: Rows, result: StepPrice, limit: float
    ) -> tuple[Column, Column] | None:
        """Return the seconds to expect of rows with no more recompute than needed, and their least. [s]

        Infinite where a row was not remembered; None where none was. Each byte that is missing without
        recompute is taken to be worth the same time.

        Parameters
        ----------
        names : tuple of (PassNames, StateNames)
            Techniques of the rows.
        rows : array (rows,)
            Their places in the space.
        result : StepPrice
            Their price.
        limit : float
            Bytes that a rank may be predicted to use. [byte]
        """
        parts = self.known.get((replace(names[0], recompute=KEPT_WHOLE), names[1]))
        if parts is None:
            return None
        places = np.concatenate([part for part, _ in parts])
        table = np.concatenate([columns for _, columns in parts], axis=1)
        where = np.minimum(np.searchsorted(places, rows), len(places) - 1)
        step, bound, nbytes = np.where(places[where] == rows, table[:, where], np.inf)
        found = np.isfinite(step)
        freed = np.where(found, nbytes, 0.0) - np.asarray(result.total_bytes)
        missing = np.where(found, nbytes - limit, 0.0)
        share = np.where(freed > 0, np.clip(missing / np.where(freed > 0, freed, 1.0), 0.0, 1.0), 1.0)
        longer = np.maximum(0.0, np.asarray(result.bound) - np.where(found, step, 0.0))
        return step + share * longer, bound
