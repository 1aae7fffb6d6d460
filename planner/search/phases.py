"""Phases of one training, each at its own length: a plan for each, the switches, and one plan for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final

from planner.cost.estimate import Estimate
from planner.cost.price import price
from planner.cost.resume import Resume
from planner.dataclasses import dataclass, replace
from planner.plan import Plan
from planner.search.optimise import found_plans
from planner.search.request import SearchRequest
from planner.search.result import SearchResult
from planner.units import DAY, HOUR

CANDIDATES: Final = 40
"""Plans of each phase that are tried for all phases. [-]"""


@dataclass(frozen=True)
class TrainingPhase:
    """Some tokens of a training, at one length."""

    tokens: float
    """Tokens that it trains. [-]"""
    answer: Estimate
    """The plan, priced at its length."""

    @property
    def seconds(self) -> float:
        """Seconds of all its steps. [s]"""
        return self.tokens / self.answer.job.workload.tokens_per_step * self.answer.step


@dataclass(frozen=True)
class PhaseSwitch:
    """From one phase to the next."""

    resume: Resume
    """How the checkpoint of the one is read by the other."""

    @property
    def reshards(self) -> bool:
        """Whether ranks need other parts of the state than they have."""
        move = self.resume.move
        return move is None or move.moved > 0

    @property
    def seconds(self) -> float:
        """Seconds of the switch: written to storage and read again, or moved where no rate is known. [s]"""
        if not self.reshards:
            return 0.0
        stored = self.resume.storage_seconds
        if stored is not None and self.resume.storage:
            return stored + self.resume.state_bytes / self.resume.storage
        return self.resume.direct_seconds or 0.0


@dataclass(frozen=True)
class Course:
    """All phases of a training."""

    phases: tuple[TrainingPhase, ...]
    """In their order."""
    storage: float | None = None
    """At which checkpoints are written and read. [byte/s]"""

    @cached_property
    def switches(self) -> tuple[PhaseSwitch, ...]:
        """What lies between each two phases."""
        pairs = pairwise(phase.answer for phase in self.phases)
        return tuple(PhaseSwitch(Resume(old, new, self.storage)) for old, new in pairs)

    @property
    def seconds(self) -> float:
        """Seconds of all steps and switches. [s]"""
        return sum(phase.seconds for phase in self.phases) + sum(one.seconds for one in self.switches)

    @property
    def days(self) -> float:
        """Days of all steps and switches. [d]"""
        return self.seconds / DAY

    @property
    def usd(self) -> float | None:
        """Dollars for the accelerators; None where nobody says their price. [USD]"""
        job = self.phases[0].answer.job
        hourly = job.hardware.pool.price_per_hour
        return None if hourly is None else float(hourly) * job.gpus * self.seconds / HOUR


@dataclass(frozen=True)
class Courses:
    """A plan for each phase, and one for all."""

    own: Course | None
    """The best plan of each phase; None where some phase has none."""
    single: Course | None
    """One plan in all phases; None where none fits in all of them."""
    failed: SearchResult | None = None
    """The search of the first phase without a plan."""

    @property
    def gain(self) -> float | None:
        """Times as long as one plan takes for all phases; None where none fits in all. [-]"""
        return None if self.own is None or self.single is None else self.single.seconds / self.own.seconds


def at_batch(plan: Plan, batch: int) -> Plan | None:
    """Return a plan at another batch: more or fewer micro-batches; None where they are not whole."""
    count, rest = divmod(batch, int(plan.micro_batch * plan.dp))
    return None if rest or not count else replace(plan, num_microbatches=float(count))


def plan_phases(
    requests: Sequence[SearchRequest],
    tokens: Sequence[float],
    storage: float | None = None,
    search: Callable[[SearchRequest], SearchResult] = found_plans,
) -> Courses:
    """Search each phase, and try the best plans of each for all of them.

    Parameters
    ----------
    requests : sequence of SearchRequest
        The search of each phase.
    tokens : sequence of float
        Tokens of each. [-]
    storage : float, optional
        At which checkpoints are written and read. [byte/s]
    search : callable
        What ranks the plans of a request.
    """
    found = [search(replace(request, top=CANDIDATES)) for request in requests]
    failed = next((result for result in found if not result.plans), None)
    if failed is not None:
        return Courses(None, None, failed)
    phases = zip(tokens, found, strict=True)
    best = ((count, min(result.plans, key=lambda plan: plan.step)) for count, result in phases)
    own = Course(tuple(TrainingPhase(count, plan) for count, plan in best), storage)
    known = {answer.plan: answer for result in found for answer in result.plans}
    jobs = [(result.plans[0], request) for result, request in zip(found, requests, strict=True)]
    courses = (_everywhere(answer, jobs, tokens, storage) for answer in known.values())
    whole = [course for course in courses if course is not None]
    return Courses(own, min(whole, key=lambda one: one.seconds, default=None))


def _everywhere(
    answer: Estimate,
    jobs: Sequence[tuple[Estimate, SearchRequest]],
    tokens: Sequence[float],
    storage: float | None,
) -> Course | None:
    """Return all phases by one plan, at its own micro-batches; None where it does not fit."""
    phases = []
    for (lead, request), count in zip(jobs, tokens, strict=True):
        plan = at_batch(answer.plan, lead.job.workload.global_batch)
        if plan is None:
            return None
        told = price(plan, lead.job, answer.runtime, request.memory_limit)
        if not isinstance(told, Estimate) or not told.feasible:
            return None
        if told.oom_probability > request.oom_risk:
            return None
        phases.append(TrainingPhase(count, told))
    return Course(tuple(phases), storage)
