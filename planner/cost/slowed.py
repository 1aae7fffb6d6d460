"""What a training takes whose steps failures slow down, however they are counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from planner.cost.estimate import Estimate
from planner.units import DAY

STUCK: Final = 20.0
"""Mean times between failures from a restart to the next checkpoint beyond which nobody waits. [-]"""


class Slowed(ABC):
    """A plan without failures, and by how much they prolong it."""

    answer: Estimate

    @property
    @abstractmethod
    def mtbf(self) -> float:
        """Mean time between failures of the job. [s]"""

    @property
    @abstractmethod
    def slowdown(self) -> float:
        """Expected time over that of the steps alone. [-]"""

    @property
    def days_to_train(self) -> float | None:
        """Days until all tokens are trained, failures included; None where no tokens are named."""
        days = self.answer.bill.days_to_train
        return None if days is None else days * self.slowdown

    @property
    def usd_to_train(self) -> float | None:
        """What these days cost; None where no tokens are named or no price is known. [USD]"""
        usd = self.answer.bill.usd_to_train
        return None if usd is None else usd * self.slowdown

    @property
    def failures_to_train(self) -> float | None:
        """Failures until all tokens are trained; None where no tokens are named. [-]"""
        return None if self.days_to_train is None else self.days_to_train * DAY / self.mtbf
