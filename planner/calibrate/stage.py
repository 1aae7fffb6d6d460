"""A stage of the fit: some factors and the runs that can tell them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from planner.calibrate.fit import SOFT, Errors, Factor, log_errors, outcome_log_chances
from planner.calibrate.runs.defaults import PricedRun
from planner.dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """Some factors and the runs that they are fitted to."""

    name: str
    """For the report."""
    wanted: Callable[[PricedRun], bool]
    """Whether a run belongs to it."""
    factors: tuple[Factor, ...]
    """What is fitted."""
    group: Callable[[PricedRun], Hashable]
    """What runs of one group have in common, for the error out of group."""
    source: str
    """Where the runs stand."""
    measure: Errors = log_errors
    """What of the runs is fitted: their time, their memory, or whether they ran out of it."""
    soft: float = SOFT
    """Error at which a run begins to count less: more where runs vary more when repeated. [-]"""

    def runs_of(self, runs: Iterable[PricedRun]) -> list[PricedRun]:
        """Return the runs without a mark that belong to it and were timed.

        Where outcomes are fitted, those that ran out of memory count too; without one nothing is told.
        """
        judged = self.measure is outcome_log_chances
        known = (run for run in runs if run.measured.seconds or (judged and run.run.oom))
        own = [run for run in known if not run.run.mark and self.wanted(run)]
        return own if not judged or any(run.run.oom for run in own) else []
