"""One job over all sites: the sites as islands of one cluster, its pipeline's stages at them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from planner.cost.estimate import Estimate
from planner.cost.layer.communication import message_bytes
from planner.cost.price import price
from planner.cost.sites.price import ACTIVATION, SyncPrice, Way
from planner.cost.sites.routes import Route, chain_order, chain_route, ring_route
from planner.cost.step.played import wire_tiers
from planner.dataclasses import replace
from planner.formulas.low_communication import boundary_bytes
from planner.inputs.hardware import HardwareProfile
from planner.inputs.links import Islands
from planner.inputs.record import Sourced
from planner.inputs.sites import SitesProfile
from planner.rules import divisors
from planner.search.optimise import found_plans
from planner.search.request import SearchRequest
from planner.search.result import SearchResult
from planner.search.sites.request import SitesRequest
from planner.techniques.sync.family import Axis

INSIDE = "stages_inside"
"""Trait of a runtime that lays the stages of a pipeline side by side."""

MOST_SITE_STAGES = 16
"""Stages of a site up to which they are searched. [-]"""


def refused_joint(request: SitesRequest) -> tuple[str, ...]:
    """Return why the sites are no islands of one cluster; empty where they are."""
    return tuple(_refusals(request))


def _refusals(request: SitesRequest) -> Iterator[str]:
    kinds = {request.clusters[one.name].name for one in request.profile.sites}
    if len(kinds) > 1:
        yield f"no runner known for one job on {' and '.join(sorted(kinds))}"
    if len({one.gpus for one in request.profile.sites}) > 1:
        yield "files of one job take as many accelerators at each site"
    per_node = next(iter(request.clusters.values())).pool.gpus_per_node
    if any(one.gpus % per_node for one in request.profile.sites):
        yield f"files of one job take whole nodes of {per_node}"


def joint_cluster(profile: SitesProfile, clusters: Mapping[str, HardwareProfile]) -> HardwareProfile:
    """Return the sites as islands of one cluster, in the order of the path whose narrowest link is widest."""
    first, route = chain_order(profile)[0], chain_route(profile)
    rate = min(hop.rate for hop in route.hops)
    cluster = clusters[first]
    islands = Islands(
        gpus=next(one.gpus for one in profile.sites if one.name == first),
        bandwidth=Sourced(rate, f"{rate:.6g} B/s", profile.name, "user"),
        latency=Sourced(route.latency, f"{route.latency:.6g} s", profile.name, "user"),
    )
    pool = cluster.pool.model_copy(update={"islands": islands, "gpus": None})
    return cluster.model_copy(update={"name": profile.name, "pools": (pool,)})


def islands_yaml(profile: SitesProfile, clusters: Mapping[str, HardwareProfile], folder: Path) -> str:
    """Return the file of the sites as islands of one cluster; ``folder`` is that of the file of sites."""
    islands = joint_cluster(profile, clusters).pool.islands
    site = next(one for one in profile.sites if one.name == chain_order(profile)[0])
    beside = folder / site.cluster
    own = site.cluster.endswith((".yaml", ".yml")) and beside.is_file()
    lines = [
        f"name: {profile.name}",
        f"base: {beside.resolve() if own else site.cluster}",
        *([f"price: {site.price.text}"] if site.price is not None else []),
    ]
    if islands is not None:
        rate, latency = f"{float(islands.bandwidth):.9g} B/s", f"{float(islands.latency):.9g} s"
        lines.append(f"islands: {{gpus: {islands.gpus}, bandwidth: {rate}, latency: {latency}}}")
    return "\n".join(lines) + "\n"


def on_cluster(known: Estimate, cluster: HardwareProfile) -> Estimate:
    """Return the same plan priced on another cluster.

    Raises `UnsupportedPlan` if it has no price there.
    """
    answer = price(known.plan, replace(known.job, hardware=cluster), known.runtime)
    if not isinstance(answer, Estimate):
        raise answer.error()
    return answer


def stage_counts(request: SitesRequest, axis: Axis) -> list[int]:
    """Return the stages that are tried: one where data parallelism crosses, else as many at each site.

    Ranks of one job have stages outermost, so that with several it is they that cross.
    """
    if axis == "data":
        return [1] if request.fixed.get("pp") in (None, 1) else []
    sites, gpus = len(request.profile.sites), request.profile.gpus
    most = min(request.model.num_layers, sites * MOST_SITE_STAGES)
    pinned = request.fixed.get("pp")
    tried = [int(str(pinned))] if pinned is not None else divisors(gpus)
    return [stages for stages in tried if stages % sites == 0 and stages <= most and gpus % stages == 0]


def least_seconds(request: SitesRequest) -> float:
    """Return what activations of a step take over the narrowest link between stages at the least. [s]"""
    tokens = float(request.workload.tokens_per_step)
    nbytes = float(boundary_bytes(tokens, float(request.model.hidden), ACTIVATION))
    return max(hop.share * nbytes / hop.rate for hop in chain_route(request.profile).hops)


def best_joint(request: SitesRequest, axis: Axis, other: float = float("inf")) -> tuple[Estimate | None, int]:
    """Return the fastest plan of one job that an axis spreads over the sites, and how many were priced.

    More stages are tried as long as the best split gets faster: several stages at a site let those beside
    the link have fewer layers. Where the link alone takes longer than an ``other`` way, the fewest do. [s]
    """
    best: Estimate | None = None
    searched = 0
    for count in stage_counts(request, axis):
        if best is not None and least_seconds(request) > other:
            break
        result = _search(request, count)
        searched += result.valid
        found = next(iter(result.plans), None)
        if best is not None and found is not None and found.step > best.step:
            break
        best = found or best
    return best, searched


def _search(request: SitesRequest, stages: int) -> SearchResult:
    """Search the plans of so many stages over the sites."""
    return found_plans(
        SearchRequest(
            model=request.model,
            clusters=(joint_cluster(request.profile, request.clusters),),
            gpu_counts=(request.profile.gpus,),
            workload=request.workload,
            runtimes=(request.runtime,),
            fixed={**request.fixed, "pp": stages},
            top=1,
            memory_limit=request.memory_limit,
            oom_risk=request.oom_risk,
            settings=request.settings,
        ),
        advise=False,
    )


def widened(inside: Mapping[str, Estimate], request: SitesRequest) -> Estimate | None:
    """Return the plan of a replica as that of one job over the sites; None where it is none or does not fit.

    It is the plan for links so fast that they do not matter. Pipelines stay inside the sites where the
    runtime can lay their stages side by side.
    """
    some = next(iter(inside.values()))
    runtime = some.runtime
    if some.plan.pp > 1:
        if not runtime.settings.get(INSIDE):
            return None
        runtime = runtime.with_traits(**{INSIDE: True})
    plan = replace(some.plan, dp=some.plan.dp * request.profile.replicas)
    job = replace(
        some.job,
        hardware=joint_cluster(request.profile, request.clusters),
        gpus=request.profile.gpus,
        workload=request.workload,
    )
    answer = price(plan, job, runtime, request.memory_limit)
    return answer if isinstance(answer, Estimate) and answer.feasible else None


def at_links(known: Estimate, profile: SitesProfile, clusters: Mapping[str, HardwareProfile]) -> float:
    """Return the time of the same plan's step where the links are those of a profile. [s]"""
    return on_cluster(known, joint_cluster(profile, clusters)).step


