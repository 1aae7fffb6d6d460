"""Settings that the best plans of a job's scans want, and under which no scan has priced all plans yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Final

from planner.cost.estimate import Estimate
from planner.cost.settings import with_value
from planner.plan import Plan
from planner.runtimes.family import Runtime
from planner.search.candidates import ScanReport
from planner.search.meshes import of_further_meshes
from planner.techniques.settings import Setting

MESHES: Final = 4
"""Meshes of which the best plan is priced so, of each scan. [-]"""

GAIN: Final = 0.01
"""Share by which a plan must beat all that were found for all to be priced with its settings. [-]"""

Better = Callable[[Plan, Runtime, float], Estimate | None]
"""Prices a plan; None where it may not be shown, or takes so many seconds."""


def wanted_runtime(
    runtimes: Sequence[Runtime], reports: Sequence[ScanReport], settings: Sequence[Setting], better: Better
) -> Runtime | None:
    """Return the settings that make one of the best plans faster than all that the scans found; None without.

    Plans that wait as long for their host, or that the rules keep from a setting, are told apart only where
    all of them are priced with what the best ones would have.

    Parameters
    ----------
    runtimes, reports : sequence
        Each scan's runtime, as its settings are, and what it found.
    settings : sequence of Setting
        Those that may be chosen.
    better : callable
        Prices a plan with the settings of a runtime.
    """
    least = min((report.best[0].value for report in reports if report.best), default=float("inf"))
    least, found = least * (1.0 - GAIN), None
    tried = [one for one in _combined(runtimes[0], settings) if one not in runtimes]
    for report in reports:
        for candidate in of_further_meshes(report.best, (), MESHES):
            for combined in tried:
                for runtime in _plainer(combined, settings):
                    if runtime not in runtimes and (plan := better(candidate.plan, runtime, least)):
                        least, found = plan.step, runtime
    return found


def _combined(runtime: Runtime, settings: Sequence[Setting]) -> Iterator[Runtime]:
    """Yield a runtime with every combination of the settings that forbid plans."""
    binding = [setting for setting in settings if setting.scanned]
    for values in product(*(setting.values for setting in binding)):
        other = runtime
        for setting, value in zip(binding, values, strict=True):
            other = with_value(other, setting.name, value)
        yield other


def _plainer(runtime: Runtime, settings: Sequence[Setting]) -> Iterator[Runtime]:
    """Yield a runtime, and it with each of the settings that forbid nothing else as it is plain."""
    yield runtime
    others = (with_value(runtime, one.name, one.plain) for one in settings if not one.scanned)
    yield from (other for other in others if other != runtime)
