"""Settings of a runtime: which ones matter for a job, what they are, and the runtime with another value."""

from __future__ import annotations

from collections.abc import Mapping

from planner.plan import Plan
from planner.remembered import remembered
from planner.runtimes._family import Job, Runtime
from planner.runtimes._settings import word
from planner.runtimes._traits import Traits
from planner.techniques.settings import SETTINGS, Setting


def settings_that_matter(job: Job, runtime: Runtime) -> list[Setting]:
    """Return the settings of a runtime that change anything of a job, in the order of their names."""
    own = (SETTINGS[name] for name in sorted(runtime.searched))
    return [one for one in own if one.matters(job.model, job.workload)]


def settings_of(job: Job, runtime: Runtime) -> Mapping[str, str | None]:
    """Return the value of each setting that matters for a job; None where the traits have none of them."""
    traits, dtype = runtime.traits, job.workload.gradient_dtype
    if dtype is not None:
        traits = traits.with_values(gradient_dtype=dtype, reduce_dtype=dtype)
    return {one.name: one.value_of(traits) for one in settings_that_matter(job, runtime)}


def changed_settings(job: Job, runtime: Runtime, plain: Traits) -> dict[str, str]:
    """Return the settings that matter for a job and have another value than with the plain traits."""
    return {
        one.name: value
        for one in settings_that_matter(job, runtime)
        if (value := one.value_of(runtime.traits)) is not None and value != one.value_of(plain)
    }


def settings_left_out(plan: Plan, job: Job, runtime: Runtime) -> tuple[tuple[str, str, str], ...]:
    """Return name, value and reason of the settings that a plan runs otherwise than they are set."""
    return tuple((*_said(runtime, idle.trait), idle.reason) for idle in runtime.left_out(plan, job))


def _said(runtime: Runtime, trait: str) -> tuple[str, str]:
    """Return name and value of the setting that decides a trait, or of the trait itself."""
    for name in runtime.searched:
        value = SETTINGS[name].value_of(runtime.traits)
        if value is not None and trait in SETTINGS[name].values[value]:
            return name, value
    return trait, word(runtime.traits.value_of(trait))


@remembered(most=4096)
def with_value(runtime: Runtime, setting: str, value: str) -> Runtime:
    """Return a runtime whose traits are those of a setting's value: one and the same for one question."""
    return runtime.with_traits(**SETTINGS[setting].values[value])


def unmeasured(job: Job, runtime: Runtime) -> list[str]:
    """Return the settings of a job, with their values, that no measured run has."""
    return [
        f"{one.name} {value}"
        for one in settings_that_matter(job, runtime)
        if (value := one.value_of(runtime.traits)) is not None
        and value != one.plain
        and value not in (one.evidence or {})
    ]
