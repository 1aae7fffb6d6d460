"""Settings of a plan in words: those that are not as the runtime's files have them by default."""

from __future__ import annotations

from planner.calibrate.releases import plain_traits
from planner.cost.estimate import Estimate
from planner.cost.price import Unpriced
from planner.cost.settings import changed_settings, settings_left_out, unmeasured
from planner.dataclasses import replace


def own_settings(answer: Estimate | Unpriced) -> dict[str, str]:
    """Return the settings of a plan that are not the runtime's by default, by name."""
    job, runtime = answer.job, answer.runtime
    plain = plain_traits(runtime, job.hardware.pool.accelerator.name, job.workload.precision)
    return changed_settings(job, runtime, plain)


def settings_line(answer: Estimate | Unpriced) -> list[str]:
    """Return in one line what must be set beside the layout; none where all is as by default."""
    found = own_settings(answer)
    return [f"Settings: {', '.join(f'{name} {value}' for name, value in found.items())}."] if found else []


def unproven_settings(answer: Estimate) -> list[str]:
    """Say which settings of a plan no measured run has, as a clause."""
    found = unmeasured(answer.job, answer.runtime)
    return [f"no measured run has {', '.join(found)}"] if found else []


def left_out_settings(answer: Estimate) -> list[tuple[str, str, str]]:
    """Return name, value and reason of settings that were asked for and that the plan does not run."""
    job, runtime = answer.job, answer.runtime
    traits = plain_traits(runtime, job.hardware.pool.accelerator.name, job.workload.precision)
    usual = settings_left_out(answer.plan, job, replace(runtime, traits=traits))
    return [one for one in answer.left_out if one not in usual]


def left_out_lines(answer: Estimate) -> list[str]:
    """Say which settings were asked for that the plan does not run, and why."""
    return [
        f"Not run: {name} {value}, since {reason}; priced and written without."
        for name, value, reason in left_out_settings(answer)
    ]
