"""Ways to keep sites together, ranked by time and money to the same loss."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from planner.cost.money import quote_of
from planner.cost.sites.price import SyncPrice, Way, device_copies, price_way, untrained_copies
from planner.dataclasses import replace
from planner.formulas.learning_laws import critical_batch_sequences, large_batch_tokens
from planner.search.sites.crossing import crossover, fastest_at, few_plans, with_narrowest
from planner.search.sites.inside import Inside, Plans
from planner.search.sites.joint import at_links, joint_price, refused_joint, widened
from planner.search.sites.layer_rates import layer_bits
from planner.search.sites.request import SitesRequest
from planner.search.sites.unlike import Chained, over_links
from planner.search.sites.ways import RATES, Ranked, SitesResult, trained_at
from planner.techniques.compress import COMPRESSIONS, Packed
from planner.techniques.engines.family import HOST_SHARE
from planner.techniques.sync import SYNCS, Sync
from planner.units import GIB

WITHIN: Final = 1.01
"""Times the least time within which fewer inner steps are taken, which cost less in learning. [-]"""

LAID: Final = "one job lays stages outermost, so data parallelism crosses sites without; nearest: pp 1"

CRITICAL_LENGTH: Final = 512
"""Tokens of a sequence by which critical batches were counted (arXiv:2410.21676). [element]"""


def search_sites(request: SitesRequest) -> SitesResult:
    """Rank the ways of a request."""
    started = time.perf_counter()
    plans = Plans(request)
    exact = few_plans(list(_each_way(SYNCS["ddp"], replace(request, packed=None), plans)))
    found, unfit = [], []
    for sync in sorted(request.syncs, key=lambda one: one.pattern == "pipeline"):
        best = _best_of(sync, request, plans)
        if best is None:
            unfit.append(sync.name)
        else:
            plans.other = min(plans.other, best.order[1] if best.compute else float("inf"))
            found.append(replace(best, crossover=crossover(best, exact, request)))
    found.sort(key=lambda one: one.order)
    shown = [one for one in found if request.asked or not one.refused]
    first = shown[0] if shown else None
    return SitesResult(
        ranked=tuple(shown),
        others=tuple(one for one in found if one not in shown),
        by_steps=tuple(_each_count(first.sync, request, plans)) if first and first.sync.inner else (),
        narrowest=min(link.rate for link in request.profile.links),
        critical_tokens=critical_tokens(float(request.model.params)),
        searched=plans.searched,
        unfit=tuple(unfit),
        elapsed=time.perf_counter() - started,
        failed=plans.failed if not found else None,
        rates=RATES,
        curves={one.sync.name: _curve(one, exact, request) for one in [*exact[:1], *found]},
    )


def _curve(one: Ranked, exact: list[Ranked], request: SitesRequest) -> tuple[float, ...]:
    """Return the step of a way at each of the rates; of `ddp` that of its fastest plan. [s]"""
    known = exact if one.exact and one.sync is SYNCS["ddp"] else [one]
    return tuple(fastest_at(rate, known, request) for rate in RATES)


def critical_tokens(params: float) -> float:
    """Return the critical batch of a model in tokens, on 20 tokens a parameter. [-]"""
    return CRITICAL_LENGTH * float(critical_batch_sequences(params / 1e6))


def twice_the_replicas(one: Ranked, request: SitesRequest, critical: float) -> float | None:
    """Return times the time to the same loss with twice the replicas; None where nobody knows. [-]

    Each keeps its batch and its speed: half the steps, but for what the larger batch and more replicas cost
    in learning. Near 1 more replicas stop paying.
    """
    replicas, params = request.profile.replicas, float(request.model.params)
    fewer, more = (compute_to_loss(one.price.way, params, count) for count in (replicas, 2 * replicas))
    if fewer is None or more is None or one.compute is None:
        return None
    larger = batch_cost(2.0 * one.step_tokens, critical) / batch_cost(one.step_tokens, critical)
    return 0.5 * larger * more / fewer


def batch_cost(tokens: float, critical: float) -> float:
    """Return times the tokens that a batch of so many costs. [-]"""
    return float(large_batch_tokens(tokens / critical))


def _best_of(sync: Sync, request: SitesRequest, plans: Plans) -> Ranked | None:
    """Return the fewest inner steps, and the shortest delay, that are about as fast as the fastest."""
    ways = list(_each_way(sync, request, plans))
    if not ways:
        return None
    least = min(one.price.step for one in ways)
    close = [one for one in ways if one.price.step <= WITHIN * least]
    return min(close, key=lambda one: (one.price.way.steps, one.price.way.delay, one.price.step))


def _each_count(sync: Sync, request: SitesRequest, plans: Plans) -> Iterator[Ranked]:
    """Yield the best delay of each number of inner steps."""
    for steps in request.steps:
        best = _best_of(sync, replace(request, steps=(steps,)), plans)
        if best is not None:
            yield best


def _each_way(sync: Sync, request: SitesRequest, plans: Plans) -> Iterator[Ranked]:
    packed = packed_for(sync, request)
    refused = refusals(sync, packed, request)
    if sync.pattern == "pipeline" and refused_joint(request):
        chained = plans.chained()
        yield from [] if chained is None else [_chained_way(chained, Way(sync, 1, packed), refused, request)]
        return
    if is_one_job(sync, packed, request):
        found = list(_joint_ways(Way(sync, 1, packed), refused, request, plans))
        yield from found
        if found or sync.pattern == "pipeline":
            return
        refused = (*refused, LAID)
    layers, tried = request.model.num_layers, request.steps if sync.inner else (1,)
    ways = [Way(sync, steps, packed, delay) for steps in tried for delay in sync.delays]
    copies = max(device_copies(way, sync.timing(way.steps, layers, way.delay)) for way in ways)
    copies -= untrained_copies(sync.parts(request.model, request.profile.replicas))
    runner = request.runtime.lone_replicas and not refused
    seen = set()
    best = plans.with_room(copies, runner)
    alike = [best] if best is not None else []
    for inside in plans.choices(copies, runner) if sync.axis == "data" else alike:
        for way in ways:
            price = price_way(way, trained_at(request, inside))
            if sync.axis == "data" or (way.steps, price.timing) not in seen:
                seen.add((way.steps, price.timing))
                yield _ranked(price, inside, (*refused, *short_hosts(price, request)), request)


def is_one_job(sync: Sync, packed: Packed, request: SitesRequest) -> bool:
    """Whether a method is one job over all sites, and not one of replicas that something keeps together."""
    exact = sync.exact and packed.how.name == "none" and not refused_joint(request)
    return exact and (sync.pattern == "pipeline" or not request.runtime.lone_replicas)


def _joint_ways(way: Way, refused: tuple[str, ...], request: SitesRequest, plans: Plans) -> Iterator[Ranked]:
    """Yield one job over the sites: the best for their links, and where copies cross that inside a site."""
    inside = plans.with_room(0.0, runner=False)
    alone = max(one.step for one in inside.values()) if inside else float("inf")
    wide = widened(inside, request) if inside and way.sync.axis == "data" else None
    for known in (plans.joint(way.sync.axis), wide):
        if known is not None and (chained := over_links(known, request)) is not None:
            yield _chained_way(chained, way, refused, request)
        elif known is not None:
            price = joint_price(known, way, request.profile, alone)
            found = _ranked(price, {request.profile.name: known}, refused, request)
            profiles = (with_narrowest(rate, request) for rate in RATES)
            yield replace(found, steps=tuple(at_links(known, one, request.clusters) for one in profiles))


def _chained_way(chained: Chained, way: Way, refused: tuple[str, ...], request: SitesRequest) -> Ranked:
    """Return one job's pipeline whose stages or links are unlike."""
    found = _ranked(chained.price(way), {request.profile.name: chained.known}, refused, request)
    return replace(found, steps=tuple(chained.at(with_narrowest(rate, request)) for rate in RATES))


