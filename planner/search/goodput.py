"""Plans ranked by the time that they take where machines fail, each with the recovery that is best for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from planner.cost.estimate import Estimate
from planner.cost.reliability import Reliable
from planner.dataclasses import dataclass, replace
from planner.inputs.failures import FailureProfile
from planner.search.earned import earned, without
from planner.search.optimise import found_plans, search
from planner.search.request import Progress, SearchRequest
from planner.search.result import SearchResult
from planner.search.ties import most_careful
from planner.techniques.recovery import Recovery

TRIED: Final = 12
"""Plans of each count of accelerators whose failures are reckoned, at least. [-]"""


@dataclass(frozen=True)
class Conditions:
    """What is known of failures."""

    failures: FailureProfile
    """How often machines fail."""
    recoveries: tuple[Recovery, ...]
    """Those to choose from."""
    storage: float
    """At which all ranks together write and read checkpoints. [byte/s]"""
    relearned: float | None = None
    """Steps of learning that a recovery costs, where its user says so. [-]"""


@dataclass(frozen=True)
class Reckoned:
    """Plans by expected time, why recoveries were left out, and the search without failures, if any."""

    plans: tuple[Reliable, ...]
    refused: dict[str, str]
    result: SearchResult | None


def ranked_by_goodput(
    request: SearchRequest, known: Conditions, progress: Progress | None = None
) -> Reckoned:
    """Return the plans of a request by the expected seconds of a step, failures included.

    The fastest plans of each count of accelerators, and the fastest of the layouts that a recovery asks for,
    are reckoned with every recovery.
    """
    first: SearchResult | None = None
    answers: list[Estimate] = []
    for count in request.gpu_counts:
        one = replace(request, objective="time", gpu_counts=(count,), top=max(request.top, TRIED))
        result = search(one, progress)
        first = result if first is None or (not first.plans and result.plans) else first
        answers += result.plans
        for other in _asked_for(one, known.recoveries):
            answers += found_plans(other, advise=False).plans
    refused: dict[str, str] = {}
    found: list[Reliable] = []
    for answer in answers:
        tried = [
            Reliable(answer, known.failures, one, known.storage, known.relearned) for one in known.recoveries
        ]
        refused |= {one.recovery.name: one.refused for one in tried if one.refused is not None}
        found += [one for one in tried if one.refused is None and one.gets_on]
    if first is None:
        raise AssertionError("a request of no accelerators")
    kept = {one.recovery.name for one in found}
    return Reckoned(
        _best_of_each(_ranked(found), request.top),
        {k: v for k, v in refused.items() if k not in kept},
        first,
    )


def _ranked(found: Sequence[Reliable]) -> list[Reliable]:
    """Return plans by expected seconds, led by the most careful of the ties that earns it."""
    ranked = sorted(found, key=lambda one: one.step)
    if not ranked:
        return ranked
    best = _choice(ranked[0])
    steps = {id(one.answer): one.step for one in reversed(ranked)}
    tied = [one for one in ranked if _choice(one) == best]

    def value(answer: Estimate) -> float:
        return steps[id(answer)]

    careful, _ = most_careful([(one, one.answer) for one in tied], value)
    answers = [one.answer for one in tied]
    answer = earned(careful.answer, lambda kinds: without(kinds, answers), value)
    lead = careful if answer is careful.answer else next(one for one in tied if one.answer is answer)
    return [lead, *(one for one in ranked if one is not lead)]


def reckoned(answer: Estimate, known: Conditions) -> Reckoned:
    """Return one plan with every recovery that it can have, by the expected seconds of a step."""
    tried = [
        Reliable(answer, known.failures, one, known.storage, known.relearned) for one in known.recoveries
    ]
    found = [one for one in tried if one.refused is None and one.gets_on]
    refused = {one.recovery.name: one.refused for one in tried if one.refused is not None}
    return Reckoned(tuple(sorted(found, key=lambda one: one.step)), refused, None)


def _choice(one: Reliable) -> tuple[str, int, str]:
    """Return what tells clusters, their accelerators and runtimes apart, over several searches."""
    return one.answer.job.hardware.name, one.gpus, one.answer.runtime.name


def _best_of_each(ranked: Sequence[Reliable], top: int) -> tuple[Reliable, ...]:
    """Return the first plan, then the best of each recovery, so that they can be compared, and the next."""
    lead = {one.recovery.name: one for one in reversed(ranked)}
    first = [one for one in ranked if lead[one.recovery.name] is one]
    others = [one for one in ranked if one not in first]
    shown = (first + others)[: max(top, len(first))]
    return tuple(sorted(shown, key=lambda one: (one is not ranked[0], one.step)))


def _asked_for(request: SearchRequest, recoveries: Sequence[Recovery]) -> Iterator[SearchRequest]:
    """Yield searches of the layouts that recoveries ask for, as far as the request leaves them open."""
    (count,) = request.gpu_counts
    per_node = min(cluster.pool.gpus_per_node for cluster in request.clusters)
    seen: list[dict[str, Any]] = []
    for one in recoveries:
        able = tuple(name for name in request.runtimes if not one.runtimes or name.name in one.runtimes)
        for layout in one.layouts(count, per_node, request.model):
            shards = "zero_shards" in layout
            fitting = tuple(name for name in able if name.hybrid_sharding) if shards else able
            clash = any(request.fixed.get(name, value) != value for name, value in layout.items())
            clash = clash or (shards and "zero" in request.fixed)
            if not fitting or clash or layout in seen:
                continue
            seen.append(layout)
            fixed = {**request.fixed, **layout}
            yield replace(request, runtimes=fitting, fixed=fixed, top=2, uniform=True)
