"""The interconnect of a pool as one job lies in it."""

from __future__ import annotations

from planner.dataclasses import replace
from planner.formulas.collectives import Tier
from planner.inputs.hardware import Pool
from planner.remembered import remembered


@remembered(most=1024)
def job_tiers(pool: Pool, gpus: int, share: float = 1.0) -> tuple[Tier, ...]:
    """Return the interconnect of a pool at a share of its rates, as a job of so many ranks lies in it.

    Of a domain that joins several nodes a job may take a part (`Pool.segment`): then that is what it joins.
    """
    tiers = [replace(tier.scaled(share), gpus=float(gpus)) for tier in pool.tiers]
    whole, part = pool.scaleup_domain, float(pool.fast_ranks(gpus))
    return tuple(replace(tier, domain=part) if tier.domain == whole else tier for tier in tiers)
