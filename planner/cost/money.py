"""What a step and a whole training cost, in money, energy and days."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from planner.inputs.hardware import OWN_PRICE, Pool
from planner.runtimes._family import Job
from planner.units import DAY, HOUR


@dataclass(frozen=True)
class Quote:
    """What one accelerator costs for an hour, and whose price it is.

    Parameters
    ----------
    usd_per_hour : float
        For one accelerator. [USD/h]
    basis : {"user", "cluster", "accelerator"}
        The user's own; that of this cluster; or, where that is not known, one that somebody asks for the
        accelerator elsewhere.
    seller, kind, day, source : str
        Who asks it, for what (on demand, spot, reserved, list), when, and where it stands, as far as said.
    """

    usd_per_hour: float
    basis: Literal["user", "cluster", "accelerator"]
    seller: str = ""
    kind: str = ""
    day: str = ""
    source: str = ""

    @property
    def lent(self) -> bool:
        """Whether it is not the price of this cluster."""
        return self.basis == "accelerator"

    @property
    def text(self) -> str:
        """The rate with seller, kind and day, and that it is not this cluster's where it is not."""
        said = [f"{self.usd_per_hour:g} USD/h", "your own" if self.basis == "user" else self.seller]
        said += [self.kind, self.day, "not this cluster's" if self.lent else ""]
        return ", ".join(filter(None, said))


def quote_of(pool: Pool) -> Quote | None:
    """Return the price of a pool's accelerators, None where none is known."""
    price = pool.price_per_hour
    if price is None:
        return None
    own = pool.price is not None
    of = pool if own else pool.accelerator
    user = own and price.source == OWN_PRICE
    basis: Literal["user", "cluster", "accelerator"] = "user" if user else "cluster" if own else "accelerator"
    source = "" if user else price.source
    return Quote(float(price), basis, of.price_seller, of.price_kind, of.price_date, source)


@dataclass(frozen=True)
class Bill:
    """Money, energy and time; None where a price, the rated power or the training tokens are not known.

    Energy takes every accelerator at its rated power for the whole step, which is an upper bound.
    """

    usd_per_step: float | None
    joules_per_step: float | None
    days_to_train: float | None
    usd_to_train: float | None


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
