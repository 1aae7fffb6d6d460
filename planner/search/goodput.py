"""Plans ranked by the time that they take where machines fail, each with the recovery that is best for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from planner.cost.estimate import Estimate
from planner.cost.reliability import Reliable
from planner.inputs.failures import FailureProfile
from planner.search.optimise import Progress, SearchResult, search
from planner.search.request import SearchRequest
from planner.techniques.recovery import Recovery

TRIED: Final = 12
"""Plans of each count of accelerators whose failures are reckoned, at least. [-]"""

GROUPS: Final = (2, 4, 8)
"""Replica groups that are tried for recoveries that leave one of them out. [-]"""


@dataclass(frozen=True)
class Conditions:
    """What is known of failures: the profile, the recoveries to choose from, and the storage. [byte/s]"""

    failures: FailureProfile
    recoveries: tuple[Recovery, ...]
    storage: float


@dataclass(frozen=True)
class Reckoned:
    """Plans by expected time, why recoveries were left out, and the search of the plans without failures."""

    plans: tuple[Reliable, ...]
    refused: dict[str, str]
    result: SearchResult


def ranked_by_goodput(
    request: SearchRequest, known: Conditions, progress: Progress | None = None
) -> Reckoned:
    """Return the plans of a request by the expected seconds of a step, failures included.

    The fastest plans of each count of accelerators, and where a recovery needs replicas of the whole state
    the fastest with so few shards, are reckoned with every recovery.
    """
    first: SearchResult | None = None
    answers: list[Estimate] = []
    for count in request.gpu_counts:
        one = replace(request, objective="time", gpu_counts=(count,), top=max(request.top, TRIED))
        result = search(one, progress)
        first = result if first is None or (not first.plans and result.plans) else first
        answers += result.plans
        for grouped in _grouped(one, known.recoveries):
            answers += search(grouped, progress).plans
    refused: dict[str, str] = {}
    found: list[Reliable] = []
    for answer in answers:
        tried = [Reliable(answer, known.failures, one, known.storage) for one in known.recoveries]
        refused |= {one.recovery.name: one.refused for one in tried if one.refused is not None}
        found += [one for one in tried if one.refused is None and one.gets_on]
    if first is None:
        raise AssertionError("a request of no accelerators")
    kept = {one.recovery.name for one in found}
    ranked = sorted(found, key=lambda one: one.step)
    return Reckoned(
        _best_of_each(ranked, request.top), {k: v for k, v in refused.items() if k not in kept}, first
    )


def _best_of_each(ranked: Sequence[Reliable], top: int) -> tuple[Reliable, ...]:
    """Return the best plan of each recovery, so that strategies can be compared, and the next plans."""
    lead = {one.recovery.name: one for one in reversed(ranked)}
    first = [one for one in ranked if lead[one.recovery.name] is one]
    others = [one for one in ranked if one not in first]
    return tuple(sorted((first + others)[: max(top, len(first))], key=lambda one: one.step))


def _grouped(request: SearchRequest, recoveries: Sequence[Recovery]) -> Iterator[SearchRequest]:
    """Yield searches of plans with several replicas of the whole state, where a recovery asks for them."""
    wanted = {name for one in recoveries if one.replicas for name in one.runtimes}
    able = tuple(one for one in request.runtimes if one.name in wanted and one.hybrid_sharding)
    (count,) = request.gpu_counts
    if not able or {"zero_shards", "zero"} & set(request.fixed):
        return
    for groups in GROUPS:
        if count % groups == 0 and count // groups > 1:
            fixed = {**request.fixed, "zero_shards": count // groups}
            yield replace(request, runtimes=able, fixed=fixed, top=2, uniform=True)
