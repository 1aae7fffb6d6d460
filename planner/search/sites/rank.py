"""Ways to keep sites together, ranked by time and money to one loss."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from planner.cost.host_rules import HOST_SHARE
from planner.cost.money import quote_of
from planner.cost.sites.price import SyncPrice, Trained, Way, device_copies, price_way
from planner.formulas.learning_laws import critical_batch_sequences, large_batch_tokens
from planner.search.optimise import SearchResult
from planner.search.sites.inside import Inside, Plans, plan_shards
from planner.search.sites.layer_rates import layer_bits
from planner.search.sites.request import SitesRequest
from planner.techniques.compress import COMPRESSIONS, Packed
from planner.techniques.sync import SYNCS, Sync
from planner.units import DAY, GIB, HOUR

TORCHFT: Final = "torchtitan"
"""The runtime that keeps replicas together with torchft."""

WITHIN: Final = 1.01
"""Times the least time within which fewer inner steps are taken, which cost less in learning. [-]"""

RATES: Final = tuple(10.0 ** (0.25 * place) for place in range(24, 46))
"""Rates of the narrowest link for which ways are drawn: 8 Mbit/s to 1.4 Tbit/s. [byte/s]"""

CRITICAL_LENGTH: Final = 512
"""Tokens of a sequence by which critical batches were counted (arXiv:2410.21676). [element]"""


@dataclass(frozen=True)
class Ranked:
    """One way with its plans and its place.

    Parameters
    ----------
    price : SyncPrice
        Time, traffic and memory.
    plans : mapping
        The plan of a replica at each site.
    refused : tuple of str
        Why the runtime does not run it; empty where it does.
    compute : float, optional
        Times the compute to one loss; None where nobody knows. [-]
    tokens : float, optional
        Tokens to train. [-]
    step_tokens : float
        Tokens of an inner step over all replicas. [-]
    usd_per_hour : float, optional
        Of all accelerators. [USD/h]
    crossover : float, optional
        Rate of the narrowest link below which it needs less time than exact data parallelism, infinite where
        it always does and 0 where it never does; None where it is that itself. [byte/s]
    """

    price: SyncPrice
    plans: Inside
    refused: tuple[str, ...]
    compute: float | None
    tokens: float | None
    step_tokens: float
    usd_per_hour: float | None
    crossover: float | None = None

    @property
    def sync(self) -> Sync:
        """The method."""
        return self.price.way.sync

    @property
    def exact(self) -> bool:
        """Whether it computes what one cluster would."""
        return self.sync.exact and self.price.way.packed.how.name == "none"

    @property
    def days(self) -> float | None:
        """Days for the tokens; None where none are named."""
        return self.tokens / self.step_tokens * self.price.step / DAY if self.tokens else None

    @property
    def usd(self) -> float | None:
        """What they cost. [USD]"""
        days, rate = self.days, self.usd_per_hour
        return days * DAY / HOUR * rate if days is not None and rate is not None else None

    def to_loss(self, value: float | None) -> float | None:
        """Return days or money to the loss that exact training has after the tokens."""
        return value * self.compute if value is not None and self.compute is not None else None

    @property
    def order(self) -> tuple[float, float]:
        """What it is ranked by: time to one loss; ways of unknown cost come after, by their speed."""
        known = self.compute is not None
        return (0.0 if known else 1.0), self.price.step * (self.compute or 1.0)


@dataclass(frozen=True)
class SitesResult:
    """Ranked ways and an account of the search.

    Parameters
    ----------
    ranked : tuple of Ranked
        Ways that may be ranked, best first.
    others : tuple of Ranked
        Ways that nobody runs and nobody asked for, in the same order.
    by_steps : tuple of Ranked
        The first way with each number of inner steps.
    narrowest : float
        Rate of the narrowest link. [byte/s]
    critical_tokens : float
        Critical batch of the model. [-]
    searched : int
        Legal plans that were priced inside the sites. [-]
    unfit : tuple of str
        Methods for which no plan fits.
    elapsed : float
        Time of the search. [s]
    failed : SearchResult, optional
        The search inside a site that found nothing, where no way is left.
    rates : tuple of float
        Rates of the narrowest link for which ways are drawn. [byte/s]
    curves : mapping
        Time of an inner step of each method at these rates, all links in proportion. [s]
    """

    ranked: tuple[Ranked, ...]
    others: tuple[Ranked, ...]
    by_steps: tuple[Ranked, ...]
    narrowest: float
    critical_tokens: float
    searched: int
    unfit: tuple[str, ...]
    elapsed: float
    failed: SearchResult | None = None
    rates: tuple[float, ...] = ()
    curves: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


def search_sites(request: SitesRequest) -> SitesResult:
    """Rank the ways of a request."""
    started = time.perf_counter()
    plans = Plans(request)
    exact = _best_of(SYNCS["ddp"], replace(request, packed=None), plans)
    found, unfit = [], []
    for sync in request.syncs:
        best = _best_of(sync, request, plans)
        if best is None:
            unfit.append(sync.name)
        else:
            found.append(replace(best, crossover=_crossover(best, exact, request)))
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
        curves={one.sync.name: tuple(_step_at(rate, one, one, request) for rate in RATES) for one in found},
    )


def critical_tokens(params: float) -> float:
    """Return the critical batch of a model in tokens, on 20 tokens a parameter. [-]"""
    return CRITICAL_LENGTH * float(critical_batch_sequences(params / 1e6))


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
    return min(close, key=lambda one: (one.price.way.steps, one.price.way.delay))


def _each_count(sync: Sync, request: SitesRequest, plans: Plans) -> Iterator[Ranked]:
    """Yield the best delay of each number of inner steps."""
    for steps in request.steps:
        best = _best_of(sync, replace(request, steps=(steps,)), plans)
        if best is not None:
            yield best


def _each_way(sync: Sync, request: SitesRequest, plans: Plans) -> Iterator[Ranked]:
    packed = packed_for(sync, request)
    refused = refusals(sync, packed, request)
    layers, tried = request.model.num_layers, request.steps if sync.inner else (1,)
    ways = [Way(sync, steps, packed, delay) for steps in tried for delay in sync.delays]
    copies = max(device_copies(way, sync.timing(way.steps, layers, way.delay)) for way in ways)
    inside = plans.with_room(copies, request.runtime.name == TORCHFT and not refused)
    if inside is None:
        return
    seen = set()
    for way in ways:
        price = price_way(way, trained_at(request, inside))
        if (way.steps, price.timing) not in seen:
            seen.add((way.steps, price.timing))
            yield _ranked(price, inside, (*refused, *short_hosts(price, request)), request)


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
    packed = request.packed or Packed(own, own.amount or 0.0)
    if packed.how.name != "layerwise":
        return packed
    return replace(packed, amount=layer_bits(request.model, packed.amount))


def refusals(sync: Sync, packed: Packed, request: SitesRequest) -> tuple[str, ...]:
    """Return why the runtime does not train so; empty where it does."""
    runtime, plain = request.runtime.name, packed.how.name == "none"
    if runtime not in sync.runners:
        return ("no runner known",) if not sync.runners else (f"{sync.run_by} runs it, {runtime} does not",)
    reasons = []
    if not plain and (runtime not in packed.how.runners or not _packs(sync, runtime)):
        reasons.append(f"{runtime} does not send {packed.text} with {sync.name}")
    if runtime == TORCHFT and int(str(request.fixed.get("pp", 1))) > 1:
        reasons.append("torchft keeps one part of the model together, so no pipeline; nearest: pp 1")
    if not request.alike:
        reasons.append("replicas exchange shard by shard, so each has as many accelerators")
    return tuple(reasons)


def _packs(sync: Sync, runtime: str) -> bool:
    """Whether the runtime's method takes a compression: DiLoCo's alone does."""
    return sync.runners[runtime] == "diloco"


def trained_at(request: SitesRequest, inside: Inside) -> Trained:
    """Return what trains at the sites by these plans."""
    rates = (float(one.pool.accelerator.memory_bandwidth) for one in request.clusters.values())
    some = next(iter(inside.values()))
    return Trained(
        profile=request.profile,
        model=some.job.model,
        tokens=float(request.replica_workload.tokens_per_step * request.profile.replicas),
        seconds={name: answer.step for name, answer in inside.items()},
        memory_rate=min(rates),
        shards=min(plan_shards(answer.plan) for answer in inside.values()),
        micro_batches=int(max(answer.plan.num_microbatches for answer in inside.values())),
    )


def _ranked(price: SyncPrice, inside: Inside, refused: tuple[str, ...], request: SitesRequest) -> Ranked:
    params, work = float(request.model.params), request.replica_workload
    return Ranked(
        price=price,
        plans=inside,
        refused=refused,
        compute=compute_to_loss(price.way, params, request.profile.replicas),
        tokens=work.tokens,
        step_tokens=float(work.tokens_per_step * request.profile.replicas),
        usd_per_hour=usd_per_hour(request),
    )


def compute_to_loss(way: Way, params: float, replicas: int) -> float | None:
    """Return times the compute with which a way reaches one loss; None where nobody knows. [-]"""
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


def _crossover(one: Ranked, exact: Ranked | None, request: SitesRequest) -> float | None:
    """Return the rate of the narrowest link below which a way is ahead of exact data parallelism.

    By time to one loss where its cost is known, else by speed alone, on the same plan inside the sites. All
    links grow and shrink together.
    """
    if exact is None or one.exact:
        return None

    def ahead(rate: float) -> bool:
        own, other = (_step_at(rate, each, one, request) for each in (one, exact))
        return own * (one.compute or 1.0) < other

    low, high = 1e3, 1e13
    if not ahead(low):
        return 0.0
    if ahead(high):
        return float("inf")
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if ahead(middle) else (low, middle)
    return low


def _step_at(rate: float, one: Ranked, inside: Ranked, request: SitesRequest) -> float:
    """Return the step of a way on another's plans, where the narrowest link has a rate and all grow alike."""
    narrowest = min(link.rate for link in request.profile.links)
    profile = request.profile.scaled(rate / narrowest)
    return price_way(one.price.way, replace(trained_at(request, inside.plans), profile=profile)).step
