"""One pipeline over sites of unlike accelerators or numbers of them: stages and layers by their speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd
from typing import Final

from planner.cost.case import case_of
from planner.cost.estimate import Estimate
from planner.cost.layer.communication import message_bytes
from planner.cost.price import price
from planner.cost.sites.chain import Chain, stage_sites
from planner.cost.sites.price import SyncPrice, Way
from planner.cost.sites.routes import chain_route
from planner.cost.step.hosted import is_hosted
from planner.cost.step.parts import PlanParts
from planner.dataclasses import dataclass, replace
from planner.inputs.sites import SitesProfile
from planner.plan import Plan
from planner.rules import divisors
from planner.search.optimise import found_plans
from planner.search.request import SearchRequest
from planner.search.sites.joint import MOST_SITE_STAGES
from planner.search.sites.request import SitesRequest

OFFERED: Final = 3
"""Plans of even stages for each number of stages, whose layers are then shared out. [-]"""
MOST_MOVES: Final = 120
"""Splits of one plan that are priced at most. [-]"""
MOST_PLAYED: Final = 400_000
"""Passes of a micro-batch over a stage that are played for them at most. [-]"""
FAST: Final = 1e6
"""Times the rate of links that do not matter. [-]"""


@dataclass(frozen=True)
class Chained:
    """A plan whose stages lie at unlike sites; ``known`` is it on the least of their accelerators. [s]"""

    chain: Chain
    known: Estimate
    step: float

    def at(self, profile: SitesProfile) -> float:
        """Return the time of its step where the links are those of a profile. [s]"""
        return replace(self.chain, profile=profile).step(self.known.plan)

    def price(self, way: Way) -> SyncPrice:
        """Return what it sends and waits for."""
        plan, job = self.known.plan, self.known.job
        case, route = case_of(plan, job, self.known.runtime), chain_route(self.chain.profile)
        tokens = case.rank_tokens(plan)
        whole = float(message_bytes(case, plan, tokens) * job.gpus / plan.pp)
        sent = whole * float(plan.num_microbatches)
        alone = min(self.step, self.at(self.chain.profile.scaled(FAST)))
        return SyncPrice(
            way=way,
            timing=way.sync.timing(way.steps, job.model.num_layers, way.delay),
            compute=alone,
            exchanges=(route.seconds(whole),),
            period=self.step,
            utilisation=alone / self.step,
            peak=route.peak(sent),
            mean={pair: amount / self.step for pair, amount in route.sent(sent).items()},
            device_bytes=0.0,
            host_bytes=0.0,
        )


def best_chained(request: SitesRequest) -> tuple[Chained | None, int]:
    """Return the fastest pipeline whose stages lie at the sites, and how many plans were priced.

    Every stage has as many accelerators, so that a site has stages by its number of them. More stages are
    tried as long as that gets faster.
    """
    best: Chained | None = None
    searched = 0
    for stages in stage_counts(request):
        found, priced = _of_stages(request, stages)
        searched += priced
        if best is not None and (found is None or found.step > best.step):
            break
        best = found or best
    return best, searched


def stage_counts(request: SitesRequest) -> list[int]:
    """Return the stages that are tried, rising: those that fill the accelerators of every site."""
    sites, pinned = request.profile.sites, request.fixed.get("pp")
    shared = gcd(*(one.gpus for one in sites))
    counts = [request.profile.gpus // (shared // part) for part in divisors(shared)]
    most = min(request.model.num_layers, MOST_SITE_STAGES * len(sites))
    return [count for count in counts if count <= most and pinned in (None, count)]


def _of_stages(request: SitesRequest, stages: int) -> tuple[Chained | None, int]:
    """Return the best of a few plans of so many stages, the layers of each shared out by speed."""
    weakest = min(
        request.clusters.values(),
        key=lambda one: (one.pool.accelerator.memory_usable, one.pool.compute_rate),
    )
    pool = weakest.pool.model_copy(update={"islands": None, "gpus": None})
    cluster = weakest.model_copy(update={"name": request.profile.name, "pools": (pool,)})
    result = found_plans(
        SearchRequest(
            model=request.model,
            clusters=(cluster,),
            gpu_counts=(request.profile.gpus,),
            workload=request.workload,
            runtimes=(request.runtime,),
            fixed={"schedule": "1f1b", **request.fixed, "pp": stages, "vpp": 1},
            top=OFFERED,
            memory_limit=request.memory_limit,
            oom_risk=request.oom_risk,
            uniform=True,
            settings=request.settings,
        ),
        advise=False,
    )
    found = [chained for one in result.plans if (chained := shared_out(one, request)) is not None]
    return min(found, key=lambda one: one.step, default=None), result.valid


def shared_out(known: Estimate, request: SitesRequest) -> Chained | None:
    """Return a plan with its layers shared out among unlike stages; None where they do not fit.

    Layers go by speed at first; then one at a time moves from stage to stage as long as that helps.
    """
    chain = chain_of(known, request)
    apart = chain.priced(known.plan)
    plan = replace(known.plan, stage_layers=by_speed(known.plan, chain, apart))
    step, busy = chain.step(plan), chain.passes(plan, apart)
    left = min(MOST_MOVES, int(MOST_PLAYED / (2.0 * plan.pp * plan.num_microbatches)))
    moves = _moves(plan)
    while left > 0 and (split := next(moves, None)) is not None:
        other, left = replace(plan, stage_layers=split), left - 1
        seconds = chain.passes(other, apart)
        if seconds < busy and (whole := chain.step(other)) < step:
            plan, step, busy, moves = other, whole, seconds, _moves(other)
    answer = price(plan, known.job, known.runtime, request.memory_limit)
    if step == float("inf") or not isinstance(answer, Estimate) or answer.violations:
        return None
    return Chained(chain, answer, step)


def chain_of(known: Estimate, request: SitesRequest) -> Chain:
    """Return the sites as a chain for the job of a plan."""
    return Chain(
        request.profile,
        request.clusters,
        known.job,
        known.runtime,
        request.oom_risk,
        request.memory_limit,
    )


def over_links(known: Estimate, request: SitesRequest) -> Chained | None:
    """Return a plan of alike sites with each link for itself; None where there is one link or no chain."""
    case = known.case
    chunks = (known.plan.vpp, case.schedule.routes) == (1, 1) and not is_hosted(case, known.plan)
    crossing = known.plan.pp > 1 and not known.runtime.traits.pipeline.stages_inside
    if len(request.profile.sites) < 3 or not chunks or not crossing:
        return None
    step = (chain := chain_of(known, request)).step(known.plan)
    return Chained(chain, known, step) if step < float("inf") else None


def by_speed(plan: Plan, chain: Chain, apart: Mapping[str, PlanParts]) -> tuple[int, ...]:
    """Return layers of each stage in proportion to its speed, at least one each."""
    counts = chain.job.model.layer_counts
    taken = {
        name: sum(
            counts.get(kind, 0) * float(cost.seconds)
            for (kind, again), cost in parts.costs.items()
            if not again
        )
        for name, parts in apart.items()
    }
    speeds = [1.0 / taken[name] for name in stage_sites(chain.profile, int(plan.pp))]
    layers = chain.job.model.num_layers
    wanted = [layers * speed / sum(speeds) for speed in speeds]
    split = [max(1, int(share)) for share in wanted]
    while sum(split) != layers:
        step = 1 if sum(split) < layers else -1
        gaps = [
            step * (share - own) if own + step >= 1 else -float("inf")
            for share, own in zip(wanted, split, strict=True)
        ]
        split[gaps.index(max(gaps))] += step
    return tuple(split)


def _moves(plan: Plan) -> Iterator[tuple[int, ...]]:
    """Yield the splits in which one layer is on another stage."""
    split = plan.stage_layers or ()
    for giver, own in enumerate(split):
        for taker in range(len(split)):
            if taker != giver and own > 1:
                moved = list(split)
                moved[giver], moved[taker] = own - 1, moved[taker] + 1
                yield tuple(moved)
