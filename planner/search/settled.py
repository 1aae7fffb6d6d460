"""Plans of a search with the settings that are best for them."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from functools import partial

from planner.cost.estimate import Estimate, floor_seconds, least_seconds
from planner.cost.step.parts import PlanParts
from planner.runtimes.family import Job, Runtime
from planner.search.earned import is_backed
from planner.search.guard import Guard
from planner.search.queue import FIRST
from planner.search.request import SearchRequest, objective_bound, objective_value, why_left_out
from planner.search.settings import with_best_settings


def with_settings(
    request: SearchRequest,
    jobs: Sequence[tuple[Job, Runtime]],
    plans: Sequence[Estimate],
    guard: Guard,
    within: float,
) -> list[Estimate]:
    """Return the plans of a search, the best of each job with the settings that are best for them.

    No setting is taken with which a plan may not be shown, or takes more than ``within`` seconds.
    """

    def value(plan: Estimate) -> float:
        return objective_value(request.objective, plan, guard.known_seconds(plan))

    def worth(plan: Estimate) -> float:
        good = why_left_out(plan, request) is None and plan.step <= within
        return value(plan) if good else float("inf")

    def promise(plan: Estimate) -> float:
        return value(plan) if why_left_out(plan, request) is None else float("inf")

    def at_least(parts: PlanParts, job: Job) -> float:
        known = guard.knows(parts.plan, job, parts.case.runtime)
        seconds = floor_seconds(parts, parts.step) if known else least_seconds(parts)
        return objective_bound(request.objective, job, seconds)

    found = list(plans)
    for job, runtime in jobs:
        settings = request.open_settings(job, runtime)
        own = [
            place
            for place, plan in enumerate(plans)
            if settings and plan.job is job and plan.runtime.name == runtime.name
        ]
        first = heapq.nsmallest(FIRST, own, key=lambda place: promise(plans[place]))
        if first and not is_backed(plans[first[0]]):
            backed = [place for place in own if is_backed(plans[place])]
            first += heapq.nsmallest(FIRST, backed, key=lambda place: promise(plans[place]))
        for place in dict.fromkeys(first):
            least = partial(at_least, job=job)
            found[place] = with_best_settings(plans[place], runtime, settings, worth, least)
    return found
