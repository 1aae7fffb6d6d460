"""What a step and a whole training cost, in money, energy and days."""

from __future__ import annotations

from dataclasses import dataclass

from planner.runtimes._family import Job
from planner.units import DAY, HOUR


@dataclass(frozen=True)
class Bill:
    """Money, energy and time; None where a price, the rated power or the training tokens are not known.

    Energy takes every accelerator at its rated power for the whole step, which is an upper bound.
    """

    usd_per_step: float | None
    joules_per_step: float | None
    days_to_train: float | None
    usd_to_train: float | None

    def stretched(self, share: float) -> Bill:
        """Return the bill of a step that takes so many times as long."""
        parts = (self.usd_per_step, self.joules_per_step, self.days_to_train, self.usd_to_train)
        return Bill(*(None if part is None else share * part for part in parts))


def bill_of(job: Job, step: float) -> Bill:
    """Return what steps of ``step`` seconds cost.

    Parameters
    ----------
    job : Job
        Cluster with prices and rated power, accelerators, and training tokens.
    step : float
        Seconds of an optimizer step. [s]
    """
    pool, workload = job.hardware.pool, job.workload
    price, power = pool.price_per_hour, pool.accelerator.power
    usd = float(price) * job.gpus * step / HOUR if price is not None else None
    steps = workload.tokens / workload.tokens_per_step if workload.tokens else None
    return Bill(
        usd_per_step=usd,
        joules_per_step=float(power) * job.gpus * step if power is not None else None,
        days_to_train=steps * step / DAY if steps is not None else None,
        usd_to_train=steps * usd if steps is not None and usd is not None else None,
    )
