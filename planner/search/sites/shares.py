"""The batch shared among unlike replicas by their speed, so that none waits for another."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from planner.dataclasses import replace
from planner.search.sites.inside import Plans
from planner.search.sites.request import SitesRequest

NEAR: Final = 0.2
"""Share of the batch asked for by which the sum of all replicas' may be off. [-]"""


def shared_by_speed(request: SitesRequest) -> SitesRequest:
    """Return a request in which each replica takes sequences by its speed; itself where no plan fits.

    Speeds are those of the best plans for like batches, a power of two each. Batches are multiples of
    such a plan's data-parallel degree, those near the shares by speed with the least time for a sequence;
    their sum is near the batch that was asked for.
    """
    each = 1 << (request.workload.global_batch // request.profile.replicas).bit_length() - 1
    alike = {one.name: each for one in request.profile.sites}
    found = Plans(replace(request, batches=alike)).with_room(0.0, runner=False)
    if found is None:
        return request
    rates = {name: each / answer.step for name, answer in found.items()}
    grains = {name: int(answer.plan.dp) for name, answer in found.items()}
    best = min(
        _splits(request, rates, grains),
        key=lambda one: (_slowest(one, rates) / _whole(request, one), -_whole(request, one)),
        default=None,
    )
    if best is None:
        return request
    whole = request.workload.model_copy(update={"global_batch": _whole(request, best)})
    return replace(request, batches=best, workload=whole)


def _splits(
    request: SitesRequest, rates: dict[str, float], grains: dict[str, int]
) -> Iterator[dict[str, int]]:
    """Yield batches of the replicas at each site near their shares by speed; alike sites have alike ones."""
    sites, asked = request.profile.sites, request.workload.global_batch
    total = sum(one.replicas * rates[one.name] for one in sites)
    near: dict[tuple[float, int], list[int]] = {}
    for one in sites:
        grain, wanted = grains[one.name], asked * rates[one.name] / total
        few = int(wanted // grain)
        near[rates[one.name], grain] = [grain * count for count in (few, few + 1) if count]
    for chosen in product(*near.values()):
        by_kind = dict(zip(near, chosen, strict=True))
        split = {one.name: by_kind[rates[one.name], grains[one.name]] for one in sites}
        if abs(_whole(request, split) - asked) <= NEAR * asked:
            yield split


def _slowest(split: dict[str, int], rates: dict[str, float]) -> float:
    """Return how long the slowest replica takes. [s]"""
    return max(batch / rates[name] for name, batch in split.items())


def _whole(request: SitesRequest, split: dict[str, int]) -> int:
    """Return the sequences of all replicas together."""
    return sum(one.replicas * split[one.name] for one in request.profile.sites)
