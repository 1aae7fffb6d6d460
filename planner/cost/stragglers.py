"""Steps whose ranks take different times: how long the slowest takes, and whether redundancy pays."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final

import numpy as np

from planner.cost.estimate import Estimate
from planner.dataclasses import dataclass
from planner.formulas.stragglers import coding_load, sequential_coding_load
from planner.numeric import Column

POINTS: Final = 4000
"""Quantiles at which an expected time is taken. [-]"""

MOST_LEFT: Final = 8
"""Workers that are not waited for, at most. [-]"""

BURST: Final = 1.0
"""Steps for which a worker is slow, for sequential codes: times are drawn anew at each. [-]"""

ROUNDS: Final = 4.0
"""Steps of which a worker is slow in one at most, as sequential codes are made for. [-]"""

WORTH: Final = 0.01
"""Share of the time that redundancy must gain. [-]"""

Quantile = Callable[[Column], Column]
"""Function of shares of all draws, giving times over their mean. [-]"""


def normal(spread: float) -> Quantile:
    """Return normal times of a relative spread."""
    from scipy.special import ndtri

    return lambda share: np.asarray(1.0 + spread * ndtri(share))


def exponential(spread: float) -> Quantile:
    """Return a fixed time and an exponential one, whose mean is a share of both."""
    return lambda share: 1.0 - spread - spread * np.log1p(-share)


def of_log(times: Column) -> Quantile:
    """Return the times of a log over their mean."""
    known = np.sort(times) / np.mean(times)
    return lambda share: known[np.minimum((share * len(known)).astype(int), len(known) - 1)]


def expected_order(quantile: Quantile, parts: float, workers: float, waited: float) -> float:
    r"""Return the expected time until so many workers are done, each as slow as the slowest part of it. [-]

    .. math:: E[T_{(k)}] = \int_0^1 Q\left(\left(I^{-1}_{k,n-k+1}(w)\right)^{1/p}\right) dw

    References
    ----------
    .. [1] H. A. David, H. N. Nagaraja, "Order Statistics," 3rd ed., Wiley, 2003, sec. 2.1: shares of order
       statistics are beta-distributed.
    """
    from scipy.special import betaincinv

    middles = (np.arange(POINTS) + 0.5) / POINTS
    shares = betaincinv(waited, workers - waited + 1.0, middles) ** (1.0 / parts)
    return float(np.mean(quantile(np.minimum(shares, 1.0 - 1e-12))))


@dataclass(frozen=True)
class StragglerRemedy:
    """Redundancy against slow workers."""

    name: str
    """Backup workers or gradient coding."""
    left: int
    """Workers that are not waited for. [-]"""
    time: float
    """Seconds for the samples of a whole step. [s]"""
    exact: bool
    """Whether the gradient is that of the whole batch."""
    alone: bool = True
    """Whether one training can have it; a sequential code ends gradients later, and is for several at
    once."""


@dataclass(frozen=True)
class Straggling:
    """A plan whose ranks take different times."""

    answer: Estimate
    """The plan, all ranks alike."""
    quantile: Quantile
    """Times of a rank's step over their mean."""
    said: str
    """The distribution in words."""

    @property
    def replicas(self) -> int:
        """Workers of data parallelism. [-]"""
        return int(self.answer.plan.dp)

    @property
    def parts(self) -> int:
        """Ranks of a replica that wait for one another. [-]"""
        return int(self.answer.job.gpus // self.replicas)

    def order(self, waited: int) -> float:
        """Expected step over that of ranks all alike, until so many replicas are done. [-]"""
        return expected_order(self.quantile, self.parts, self.replicas, waited)

    @cached_property
    def step(self) -> float:
        """Expected seconds of a synchronous step. [s]"""
        return self.answer.step * self.order(self.replicas)

    @cached_property
    def remedies(self) -> tuple[StragglerRemedy, ...]:
        """Backup workers and gradient codes, best first.

        A code computes more of the batch on each worker; backup workers lose the samples of those that are
        left out, so that a whole batch takes more steps.
        """
        found = []
        for left in range(1, min(MOST_LEFT, self.replicas - 1) + 1):
            waited = self.replicas - left
            alone = self.answer.step * self.order(waited)
            more = float(coding_load(self.replicas, left)) * self.replicas
            computing = self.answer.time.compute / self.answer.step
            found.append(StragglerRemedy("backup workers", left, alone * self.replicas / waited, False))
            found.append(StragglerRemedy("gradient coding", left, alone * (1 + (more - 1) * computing), True))
            load = float(sequential_coding_load(self.replicas, left, BURST, ROUNDS)) * self.replicas
            time = alone * (1 + (load - 1) * computing)
            found.append(StragglerRemedy("sequential coding", left, time, True, False))
        return tuple(sorted(found, key=lambda one: one.time))

    @property
    def best(self) -> StragglerRemedy | None:
        """The remedy that pays and that one training can have; None where waiting for all is best."""
        lead = next((one for one in self.remedies if one.alone), None)
        return lead if lead is not None and lead.time < self.step * (1 - WORTH) else None
