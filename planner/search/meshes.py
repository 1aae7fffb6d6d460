"""Plans that differ: of which choice and of which mesh a plan is, and the best of meshes still unknown."""

from __future__ import annotations

from collections.abc import Iterable

from planner.cost.estimate import Estimate
from planner.plan import Plan
from planner.search.candidates import Candidate

Degrees = tuple[int, ...]

Mesh = tuple[int, Degrees]
"""What tells two meshes apart: the choice, and the degrees."""


def choice_of(answer: Estimate) -> int:
    """Return what tells clusters, their accelerators and runtimes apart: a search makes one job of each."""
    return id(answer.job)


def degrees(plan: Plan) -> Degrees:
    """Return the degrees of a mesh: all but the chunks of a rank."""
    return tuple(int(degree) for degree in (plan.tp, plan.pp, plan.cp, plan.ep, plan.etp, plan.dp))


def mesh_of(answer: Estimate) -> Mesh:
    """Return what tells the mesh of a plan apart from others."""
    return choice_of(answer), degrees(answer.plan)


def of_further_meshes(
    candidates: Iterable[Candidate], known: Iterable[Estimate], most: int
) -> list[Candidate]:
    """Return the best candidate of each further mesh, until ``most`` meshes are known.

    Parameters
    ----------
    candidates : iterable of Candidate
        What a scan found.
    known : iterable of Estimate
        Plans of the scan that are refined already.
    most : int
        Meshes wanted.

    Returns
    -------
    list of Candidate
        One of each further mesh, the best by the scan first.
    """
    taken = {degrees(answer.plan) for answer in known}
    first: dict[Degrees, Candidate] = {}
    for candidate in sorted(candidates, key=lambda one: one.value):
        if degrees(candidate.plan) not in taken:
            first.setdefault(degrees(candidate.plan), candidate)
    return list(first.values())[: max(0, most - len(taken))]
