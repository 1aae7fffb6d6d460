"""What a step and a whole training cost, in money, energy and days."""

from __future__ import annotations

from typing import Literal

from planner.dataclasses import dataclass
from planner.inputs.hardware import OWN_PRICE, Pool
from planner.runtimes.family import Job
from planner.units import DAY, HOUR


@dataclass(frozen=True)
class Quote:
    """What one accelerator costs for an hour, and whose price it is."""

    usd_per_hour: float
    """For one accelerator. [USD/h]"""
    basis: Literal["user", "cluster", "accelerator"]
    """The user's own; that of this cluster; or, where that is not known, one that somebody asks for the
    accelerator elsewhere."""
    seller: str = ""
    kind: str = ""
    day: str = ""
    source: str = ""
    """Who asks it, for what (on demand, spot, reserved, list), when, and where it stands, as far as said."""

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

    Energy takes every accelerator at its rated power for the whole step, which is an upper bound, but for the
    parts of which measured watts are known (`joules_of`).
    """

    usd_per_step: float | None
    joules_per_step: float | None
    days_to_train: float | None
    usd_to_train: float | None

    def stretched(self, share: float) -> Bill:
        """Return the bill of a step that takes so many times as long."""
        parts = (self.usd_per_step, self.joules_per_step, self.days_to_train, self.usd_to_train)
        return Bill(*(None if part is None else share * part for part in parts))


@dataclass(frozen=True)
class Phases:
    """Seconds of a step by what an accelerator does: compute, send and receive, wait. [s]"""

    computing: float
    communicating: float
    waiting: float


def joules_of(job: Job, phases: Phases) -> float | None:
    r"""Energy of all accelerators in a step; None where not even the rated power is known. [J]

    .. math:: E = n \sum_i P_i t_i

    Parameters
    ----------
    job : Job
        The accelerators and what they draw.
    phases : Phases
        Seconds of each part on the slowest stage; others compute less and wait more.

    Notes
    -----
    Compute takes the rated power; parts whose watts nobody measured do so too.

    References
    ----------
    .. [1] P. Patel et al., "POLCA: Power Oversubscription in LLM Cloud Providers," arXiv:2308.12908, 2023:
       A100 reach their rated power in the passes of a training step, fall to half of it where GPT-NeoX
       communicates, and idle at a fifth.
    """
    accelerator = job.hardware.pool.accelerator
    if (rated := accelerator.power) is None:
        return None
    watts = (rated, accelerator.power_communicating or rated, accelerator.power_waiting or rated)
    parts = (phases.computing, phases.communicating, phases.waiting)
    return job.gpus * sum(float(power) * seconds for power, seconds in zip(watts, parts, strict=True))


def bill_of(job: Job, step: float, phases: Phases | None = None) -> Bill:
    """Return what steps of ``step`` seconds cost.

    Parameters
    ----------
    job : Job
        Cluster with prices and rated power, accelerators, and training tokens.
    step : float
        Seconds of an optimizer step. [s]
    phases : Phases, optional
        Its parts; all of it computes where none are given.
    """
    pool, workload = job.hardware.pool, job.workload
    price = pool.price_per_hour
    usd = float(price) * job.gpus * step / HOUR if price is not None else None
    steps = workload.tokens / workload.tokens_per_step if workload.tokens else None
    return Bill(
        usd_per_step=usd,
        joules_per_step=joules_of(job, phases or Phases(step, 0.0, 0.0)),
        days_to_train=steps * step / DAY if steps is not None else None,
        usd_to_train=steps * usd if steps is not None and usd is not None else None,
    )
