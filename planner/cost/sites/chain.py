"""One pipeline over unlike sites: each stage on its own accelerators, each message over its own link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from planner.cost.case import case_of
from planner.cost.estimate import stage_bytes
from planner.cost.layer.communication import message_bytes
from planner.cost.memory.fit import safe_share
from planner.cost.sites.routes import chain_order, chain_rate, link_latency, site
from planner.cost.step.parts import PlanParts
from planner.cost.step.played import chunk_pieces, chunk_pipeline, makespan, message_seconds
from planner.dataclasses import dataclass, replace
from planner.formulas.collectives import Tier
from planner.formulas.messages import shared_seconds
from planner.inputs.hardware import HardwareProfile
from planner.inputs.links import LINK
from planner.inputs.sites import SitesProfile
from planner.plan import Plan
from planner.runtimes.family import Job, Runtime
from planner.techniques.schedules.engine import Pipeline


def stage_sites(profile: SitesProfile, stages: int) -> tuple[str, ...]:
    """Return the site of each stage of a pipeline, whose stages have as many accelerators each.

    Empty where the accelerators of some site are no whole number of stages.
    """
    each, rest = divmod(profile.gpus, stages)
    counts = {name: divmod(site(profile, name).gpus, max(each, 1)) for name in chain_order(profile)}
    if rest or any(left for _, left in counts.values()):
        return ()
    return tuple(name for name, (count, _) in counts.items() for _ in range(count))


@dataclass(frozen=True)
class Chain:
    """One job's pipeline over sites."""

    profile: SitesProfile
    """Sites and links."""
    clusters: Mapping[str, HardwareProfile]
    """The cluster of each site, of which no islands count."""
    job: Job
    """What is trained on how many accelerators."""
    runtime: Runtime
    """Whose behaviour is priced."""
    oom_risk: float
    """Accepted probability of running out of memory. [-]"""
    memory_limit: float | None = None
    """Device memory that may be used. [byte]"""

    def parts(self, plan: Plan, name: str) -> PlanParts:
        """Return a plan taken apart as if all of its stages were at one site."""
        cluster = self.clusters[name]
        pool = cluster.pool.model_copy(update={"islands": None, "gpus": None})
        job = replace(self.job, hardware=cluster.model_copy(update={"pools": (pool,)}))
        return PlanParts(plan, case_of(plan, job, self.runtime))

    def priced(self, plan: Plan) -> Mapping[str, PlanParts]:
        """Return a plan taken apart at each site; no split of its layers changes what a piece costs there."""
        return {
            name: self.parts(plan, name) for name in dict.fromkeys(stage_sites(self.profile, int(plan.pp)))
        }

    def step(self, plan: Plan) -> float:
        """Return the time of a step, infinite where a stage does not fit its accelerators. [s]

        The passes are played with each chunk's time on its own accelerators and each link's messages; the
        step ends as it does where that takes longest.
        """
        homes, apart = stage_sites(self.profile, int(plan.pp)), self.priced(plan)
        busy = self.passes(plan, apart)
        steps = []
        for name, parts in apart.items():
            result = parts.stepped(replace(parts.passes, busy=busy))
            held = stage_bytes(parts.case, result, len(homes))
            own = [one.total for one, home in zip(held, homes, strict=True) if home == name]
            if max(own) > self._safe(parts):
                return float("inf")
            steps.append(float(result.step))
        return max(steps)

    def _safe(self, parts: PlanParts) -> float:
        usable = parts.case.job.hardware.pool.accelerator.memory_usable
        share = safe_share(self.oom_risk, parts.case.traits.allocator.memory_spread)
        return share * min(usable, self.memory_limit or usable)

    def passes(self, plan: Plan, apart: Mapping[str, PlanParts]) -> float:
        """Return the time of all passes, played; ``apart`` is the plan at each site, its split aside. [s]"""
        homes = stage_sites(self.profile, int(plan.pp))
        played = {name: self._pipeline(plan, parts, homes) for name, parts in apart.items()}
        own = [played[home] for home in homes]

        def by_stage(field: str) -> tuple[float, ...]:
            return tuple(getattr(one, field)[place] for place, one in enumerate(own))

        pipeline = replace(
            own[0],
            forward=by_stage("forward"),
            input_gradient=by_stage("input_gradient"),
            weight_gradient=by_stage("weight_gradient"),
            hops=by_stage("hops"),
        )
        schedule = next(iter(apart.values())).case.schedule
        return makespan(schedule, (int(plan.pp), 1, int(plan.num_microbatches)), pipeline)

    def _pipeline(self, plan: Plan, parts: PlanParts, homes: Sequence[str]) -> Pipeline:
        """Return the times of all stages as if they were on the accelerators of one site."""
        case = parts.case
        nbytes = float(message_bytes(case, plan, case.rank_tokens(plan)))
        each = float(case.job.gpus / plan.pp)
        wires, far = list(message_seconds(plan, case)), [False] * len(homes)
        for place, (one, other) in enumerate(pairwise(homes)):
            if one != other:
                tier = self._tier(one, other, float(case.tiers[-1].pair_bandwidth), each)
                wires[place], far[place] = float(shared_seconds(nbytes, tier, each)), True
        return chunk_pipeline(plan, case, chunk_pieces(plan, case), parts.costs, tuple(wires), far)

    def _tier(self, one: str, other: str, port: float, each: float) -> Tier:
        """Return the link of two sites as all accelerators of a stage share it."""
        rate = chain_rate(self.profile, chain_order(self.profile), one, other)
        return Tier(
            name=LINK,
            domain=float("inf"),
            bandwidth=min(port, rate / each),
            latency=link_latency(self.profile, one, other),
            pair_bandwidth=min(port, rate),
            shared=rate,
        )
