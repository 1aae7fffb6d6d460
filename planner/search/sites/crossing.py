"""What ways take at other rates of the links, and where they cross exact data parallelism."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.cost.sites.price import price_way
from planner.dataclasses import replace
from planner.inputs.sites import SitesProfile
from planner.search.sites.request import SitesRequest
from planner.search.sites.ways import RATES, Ranked, trained_at


def few_plans(ways: Sequence[Ranked]) -> list[Ranked]:
    """Return the fastest of ways whose plans take as many micro-batches: what exact training chooses from."""
    found: dict[tuple[float, str], Ranked] = {}
    for one in ways:
        plan = next(iter(one.plans.values())).plan
        passes = (float(plan.num_microbatches), plan.slug if one.steps else "")
        if passes not in found or one.price.step < found[passes].price.step:
            found[passes] = one
    return sorted(found.values(), key=lambda one: one.price.step)


def crossover(one: Ranked, exact: Sequence[Ranked], request: SitesRequest) -> float | None:
    """Return the rate of the narrowest link below which a way is ahead of exact data parallelism.

    By time to the same loss where its cost is known, else by speed alone; ``exact`` has several plans, of
    which the fastest counts at each rate, or the way's own. All links grow and shrink together.
    """
    if not exact or (one.sync is exact[0].sync and one.exact):
        return None
    own = [] if one.steps or exact[0].steps else [replace(exact[0], plans=one.plans)]

    def ahead(rate: float) -> bool:
        return step_at(rate, one, request) * (one.compute or 1.0) < fastest_at(rate, [*exact, *own], request)

    low, high = 1e3, 1e13
    if not ahead(low):
        return 0.0
    if ahead(high):
        return float("inf")
    for _ in range(40):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if ahead(middle) else (low, middle)
    return low


def fastest_at(rate: float, ways: Sequence[Ranked], request: SitesRequest) -> float:
    """Return the step of the fastest of several plans, where the narrowest link has a rate. [s]"""
    return min(step_at(rate, one, request) for one in ways)


def step_at(rate: float, one: Ranked, request: SitesRequest) -> float:
    """Return the step of a way where the narrowest link has a rate and all grow alike. [s]

    Of one job it is known at some rates; below these the link decides alone.
    """
    if one.steps:
        known = float(np.exp(np.interp(np.log(rate), np.log(RATES), np.log(one.steps))))
        return known * RATES[0] / rate if rate < RATES[0] else known
    profile = with_narrowest(rate, request)
    return price_way(one.price.way, replace(trained_at(request, one.plans), profile=profile)).step


def with_narrowest(rate: float, request: SitesRequest) -> SitesProfile:
    """Return the sites with all links grown or shrunk until the narrowest has a rate. [byte/s]"""
    return request.profile.scaled(rate / min(link.rate for link in request.profile.links))
