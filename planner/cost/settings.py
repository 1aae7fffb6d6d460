"""Settings of a runtime: which ones matter for a job, what they are, and the runtime with another value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from planner import numeric
from planner.inputs.bands import chip_of, core_of, evidence
from planner.inputs.fitted import fitted_file
from planner.inputs.hardware import Pool
from planner.inputs.measured_bands import EXPERTS
from planner.inputs.yaml_file import read_fitted
from planner.plan import Plan
from planner.remembered import remembered
from planner.runtimes.family import Job, Runtime
from planner.runtimes.settings import word
from planner.runtimes.traits import Traits
from planner.techniques.settings import SETTINGS, Setting


def settings_that_matter(job: Job, runtime: Runtime) -> list[Setting]:
    """Return the settings of a runtime that change anything of a job, in the order of their names."""
    own = map(SETTINGS.__getitem__, _names(runtime))
    return [one for one in own if one.matters(job.model, job.workload)]


@remembered(most=4096)
def _names(runtime: Runtime) -> tuple[str, ...]:
    """Return the settings of a runtime in the order of their names."""
    return tuple(sorted(runtime.searched))


def settings_of(job: Job, runtime: Runtime) -> Mapping[str, str | None]:
    """Return the value of each setting that matters for a job; None where the traits have none of them."""
    traits, dtype = runtime.traits, job.workload.gradient_dtype
    if dtype is not None:
        traits = _in_dtype(traits, dtype)
    model, work = job.model, job.workload
    return {one.name: value for one, value in _values(runtime, traits) if one.matters(model, work)}


@remembered(most=4096, records=2)
def _values(runtime: Runtime, traits: Traits) -> tuple[tuple[Setting, str | None], ...]:
    """Return the value that traits have of each setting of a runtime, in the order of their names."""
    own = map(SETTINGS.__getitem__, _names(runtime))
    return tuple((one, one.value_of(traits)) for one in own)


@remembered(most=256)
def _in_dtype(traits: Traits, dtype: str) -> Traits:
    """Return traits whose gradients have another dtype, and are reduced in it."""
    return traits.with_values(gradient_dtype=dtype, reduce_dtype=dtype)


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


Where = tuple[str, str, bool]
"""Core, chip, and whether the model has experts."""


def where(job: Job, runtime: Runtime) -> Where:
    """Return of which runs those of a job are."""
    routed = bool(job.model.expert_kinds)
    return core_of(runtime.name), chip_of(job.hardware.pool.accelerator.name), routed


def behind(job: Job, runtime: Runtime) -> tuple[Where, ...]:
    """Return of which runs a plan's must be to stand behind it: those that its band is of."""
    return _behind(job.hardware.pool, runtime.name, bool(job.model.expert_kinds))


@remembered(most=1024)
def _behind(pool: Pool, runtime: str, routed: bool) -> tuple[Where, ...]:
    found = evidence(runtime, pool, EXPERTS if routed else "")
    return tuple((core, chip, routed) for core, chip in found)


@cache
def measured_settings() -> Mapping[tuple[Where, str], int]:
    """Return how many measured runs have a setting with a value."""
    path = fitted_file("kinds")
    return {
        ((entry["core"], entry["chip"], bool(entry["experts"])), entry["setting"]): int(entry["runs"])
        for entry in (read_fitted(path).get("settings", ()) if path.is_file() else ())
    }


def settings_run(
    plan: Plan, job: Job, runtime: Runtime, asked: Callable[[str], bool] = lambda one: True
) -> list[str]:
    """Return the settings that decide anything of a plan, each with the value that it runs, if asked for."""
    values = settings_of(job, runtime.as_run(plan, job)).items()
    run = {name: said for name, value in values if value is not None and asked(said := f"{name} {value}")}
    if not run:
        return []
    moot = {idle.trait for idle in runtime.idle if idle.when(plan, job) or numeric.all(idle.moot(plan, job))}
    return [
        said for name, said in run.items() if moot.isdisjoint(SETTINGS[name].values[said[len(name) + 1 :]])
    ]


def unseen_settings(plan: Plan, job: Job, runtime: Runtime) -> list[str]:
    """Return the settings of a plan, with their values, that no measured run behind it has."""
    known, there = measured_settings(), behind(job, runtime)
    return settings_run(plan, job, runtime, lambda one: not any((here, one) in known for here in there))