def short_hosts(price: SyncPrice, request: SitesRequest) -> Iterator[str]:
    """Yield the sites whose host memory has no room for what a method keeps there."""
    for name, cluster in request.clusters.items():
        node = cluster.pool.node
        needs = price.host_bytes * cluster.pool.gpus_per_node
        if node.host_memory is not None and needs > HOST_SHARE * node.host_memory:
            room = f"{HOST_SHARE * node.host_memory / GIB:.0f} GiB of host memory"
            yield f"{needs / GIB:.0f} GiB on a node of {name}, which has {room} to give"


def packed_for(sync: Sync, request: SitesRequest) -> Packed:
    """Return the compression of a method: the one asked for, or its own."""
    own = COMPRESSIONS[sync.compress]
    if sync.pattern == "pipeline":
        return Packed(own)
    packed = request.packed or Packed(own, own.amount or 0.0)
    if packed.how.name != "layerwise":
        return packed
    return replace(packed, amount=layer_bits(request.model, packed.amount))


def refusals(sync: Sync, packed: Packed, request: SitesRequest) -> tuple[str, ...]:
    """Return why the runtime does not train so; empty where it does."""
    runtime, plain = request.runtime.name, packed.how.name == "none"
    if runtime not in sync.runners:
        return ("no runner known",) if not sync.runners else (f"{sync.run_by} runs it, {runtime} does not",)
    reasons: list[str] = ["no runner known for batches by speed"] if request.batches else []
    if sync.pattern == "pipeline":
        reasons = [*refused_joint(request)]
        if request.packed is not None and request.packed.how.name != "none":
            reasons.append(f"{runtime} sends activations as they are; nearest: --compress none")
        return tuple(reasons)
    kept = packed.feedback.name != "none"
    if not plain and (kept or runtime not in packed.how.runners or not _packs(sync, runtime)):
        reasons.append(f"{runtime} does not send {packed.text} with {sync.name}")
    if request.runtime.lone_replicas and int(str(request.fixed.get("pp", 1))) > 1:
        reasons.append("torchft keeps one part of the model together, so no pipeline; nearest: pp 1")
    if not request.alike:
        reasons.append("replicas exchange shard by shard, so each has as many accelerators")
    return tuple(reasons)