def unlinked(known: Estimate) -> float:
    """Return the time of the same plan's step were the network of a site between all of them. [s]"""
    cluster = known.job.hardware
    pool = cluster.pool.model_copy(update={"islands": None})
    return on_cluster(known, cluster.model_copy(update={"pools": (pool,)})).step


def joint_price(known: Estimate, way: Way, profile: SitesProfile, inside: float) -> SyncPrice:
    """Return what a priced job over the sites sends and waits for.

    ``inside`` is the time of a step of replicas inside the sites: what trains is that, or the same plan with
    the network of a site between all where it takes less. [s]
    """
    rings = known.plan.pp == 1 or known.runtime.traits.pipeline.stages_inside
    route, once, sent = _ring_sent(known, profile) if rings else _chain_sent(known, profile)
    alone = min(inside, unlinked(known))
    return SyncPrice(
        way=way,
        timing=way.sync.timing(way.steps, known.job.model.num_layers, way.delay),
        compute=alone,
        exchanges=(route.seconds(once),),
        period=known.step,
        utilisation=min(1.0, alone / known.step),
        peak=route.peak(sent),
        mean={pair: amount / known.step for pair, amount in route.sent(sent).items()},
        device_bytes=0.0,
        host_bytes=0.0,
    )


def _ring_sent(known: Estimate, profile: SitesProfile) -> tuple[Route, float, float]:
    """Return the ring of gradients, what goes at once, and in a step: all of them, once. [byte]"""
    gradients = float(known.job.model.params) * known.case.reduce_bytes
    return ring_route(profile, sums=True), gradients, gradients


def _chain_sent(known: Estimate, profile: SitesProfile) -> tuple[Route, float, float]:
    """Return the path of stages, the message of a micro-batch, and what a step sends each way. [byte]

    A message goes over each link once in each direction for each crossing of the pipeline, from all ranks of
    the stage that sends.
    """
    case, plan = known.case, known.plan
    tokens = case.rank_tokens(plan)
    whole = float(message_bytes(case, plan, tokens) * known.job.gpus / plan.pp)
    crossings = sum(place == len(case.tiers) - 1 for place in wire_tiers(plan, case))
    each = crossings / (len(profile.sites) - 1) * whole
    return chain_route(profile), whole, each * float(plan.num_microbatches)
