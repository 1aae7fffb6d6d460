"""What a search has proved of its best plan, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planner.search.scan import Scan
from planner.units import rounded

BETTER: Final = {
    "time": "faster",
    "cost": "cheaper",
    "memory": "smaller in memory",
    "energy": "lower in energy",
}
"""What a plan is that is better by an objective."""


def proof_clause(objective: str, gap: float) -> str:
    """Say how good the best plan is proved to be, by an objective or any, in one clause."""
    most = f"more than {rounded(gap)} " if gap else ""
    return f"no plan in this space that fits is {most}{BETTER.get(objective, 'better')}"


def space_of(scans: Sequence[Scan], within: float, chosen: bool) -> str:
    """Say over which space a proof holds."""
    other = any(scan.uneven and scan.split is None for scan in scans)
    split = " or, where its layers can be assigned, another one" if other else ""
    timely = f" and takes at most {within:.4g} s" if within < float("inf") else ""
    tried = "splits and settings" if chosen else "splits"
    return (
        f"every legal plan of the grid that is safe in memory with its default split{split}{timely}; for "
        f"refined plans, the {tried} that were tried"
    )
