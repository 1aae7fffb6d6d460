"""Ways to keep sites together as a search ranks them, with what trains at the sites."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.cost.sites.price import SyncPrice, Trained
from planner.dataclasses import dataclass, field
from planner.search.result import SearchResult
from planner.search.sites.inside import Inside, plan_shards
from planner.search.sites.request import SitesRequest
from planner.techniques.sync import Sync
from planner.units import DAY, HOUR

RATES: Final = tuple(10.0 ** (0.25 * place) for place in range(24, 50))
"""Rates of the narrowest link for which ways are drawn: 8 Mbit/s to 14 Tbit/s. [byte/s]"""


@dataclass(frozen=True)
class Ranked:
    """One way with its plans and its place."""

    price: SyncPrice
    """Time, traffic and memory."""
    plans: Inside
    """The plan of a replica at each site."""
    refused: tuple[str, ...]
    """Why the runtime does not run it; empty where it does."""
    compute: float | None
    """Times the compute to the same loss; None where nobody knows. [-]"""
    tokens: float | None
    """Tokens to train. [-]"""
    step_tokens: float
    """Tokens of an inner step over all replicas. [-]"""
    usd_per_hour: float | None
    """Of all accelerators. [USD/h]"""
    crossover: float | None = None
    """Rate of the narrowest link below which it needs less time than exact data parallelism, infinite where
    it always does and 0 where it never does; None where it is that itself. [byte/s]"""
    steps: tuple[float, ...] = ()
    """Time of a step at each of `RATES`, of one job over the sites, whose plan is that of all of them. [s]"""

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
        """What it is ranked by: time to the same loss; ways of unknown cost come after, by their speed."""
        known = self.compute is not None
        return (0.0 if known else 1.0), self.price.step * (self.compute or 1.0)


@dataclass(frozen=True)
class SitesResult:
    """Ranked ways and an account of the search."""

    ranked: tuple[Ranked, ...]
    """Ways that may be ranked, best first."""
    others: tuple[Ranked, ...]
    """Ways that nobody runs and nobody asked for, in the same order."""
    by_steps: tuple[Ranked, ...]
    """The first way with each number of inner steps."""
    narrowest: float
    """Rate of the narrowest link. [byte/s]"""
    critical_tokens: float
    """Critical batch of the model. [-]"""
    searched: int
    """Legal plans that were priced inside the sites. [-]"""
    unfit: tuple[str, ...]
    """Methods for which no plan fits."""
    elapsed: float
    """Time of the search. [s]"""
    failed: SearchResult | None = None
    """The search inside a site that found nothing, where no way is left."""
    rates: tuple[float, ...] = ()
    """Rates of the narrowest link for which ways are drawn. [byte/s]"""
    curves: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Time of an inner step of each method at these rates, all links in proportion. [s]"""


def trained_at(request: SitesRequest, inside: Inside) -> Trained:
    """Return what trains at the sites by these plans.

    FSDP calls the hook by which torchft sums gradients over the sites after every reduction of its own, which
    torchtitan has in each micro-batch.

    References
    ----------
    .. [1] torchtitan b5bcd76c, ``experiments/torchft/manager.py``, ``maybe_set_all_reduce_hook``.
    """
    passes = int(max(answer.plan.num_microbatches for answer in inside.values()))
    rates = (float(one.pool.accelerator.memory_bandwidth) for one in request.clusters.values())
    some = next(iter(inside.values()))
    return Trained(
        profile=request.profile,
        model=some.job.model,
        tokens=float(request.whole_workload.tokens_per_step),
        seconds={name: answer.step for name, answer in inside.items()},
        memory_rate=min(rates),
        shards=min(plan_shards(answer.plan) for answer in inside.values()),
        micro_batches=passes,
        batches=request.batches,
        reductions=passes if request.runtime.lone_replicas else 1,
    )
