"""What a search answers."""

from __future__ import annotations

from collections.abc import Mapping

from planner.cost.estimate import Estimate
from planner.dataclasses import dataclass
from planner.search.idle import Fewer
from planner.search.planless import Planless
from planner.shown import Shown


@dataclass(frozen=True, repr=False)
class SearchResult(Shown):
    """Ranked plans and an account of the search.

    Parameters
    ----------
    plans : tuple of Estimate
        The best that are safe, best first: one of each mesh while there are such.
    baselines : tuple of (str, Estimate)
        What one would do without a search.
    enumerated, valid, fits, priced, close : int
        Cells of the grid, legal plans, those that fit, those priced in full, and those that fit but were left
        out because they may run out of memory.
    removed : mapping
        Cells by the rule that removed them.
    nearest : mapping, optional
        What would fit, where nothing does.
    elapsed, scan : float
        Time of the search, and of pricing. [s]
    optimality : mapping
        Method, whether the best is proved best, bound, gap, and over which space.
    fewer : Fewer, optional
        A smaller number of accelerators on which a step takes no longer than the best plan's.
    played : tuple of (float or None)
        For each of the plans, and then of the baselines, its step played event by event, where that is far
        from its price: by that it is ranked. [s]
    left_out : tuple of (str or None)
        Why each of the baselines is not among the plans, whatever it takes.
    variants : tuple of tuple of Estimate
        For each of the plans, others of its mesh that are within 1% of it.
    measured : Estimate, optional
        The best refined plan of kinds that measured runs have, where the first plan is of one without any.
    on_paper : tuple of Estimate
        Plans that are better than the first by less than the doubt about their kinds, best first.
    planless : tuple of Planless
        Jobs of the request that none of the plans is of, where others have some.
    """

    plans: tuple[Estimate, ...]
    baselines: tuple[tuple[str, Estimate], ...]
    enumerated: int
    valid: int
    fits: int
    priced: int
    close: int
    removed: Mapping[str, int]
    nearest: Mapping[str, object] | None
    elapsed: float
    scan: float
    optimality: Mapping[str, object]
    fewer: Fewer | None = None
    played: tuple[float | None, ...] = ()
    left_out: tuple[str | None, ...] = ()
    variants: tuple[tuple[Estimate, ...], ...] = ()
    measured: Estimate | None = None
    on_paper: tuple[Estimate, ...] = ()
    planless: tuple[Planless, ...] = ()