def _packs(sync: Sync, runtime: str) -> bool:
    """Whether the runtime's method takes a compression: DiLoCo's alone does."""
    return sync.runners[runtime] == "diloco"


def _ranked(price: SyncPrice, inside: Inside, refused: tuple[str, ...], request: SitesRequest) -> Ranked:
    params, work = float(request.model.params), request.whole_workload
    known = compute_to_loss(price.way, params, request.profile.replicas)
    return Ranked(
        price=price,
        plans=inside,
        refused=refused,
        compute=None if unweighed(price.way, request) else known,
        tokens=work.tokens,
        step_tokens=float(work.tokens_per_step),
        usd_per_hour=usd_per_hour(request),
    )


def unweighed(way: Way, request: SitesRequest) -> bool:
    """Whether replicas of unlike batches count alike, whose cost in learning nobody has printed."""
    return bool(request.batches) and way.sync.axis == "outer"


def compute_to_loss(way: Way, params: float, replicas: int) -> float | None:
    """Return times the compute with which a way reaches the same loss; None where nobody knows. [-]"""
    known = way.sync.penalty.compute(params, replicas)
    return known if way.packed.how.harmless else None


def usd_per_hour(request: SitesRequest) -> float | None:
    """Return what all accelerators cost in an hour; None where some have no price. [USD/h]"""
    total = 0.0
    for site in request.profile.sites:
        quote = quote_of(request.clusters[site.name].pool)
        if quote is None:
            return None
        total += quote.usd_per_hour * site.gpus
    return total
