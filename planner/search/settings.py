"""Settings as axes of a search: which are scanned together, and which are tried on the best plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planner.cost.estimate import Estimate, parts_of
from planner.cost.settings import settings_that_matter, with_value
from planner.cost.step.parts import PlanParts
from planner.dataclasses import dataclass
from planner.plan import Plan
from planner.runtimes.family import Job, Runtime
from planner.search.known import priced
from planner.techniques.settings import Setting

WORTH: Final = 0.001
"""Share of the objective that a setting beside the usual one must gain to be kept. [-]"""

PROBED: Final = ("tp", "pp", "vpp", "ep", "micro_batch")
"""Degrees of the plans with which it is seen whether any may have a setting: one and two of each."""

MANY: Final = 64.0
"""Sequences of a large micro-batch there: it has equal parts. [sequence]"""

Worth = Callable[[Estimate], float]
"""The objective of a plan; infinite where it may not be shown."""

Least = Callable[[PlanParts], float]
"""What the objective of a plan is at least."""


@dataclass(frozen=True)
class OpenSettings:
    """Which settings a search may choose."""

    pinned: tuple[str, ...] = ()
    """Settings that the user has set."""
    allowed: tuple[str, ...] = ()
    """Settings that change numerics and may be chosen all the same."""

    def of(self, job: Job, runtime: Runtime) -> list[Setting]:
        """Return them for a job; none of a release for which no files are written."""
        if runtime.release and runtime.release not in runtime.versions:
            return []
        return [
            setting
            for setting in settings_that_matter(job, runtime)
            if setting.name not in self.pinned
            and (setting.name in self.allowed or not setting.numerics)
            and setting.value_of(runtime.traits) is not None
        ]


def scanned_runtimes(job: Job, runtime: Runtime, settings: Iterable[Setting]) -> list[Runtime]:
    """Return the runtime with the settings under which all plans are priced.

    Settings that forbid no plan are taken at their last values. Of those that do, plans are priced without
    any, and with all of them, once for each value of the first; a search tries the others on the best plans.
    What no plan may have beside one of them is plain there.
    """
    known = list(settings)
    free = [setting for setting in known if not setting.scanned]
    for setting in free:
        runtime = _with_last(job, runtime, setting)
    needed = bool(job.model.expert_kinds)
    binding = [setting for setting in known if setting.scanned and (needed or setting.everywhere)]
    if not binding:
        return [runtime]
    first, *others = binding
    found = [runtime]
    for value in first.scanned:
        other = with_value(runtime, first.name, value)
        for setting in others:
            other = with_value(other, setting.name, setting.scanned[-1])
        plainer = (with_value(other, setting.name, setting.plain) for setting in free)
        found += [one for one in (other, *plainer) if some_plan_has(job, one)][:1]
    return found


def _with_last(job: Job, runtime: Runtime, setting: Setting) -> Runtime:
    """Return the runtime with the last value of a setting that some plan may have."""
    others = (with_value(runtime, setting.name, value) for value in reversed(list(setting.values)))
    return next((other for other in others if some_plan_has(job, other)), runtime)


def some_plan_has(job: Job, runtime: Runtime) -> bool:
    """Whether release and accelerator let some plan have the settings of a runtime.

    Rules on settings look at the degrees of a plan for whether they are above one, and at names.
    """
    cells = np.indices((2,) * len(PROBED)).reshape(len(PROBED), -1)
    degrees: dict[str, Any] = {name: 1.0 + cell for name, cell in zip(PROBED, cells, strict=True)}
    degrees["micro_batch"] = MANY ** cells[PROBED.index("micro_batch")].astype(float)
    names = product(runtime.zero_stages, runtime.recomputes, (True, False), runtime.schedules)
    return any(
        np.any(obeys(Plan(**degrees, zero=z, recompute=r, sequence_parallel=s, schedule=t), job, runtime))
        for z, r, s, t in names
    )


def obeys(plan: Plan, job: Job, runtime: Runtime) -> NDArray[np.bool_]:
    """Return which plans of a batch keep the rules on settings."""
    left = np.ones(plan.shape, dtype=bool)
    for rule in runtime.setting_rules(plan, job, runtime):
        left &= rule.holds
    return left


def with_best_settings(
    answer: Estimate, usual: Runtime, settings: Iterable[Setting], worth: Worth, at_least: Least
) -> Estimate:
    """Return a plan with the settings that are best for it, one changed at a time until none is better.

    What gains nothing worth having, in time or memory, stays as it is by default.

    ``answer``: a plan of a search; ``usual``: the runtime as it is where nobody sets anything; ``at_least``:
    what that is at least: settings with which a plan cannot be better are not priced in full.
    """
    known = list(settings)
    best, least = answer, worth(answer)
    while True:
        tried: dict[tuple[str, str], Estimate] = {}
        for setting, value in _changes(best, known):
            parts = parts_of(best.plan, best.job, with_value(best.runtime, setting.name, value))
            if at_least(parts) < least:
                tried[setting.name, value] = _with(best, setting, value, parts)
        found = min(tried.values(), key=worth, default=best)
        if worth(found) >= least:
            break
        best, least = found, worth(found)
    for setting in known:
        plain = setting.value_of(usual.traits)
        if plain is not None and plain != setting.value_of(best.runtime.traits):
            other = tried.get((setting.name, plain)) or _with(best, setting, plain)
            if worth(other) <= least * (1.0 + WORTH) and other.peak <= best.peak * (1.0 + WORTH):
                best, tried = other, {}
    return best


def _changes(answer: Estimate, settings: Iterable[Setting]) -> Iterator[tuple[Setting, str]]:
    for setting in settings:
        own = setting.value_of(answer.runtime.traits)
        yield from ((setting, value) for value in setting.values if value != own)


def _with(answer: Estimate, setting: Setting, value: str, parts: PlanParts | None = None) -> Estimate:
    runtime = with_value(answer.runtime, setting.name, value)
    return priced(answer.plan, answer.job, runtime, answer.capacity, parts)
