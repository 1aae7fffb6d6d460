"""What an operator is: which rows of a scan it takes, what it can make of them at best, and how it does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from planner.cost.estimate import Estimate
from planner.dataclasses import dataclass
from planner.search.assign.improve import Improver
from planner.search.candidates import Candidate, Order, Screened, by_bound
from planner.search.chunk import PricedRows
from planner.search.scope import Scope


@dataclass(frozen=True)
class SearchOperator:
    """A way to make a better plan of a candidate."""

    name: str
    """What it does."""
    turn: float
    """When it comes: after all operators of lower turns."""
    cost: float
    """What it takes to refine a candidate, in prices of a plan. [-]"""
    kept: float = 1.0
    """Candidates that a scan keeps for it, over the effort. [-]"""
    order: Order = by_bound
    """By what it takes them, the least first."""
    proves: bool = False
    """Whether the search's space has what it makes, so that its candidates belong to the proof."""
    rank: int = 1
    """It refines what could be among so many best plans."""
    follows: str = ""
    """The operator whose plans it refines further; those of the scan where it is empty."""
    sure: bool = False
    """Whether it does so whatever their bounds, which do not hold for what it makes of them."""
    leads: bool = False
    """Whether it takes the best rows of the scan first, whatever their bounds."""
    beats: bool = True
    """Whether what it makes is of use only where it could be better than the best row of the scan."""
    sheds: tuple[str, ...] = ()
    """Kinds of plan that a candidate may be of, and what it makes of it is not."""

    aliases: ClassVar[tuple[str, ...]] = ()

    def keeps(self, scope: Scope) -> int:
        """Return how many candidates a scan keeps for it."""
        return max(1, int(self.kept * scope.keep))

    def most(self, scope: Scope) -> int:
        """Return how many candidates it may refine."""
        return max(1, int(scope.keep / self.cost))

    def takes(self, scope: Scope) -> bool:
        """Whether it has anything to do in a search."""
        return not scope.by_memory

    def screen(self, rows: PricedRows) -> Screened | None:
        """Return which rows of a scan it could make good plans of; None where there are none."""
        return None

    def supports(self, bench: Improver, candidate: Candidate) -> bool:
        """Whether there is something to be done for a candidate."""
        return True

    def bound(self, bench: Improver, candidate: Candidate) -> float:
        """Return what its plans of a candidate are at least, however played, where that is cheap."""
        return candidate.bound

    def refine(self, bench: Improver, candidate: Candidate) -> Iterator[Estimate]:
        """Yield the plans that it makes of a candidate."""
        raise NotImplementedError

    def replaces(self, known: Estimate, found: Estimate) -> bool:
        """Whether a plan that it found makes a known one worthless."""
        return False
