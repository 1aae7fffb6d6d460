"""Settings as axes of a search: which are scanned together, and which are tried on the best plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, product
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


@dataclass(frozen=True)
class Variant:
    """Settings under which the plans of a job are priced."""

    runtime: Runtime
    usual: Runtime
    """The runtime with its settings, and as it is asked for."""
    beside: Runtime | None = None
    """Settings under which another scan prices the plans that may have them, which this one leaves out."""


def variants(job: Job, runtime: Runtime, settings: Iterable[Setting]) -> list[Variant]:
    """Return the settings under which all plans of a job are priced.

    Settings that are not to be scanned are taken at the last values that some plan may have; plans that
    those forbid are priced with the last values that forbid none. Of the settings to be scanned, plans are
    priced without any, and with all of them, once for each value of the first; a search tries the others on
    the best plans. What no plan may have beside one of them is plain there.
    """
    known = list(settings)
    free = [setting for setting in known if not setting.scanned]
    asked = usual = runtime
    for setting in free:
        runtime = _with_last(runtime, setting, partial(some_plan_has, job))
    found = [Variant(runtime, asked)]
    if not allows_all(job, usual, runtime):
        for setting in free:
            usual = _with_last(usual, setting, partial(allows_all, job, usual))
        found.append(Variant(usual, asked, beside=runtime))
    needed = bool(job.model.expert_kinds)
    binding = [setting for setting in known if setting.scanned and (needed or setting.everywhere)]
    for value in binding[0].scanned if binding else ():
        other = with_value(runtime, binding[0].name, value)
        for setting in binding[1:]:
            other = with_value(other, setting.name, setting.scanned[-1])
        plainer = (with_value(other, setting.name, setting.plain) for setting in free)
        found += [Variant(one, asked) for one in (other, *plainer) if some_plan_has(job, one)][:1]
    return found


def _with_last(runtime: Runtime, setting: Setting, allowed: Callable[[Runtime], bool]) -> Runtime:
    """Return the runtime with the last value of a setting that is allowed."""
    others = (with_value(runtime, setting.name, value) for value in reversed(list(setting.values)))
    return next((other for other in others if allowed(other)), runtime)


def allows_all(job: Job, usual: Runtime, runtime: Runtime) -> bool:
    """Whether every plan that may have the usual settings may have those of a runtime."""
    if runtime == usual:
        return True
    degrees = _probed_degrees()
    passes = product(runtime.zero_stages, runtime.recomputes, (True, False), runtime.schedules, ("none",))
    first = runtime.recomputes[:1], (True, False), runtime.schedules[:1]
    for z, r, s, t, o in chain(passes, product(runtime.zero_stages, *first, runtime.offloads)):
        plan = Plan(**degrees, zero=z, recompute=r, sequence_parallel=s, schedule=t, offload=o)
        if np.any(~obeys(plan, job, runtime) & obeys(plan, job, usual)):
            return False
    return True


def some_plan_has(job: Job, runtime: Runtime) -> bool:
    """Whether release and accelerator let some plan have the settings of a runtime.

    Rules on settings look at the degrees of a plan for whether they are above one, and at names.
    """
    degrees = _probed_degrees()
    names = product(runtime.zero_stages, runtime.recomputes, (True, False), runtime.schedules)
    return any(
        np.any(obeys(Plan(**degrees, zero=z, recompute=r, sequence_parallel=s, schedule=t), job, runtime))
        for z, r, s, t in names
    )


def _probed_degrees() -> dict[str, Any]:
    """Return the degrees of the plans that are asked: every combination of one and two."""
    cells = np.indices((2,) * len(PROBED)).reshape(len(PROBED), -1)
    degrees: dict[str, Any] = {name: 1.0 + cell for name, cell in zip(PROBED, cells, strict=True)}
    degrees["micro_batch"] = MANY ** cells[PROBED.index("micro_batch")].astype(float)
    return degrees


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
