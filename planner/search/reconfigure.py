"""New shares of all jobs of a cluster at once, after nodes are lost or come: Unicron's program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from planner.dataclasses import dataclass
from planner.formulas.elastic import share_reward_flops
from planner.formulas.failures import job_mtbf_seconds

LONG: Final = 1e9
"""Time that shares are held where nobody says how they came to be. [s]"""


@dataclass(frozen=True)
class PresentJob:
    """A job that runs."""

    name: str
    """Of the job."""
    rates: tuple[tuple[int, float], ...]
    """Accelerators that it may have, and its useful work each second on them, by its weight. [-], [FLOP/s]"""
    has: int = 0
    """Accelerators that it has now; none where it waits. [-]"""

    def rate(self, gpus: int) -> float:
        """Return its work each second: that of the largest share it may have among so many. [FLOP/s]"""
        return max((rate for count, rate in self.rates if count <= gpus), default=0.0)


@dataclass(frozen=True)
class Times:
    """What a change is weighed with."""

    device_mtbf: float
    """Mean time between failures of one accelerator. [s]"""
    transition: float
    """Of a job whose share changes. [s]"""

    def running(self, gpus: int) -> float:
        """Return the expected time until so many accelerators fail again. [s]"""
        return float(job_mtbf_seconds(self.device_mtbf, max(1, gpus)))


def best_shares(
    jobs: Sequence[PresentJob], gpus: int, running: float, transition: float, hit: str | None = None
) -> tuple[int, ...]:
    r"""Return the accelerators of each job with which all do most until the next failure.

    .. math:: S(i, j) = \max_k S(i - 1, j - k) + G(t_i, k)

    Parameters
    ----------
    jobs : sequence of PresentJob
        Those that run or wait.
    gpus : int
        Accelerators that there are. [-]
    running, transition : float
        Time until the next failure, and of a change. [s]
    hit : str, optional
        The job that lost a node: it changes whatever its share.

    References
    ----------
    .. [1] Unicron, arXiv:2401.00134, 2024: the dynamic program over tasks.
    """
    best = np.zeros(gpus + 1)
    chosen = np.zeros((len(jobs), gpus + 1), dtype=int)
    for number, job in enumerate(jobs):
        reached = np.full(gpus + 1, -np.inf)
        for count, rate in ((0, 0.0), *job.rates):
            if count > gpus:
                continue
            stays = count == job.has and job.name != hit
            worth = float(share_reward_flops(rate, running, job.rate(job.has), 0.0 if stays else transition))
            value = np.full(gpus + 1, -np.inf)
            value[count:] = best[: gpus + 1 - count] + worth
            better = value > reached
            chosen[number, better], reached = count, np.maximum(reached, value)
        best = reached
    left, shares = int(np.argmax(best)), [0] * len(jobs)
    for number in range(len(jobs) - 1, -1, -1):
        shares[number] = int(chosen[number, left])
        left -= shares[number]
    return tuple(shares)


def all_rates(jobs: Sequence[PresentJob], shares: Sequence[int]) -> float:
    """Return the useful work of all jobs each second. [FLOP/s]"""
    return sum(job.rate(share) for job, share in zip(jobs, shares, strict=True))


@dataclass(frozen=True)
class Reconfigured:
    """New shares where one job lost nodes, or where nodes came."""

    hit: str | None
    """The job that lost them; None where nodes came."""
    shares: tuple[int, ...]
    alone: tuple[int, ...]
    """Accelerators of each job by the program, and where the hit job alone changes. [-]"""
    rate: float
    alone_rate: float
    """Useful work each second of both. [FLOP/s]"""


def after_loss(jobs: Sequence[PresentJob], lost: int, gpus: int, times: Times) -> list[Reconfigured]:
    """Return the new shares for each job that may have lost its accelerators, as a table made ahead.

    Parameters
    ----------
    jobs : sequence of PresentJob
        With the shares that they have.
    lost, gpus : int
        Accelerators that are lost, and those that are left. [-]
    times : Times
        Of failures and changes.
    """
    found = []
    for job in jobs:
        if job.has < lost:
            continue
        shares = best_shares(jobs, gpus, times.running(gpus), times.transition, job.name)
        alone = tuple(
            max((count for count, _ in one.rates if count <= one.has - lost), default=0)
            if one is job
            else one.has
            for one in jobs
        )
        found.append(Reconfigured(job.name, shares, alone, all_rates(jobs, shares), all_rates(jobs, alone)))
    return found


def after_return(jobs: Sequence[PresentJob], gpus: int, times: Times) -> Reconfigured:
    """Return the new shares where there are more accelerators than the jobs have."""
    shares = best_shares(jobs, gpus, times.running(gpus), times.transition)
    has = tuple(job.has for job in jobs)
    return Reconfigured(None, shares, has, all_rates(jobs, shares), all_rates(jobs, has))
